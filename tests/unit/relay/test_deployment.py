"""The files on the page about running a relay: a systemd unit, a manifest, and a proxy that ends TLS."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import requests
import trustme
from event_source import events_of
from relay_on_socket import serving
from waiting import eventually

import featuregate as fg
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.server import bind

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-a-relay.md"
VIEW = release_view("4.2")
BOUND = 60.0


def block(language: str) -> str:
    """Return the only block of this language on the page."""
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


@contextmanager
def edge(url: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Run nginx with the block of the page in front of a relay; give its URL and the file of its authority."""
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    files = {name: folder / name for name in ("relay.pem", "relay.key", "ca.pem")}
    issued.cert_chain_pems[0].write_to_path(files["relay.pem"])
    issued.private_key_pem.write_to_path(files["relay.key"])
    authority.cert_pem.write_to_path(files["ca.pem"])
    server = block("nginx").replace("8443", f"127.0.0.1:{port}").replace("http://127.0.0.1:8080", url)
    server = server.replace("/etc/featuregate", str(folder))
    paths = "".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    config.write_text(f"daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {paths} {server} }}")
    command = ["nginx", "-p", str(folder), "-e", str(folder / "errors"), "-c", str(config)]
    with subprocess.Popen(command) as process:
        try:
            yield f"https://127.0.0.1:{port}", str(files["ca.pem"])
        finally:
            process.terminate()


def test_nginx_ends_tls_in_front_of_a_relay(tmp_path: Path) -> None:
    """Views, long polls and events come through: none waits in a buffer."""
    if shutil.which("nginx") is None:
        pytest.skip("needs nginx, and it is not on the path")
    features = StaticFeatures(VIEW)
    with serving({"default": features}) as relay, edge(relay, tmp_path) as (url, ca):
        eventually(lambda: answers(url, ca))
        with fg.Discoverer(source=fg.HttpSource(url, verify=ca), interval=3600.0) as client:
            assert client.gate("groups", "group.version>=1").wait(BOUND)
        events = f"{url}/v1/clusters/default/events"
        with requests.get(events, verify=ca, stream=True, timeout=BOUND) as response:
            stream = events_of(response)
            assert next(stream).kind == "view"
            features.show(replace(VIEW, epoch=VIEW.epoch + 1, finalized={**VIEW.finalized, "group.version": 2}))
            assert next(stream).kind == "view"


def answers(url: str, ca: str) -> bool:
    try:
        return requests.get(f"{url}/readyz", verify=ca, timeout=BOUND).status_code == 200
    except requests.ConnectionError:
        return False
