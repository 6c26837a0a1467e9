"""The examples of services and workers with health: each runs over a fake cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import BOUND, eventually

from featuregate.cli import main
from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[3] / "examples" / "health"


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(1, release="4.2") as running:
        yield running


def test_a_fastapi_service_shows_its_health(brokers: FakeCluster) -> None:
    """Polled in its own loop."""
    pytest.importorskip("fastapi")
    service = """
import asyncio
import fastapi_app

async def ask(path):
    sent = []
    async def send(message): sent.append(message)
    async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
             "root_path": "", "headers": [], "http_version": "1.1", "scheme": "http", "app": fastapi_app.app}
    await fastapi_app.app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()

async def main():
    async with fastapi_app.lifespan(fastapi_app.app):
        await asyncio.to_thread(fastapi_app.app.state.new_groups.wait, 60)
        for path in ("/kafka/healthz", "/kafka/readyz", "/protocol"):
            print(path, *await ask(path))

asyncio.run(main())
"""
    shown = run_python(service, brokers)
    assert '/kafka/healthz 200 {"status": "ok"}' in shown
    assert '/kafka/readyz 200 {"status": "ready"' in shown
    assert '/protocol 200 {"group.protocol":"consumer"}' in shown


def test_a_flask_service_shows_its_health(brokers: FakeCluster) -> None:
    """Polled in a thread."""
    pytest.importorskip("flask")
    service = """
import flask_app
flask_app.new_groups.wait(60)
client = flask_app.app.test_client()
for path in ("/kafka/healthz", "/kafka/readyz", "/protocol"):
    answer = client.get(path)
    print(path, answer.status_code, answer.get_data(as_text=True))
flask_app.features.close()
"""
    shown = run_python(service, brokers)
    assert '/kafka/readyz 200 {"status": "ready"' in shown
    assert '/protocol 200 {"group.protocol":"consumer"}' in shown


def test_a_worker_writes_its_health(brokers: FakeCluster, tmp_path: Path) -> None:
    """And ends with 0 at SIGTERM."""
    file = tmp_path / "worker.json"
    environment = os.environ | {"KAFKA": brokers.bootstrap, "HEALTH_FILE": str(file)}
    with subprocess.Popen([sys.executable, FOLDER / "worker.py"], env=environment, stdout=subprocess.PIPE) as worker:
        try:
            eventually(lambda: main(["health", str(file), "--written-within", "30"]) == 0)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(BOUND) == 0
        finally:
            worker.kill()


def run_python(code: str, brokers: FakeCluster) -> str:
    environment = os.environ | {
        "KAFKA": brokers.bootstrap,
        "PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
