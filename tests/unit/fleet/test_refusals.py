"""What commands of the fleet refuse before they read anything or start Spark: compared whole with ``refusals.txt``."""

from pathlib import Path

import pytest
from transcripts import in_this_process, replayed, sections

from featuregate.catalog import captured, features
from featuregate_fleet.evidence.reasons import REASONS

DATA = Path(__file__).parents[2] / "data"
NAMED = {
    "LOG": str(DATA / "request_logs" / "3.9.2.log"),
    "PAGE": str(DATA / "metrics" / "3.9.2-strimzi-1.0.1.txt"),
    "RELEASES": ", ".join(captured()),
    "FEATURES": ", ".join(features()),
    "REASONS": ", ".join(sorted(REASONS)),
}
REFUSALS = sections(__file__, "refusals.txt")


@pytest.mark.parametrize("scene", REFUSALS)
def test_what_cannot_be_used_is_one_line(
    scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to write instead, and without passwords. No folder is made of a typing error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for folder in ("logs", "tables"):
        (tmp_path / folder).mkdir()

    assert replayed(REFUSALS[scene], in_this_process(capsys), NAMED, list) == REFUSALS[scene]
    assert not any("secret" in line for line in REFUSALS[scene].splitlines() if not line.startswith("$"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "logs", "tables"]
