"""The examples of services and workers with health: each runs over a fake cluster."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import BOUND, eventually

from featuregate.cli import main
from featuregate.testing import FakeCluster

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[3] / "examples" / "health"
GATE_METRIC = 'featuregate_gate_open{cluster="default",gate="new-groups"} 1.0'


FASTAPI = """
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
    async with fastapi_app.app.router.lifespan_context(fastapi_app.app):
        await asyncio.to_thread(fastapi_app.app.state.new_groups.wait, 60)
        for path in ("/kafka/healthz", "/kafka/readyz", "/protocol", "/metrics/"):
            print(path, *await ask(path))

asyncio.run(main())
"""
FLASK = """
import flask_app
flask_app.new_groups.wait(60)
client = flask_app.app.test_client()
for path in ("/kafka/healthz", "/kafka/readyz", "/protocol", "/metrics"):
    answer = client.get(path)
    print(path, answer.status_code, answer.get_data(as_text=True))
flask_app.features.close()
"""
DJANGO = """
import django_urls
from werkzeug.test import Client
django_urls.new_groups.wait(60)
client = Client(django_urls.application)
for path in ("/kafka/healthz", "/kafka/readyz", "/protocol"):
    answer = client.get(path)
    print(path, answer.status_code, answer.get_data(as_text=True))
django_urls.features.close()
"""


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(1, release="4.2") as running:
        yield running


@pytest.mark.parametrize(
    ("framework", "service", "protocol"),
    [
        ("fastapi", FASTAPI, '{"group.protocol":"consumer"}'),  # polled in its own loop
        ("flask", FLASK, '{"group.protocol":"consumer"}'),
        ("django", DJANGO, '{"group.protocol": "consumer"}'),  # mounted beside Django's own WSGI application
    ],
)
def test_a_service_shows_its_health(brokers: FakeCluster, framework: str, service: str, protocol: str) -> None:
    """Under its own paths, beside what the service answers by its gate."""
    pytest.importorskip(framework)
    shown = run_python(service, brokers)
    assert '/kafka/healthz 200 {"status": "ok"}' in shown
    assert '/kafka/readyz 200 {"status": "ready"' in shown
    assert f"/protocol 200 {protocol}" in shown
    assert ("/metrics" in service) == (GATE_METRIC in shown)


@pytest.mark.parametrize(
    ("release", "said"), [("4.2", '/inbox 200 {"read.by":"a share group"}'), ("4.0", "/inbox 503 ")]
)
def test_a_service_answers_503_where_a_gate_is_closed(release: str, said: str) -> None:
    """With the decision, which names what is missing."""
    pytest.importorskip("flask")
    with FakeCluster(1, release=release) as brokers:
        shown = run_python(FLASK.replace('"/protocol"', '"/inbox"'), brokers)
    assert said in shown
    assert ("share.version>=1" in shown) is (release == "4.0")


def test_the_processes_of_a_celery_worker_poll_by_themselves(brokers: FakeCluster, tmp_path: Path) -> None:
    """The worker imports the tasks and then forks. A task waits for the first poll of its process."""
    pytest.importorskip("celery")
    mailbox, results = tmp_path / "mailbox", tmp_path / "results"
    mailbox.mkdir()
    results.mkdir()
    (tmp_path / "on_files.py").write_text(f"""
import os
from celery_tasks import app, new_groups, protocol
folder = {str(mailbox)!r}
app.conf.update(
    broker_url="filesystem://", result_backend="file://" + {str(results)!r},
    broker_transport_options={{"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder}},
)

@app.task
def waited():
    new_groups.wait(timeout={BOUND})
    return os.getpid(), protocol()
""")
    python_path = os.pathsep.join([str(tmp_path), str(FOLDER), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"KAFKA": brokers.bootstrap, "PYTHONPATH": python_path}
    command = [sys.executable, "-m", "celery", "--app", "on_files", "worker", "--pool", "prefork", "--concurrency", "2"]
    with subprocess.Popen([*command, "--without-gossip", "--without-mingle"], env=environment, cwd=tmp_path) as worker:
        try:
            asked = f"import on_files; print(*on_files.waited.delay().get(timeout={BOUND}))"
            process, protocol = run_python(asked, brokers, tmp_path).split()
            assert protocol == "consumer"
            assert int(process) != worker.pid
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(BOUND) == 0
        finally:
            worker.kill()


def test_a_worker_writes_its_health(brokers: FakeCluster, tmp_path: Path) -> None:
    """SIGTERM ends the worker with 0."""
    file = tmp_path / "worker.json"
    environment = os.environ | {"KAFKA": brokers.bootstrap, "HEALTH_FILE": str(file)}
    with subprocess.Popen([sys.executable, FOLDER / "worker.py"], env=environment, stdout=subprocess.PIPE) as worker:
        try:
            eventually(lambda: main(["health", str(file), "--written-within", "30"]) == 0)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(BOUND) == 0
        finally:
            worker.kill()


def run_python(code: str, brokers: FakeCluster, *folders: Path) -> str:
    environment = os.environ | {
        "KAFKA": brokers.bootstrap,
        "PYTHONPATH": os.pathsep.join([*map(str, folders), str(FOLDER), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
