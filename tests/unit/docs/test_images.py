"""The steps of the Dockerfiles, in a venv in place of an image."""

import os
import re
import shlex
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from doc_pages import ROOT
from waiting import BOUND, eventually

from featuregate.testing import FakeCluster

FOLDER = ROOT / "examples/docker"
PAGE = ROOT / "docs/how-to/install.md"


@pytest.mark.parametrize("name", ["app", "service", "relay"])
def test_the_page_shows_the_file(name: str) -> None:
    """As it is."""
    assert f"```dockerfile\n{(FOLDER / f'{name}.Dockerfile').read_text()}```" in PAGE.read_text()


def build(name: str, root: Path) -> tuple[Path, list[str]]:
    """Carry the steps of a Dockerfile out below a folder; return its ``bin`` and its command."""
    wheels = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*wheels, "--wheel-dir", root / "wheels", ROOT], check=True)
    venv.create(root / "venv", with_pip=True)
    path = root / "venv/bin"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    text = (FOLDER / f"{name}.Dockerfile").read_text().replace("\\\n", "")
    for step in re.findall(r"^RUN (.*)$", text, re.MULTILINE):
        subprocess.run(
            step.replace("/wheels/", f"{root}/wheels/").replace("/app/", f"{root}/"),
            shell=True,
            env=environment,
            check=True,
        )
    (command,) = re.findall(r"^(?:CMD|ENTRYPOINT) \[(.*)\]$", text, re.MULTILINE)
    return path, shlex.split(command.replace(",", " "))


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.proof("docs")
@pytest.mark.slow
def test_an_image_of_an_app_asks_its_cluster(tmp_path: Path) -> None:
    """With confluent-kafka and a latch store."""
    path, command = build("app", tmp_path)
    app = tmp_path / "app.py"
    app.write_text(
        "import sys, confluent_kafka, featuregate as fg\n"
        "with fg.Discoverer(sys.argv[1], latch_store=sys.argv[2]) as features:\n"
        "    gate = features.gate('zstd', 'zstd')\n"
        "    sys.exit(not gate.wait(60))\n"
    )
    assert command == ["python", "/app/app.py"]
    with (
        FakeCluster(1) as kafka,
        started([f"{path}/python", str(app), kafka.bootstrap, "latches"], tmp_path) as process,
    ):
        assert process.wait(BOUND) == 0
    assert list((tmp_path / "latches").iterdir())


@pytest.mark.proof("docs")
@pytest.mark.slow
def test_an_image_of_a_service_is_ready_and_keeps_its_latches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers answer the probes of the manifest, and write into one folder."""
    (tmp_path / "requirements.txt").write_text("fastapi\nuvicorn\n")
    (tmp_path / "service.py").write_text((ROOT / "examples/health/fastapi_app.py").read_text())
    path, command = build("service", tmp_path)
    (spec,) = (each["spec"]["template"]["spec"] for each in manifests() if each["kind"] == "Deployment")
    (container,) = spec["containers"]
    with FakeCluster(1) as kafka, socket.create_server(("127.0.0.1", 0)) as reserved:
        monkeypatch.setenv("KAFKA", kafka.bootstrap)
        monkeypatch.setenv("LATCHES", str(tmp_path / "latches"))
        port = reserved.getsockname()[1]
        reserved.close()
        address = ("--host=127.0.0.1", f"--port={port}")
        assert command[2:4] == ["--host=0.0.0.0", "--port=8000"]
        with started([f"{path}/{command[0]}", command[1], *address, *command[4:]], tmp_path):
            for probe in ("readinessProbe", "livenessProbe"):
                url = f"http://127.0.0.1:{port}{container[probe]['httpGet']['path']}"
                eventually(lambda url=url: requests.get(url, timeout=BOUND).ok, despite=(requests.ConnectionError,))
            protocol = f"http://127.0.0.1:{port}/protocol"
            eventually(lambda: requests.get(protocol, timeout=BOUND).json() == {"group.protocol": "consumer"})
            eventually(lambda: list((tmp_path / "latches").glob("*")))


def manifests() -> list[dict[str, Any]]:
    return [
        yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.proof("docs")
@pytest.mark.slow
def test_an_image_of_a_relay_serves(tmp_path: Path) -> None:
    """By the file that is mounted."""
    path, command = build("relay", tmp_path)
    with FakeCluster(1) as kafka:
        file = tmp_path / "relay.toml"
        file.write_text(f'listen = "127.0.0.1:0"\n[clusters.a]\nproperties.bootstrap.servers = "{kafka.bootstrap}"\n')
        program = [f"{path}/{command[0]}", *command[1:-1], str(file)]
        with started(program, tmp_path) as process:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "serving" in line)
            url = said.split(" at ")[1].strip().rpartition("/v1")[0]
            eventually(lambda: requests.get(f"{url}/readyz", timeout=BOUND).ok)
