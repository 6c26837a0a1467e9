"""The files on the page about running a relay: a systemd unit and a manifest."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-a-relay.md"
BOUND = 60.0


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.+?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With the command of this installation, because systemd looks for it. A key that it does not know is a warning."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze, and it is not on the path")

    def verified(text: str) -> str:
        unit = tmp_path / "featuregate-relay.service"
        unit.write_text(text.replace("/opt/featuregate/bin/featuregate", sys.executable))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=BOUND, check=False
        )
        return "\n".join(line for line in done.stderr.splitlines() if unit.name in line)

    assert verified(block("ini")) == ""
    assert "NoNewPrivilege" in verified(block("ini").replace("NoNewPrivileges", "NoNewPrivilege"))


def test_the_manifest_is_one_of_kubernetes() -> None:
    """By the schemas of Kubernetes; a field of another name is refused."""
    validator = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate, which is 100 MB")
    import yaml  # noqa: PLC0415 - comes with it

    def check(text: str) -> None:
        validator.validate(yaml.safe_load(text), validator.latest_version(), strict=True)

    check(block("yaml"))
    with pytest.raises(validator.ValidationError):
        check(block("yaml").replace("readinessProbe", "readyProbe"))
