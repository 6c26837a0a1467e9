"""Forks at any moment: each thread of ours goes on in the child, because no thread is the first to import a module."""

import multiprocessing
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import requests
from relay_on_socket import serving
from threads_of_ours import PROGRAMS, ROOT, imported_by, never_done
from waiting import eventually

import featuregate as fg
from featuregate import before_forks, forks
from featuregate.testing import FakeCluster

BOUND = 30.0
GONE = "127.0.0.1:9"
FAILS = "done = lambda: features.health()['failures'] > 1\n"
FAILING = {
    "brokers that are down": "features = fg.Discoverer(where, interval=0.01)",
    "a listener without TLS": "features = fg.Discoverer({'bootstrap.servers': where, 'security.protocol': 'SSL'})",
    "a listener without SASL": (
        "features = fg.Discoverer({'bootstrap.servers': where, 'security.protocol': 'SASL_PLAINTEXT',"
        " 'sasl.mechanism': 'SCRAM-SHA-256', 'sasl.username': 'u', 'sasl.password': 'p'})"
    ),
    "a token endpoint that is down": (
        "features = fg.Discoverer({'bootstrap.servers': where, 'security.protocol': 'SASL_PLAINTEXT',"
        " 'sasl.mechanism': 'OAUTHBEARER', 'sasl.oauthbearer.method': 'oidc', 'sasl.oauthbearer.client.id': 'c',"
        f" 'sasl.oauthbearer.client.secret': 's', 'sasl.oauthbearer.token.endpoint.url': 'http://{GONE}/'}})"
    ),
    "a relay that is down": "features = fg.Discoverer(source=fg.HttpSource(f'http://{where}'), interval=0.01)",
    "a source that raises": (
        "class Wrong:\n    timeout = 1.0\n    async def fetch(self): raise ValueError\n"
        "features = fg.Discoverer(source=Wrong())"
    ),
}
OTHERS = {
    "a latch topic that cannot be read": (
        "from featuregate_confluent import TopicLatchStore\n"
        f"store = TopicLatchStore({{'bootstrap.servers': '{GONE}', 'log_level': 0}}, app='orders', timeout=0.5)\n"
        "features = fg.Discoverer(where, latch_store=store, interval=0.05); features.start()\n"
        "done = lambda: 'featuregate-latches' in str(features.health()['reasons'])\n"
    ),
    "usage that cannot be sent": (
        "from featuregate_librdkafka.usage_topic import UsageTopic\n"
        f"send = UsageTopic({{'bootstrap.servers': '{GONE}'}}, timeout=0.5)\n"
        "features = fg.Discoverer(where, usage=fg.UsageReporter(send, app='orders')); features.start()\n"
        "done = lambda: features.health()['usage']['failed']\n"
    ),
    "a hook that raises": (
        "def hook(event): hook.called = True; raise ValueError\n"
        "features = fg.Discoverer(where, interval=0.05); features.on_event(hook); features.start()\n"
        "done = lambda: hasattr(hook, 'called')\n"
    ),
}
EVERY = {**PROGRAMS, **{name: f"import featuregate as fg\n{program}\n" for name, program in OTHERS.items()}}


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """The address of a cluster, and the URL of a relay that polls it."""
    with (
        FakeCluster(1, release="4.2") as cluster,
        fg.Discoverer(cluster.bootstrap) as features,
        serving({"default": features}) as url,
    ):
        yield {"relay client": url, "": cluster.bootstrap}


@pytest.mark.parametrize("name", EVERY)
def test_no_thread_of_ours_is_the_first_to_import_a_module(places: dict[str, str], tmp_path: Path, name: str) -> None:
    """A fork within such an import leaves the child half a module, which none of its threads can ever import."""
    assert imported_by(EVERY[name], places.get(name, places[""]), tmp_path) == {}


@pytest.mark.parametrize("name", FAILING)
def test_no_poll_that_fails_imports_a_module(places: dict[str, str], tmp_path: Path, name: str) -> None:
    """Nor does the way to an error, and to the log."""
    where = GONE if "down" in name else places[""]
    program = f"import featuregate as fg\n{FAILING[name]}\nfeatures.start()\n{FAILS}"
    assert imported_by(program, where, tmp_path) == {}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_child_that_is_forked_while_a_thread_starts_goes_on(
    places: dict[str, str], tmp_path: Path, name: str
) -> None:
    """At any moment: proved for each two milliseconds."""
    assert never_done(PROGRAMS[name], places.get(name, places[""]), tmp_path, [0, 0.005, 0.02]) == []


@pytest.mark.proof("net")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_child_that_is_forked_at_any_moment_goes_on(places: dict[str, str], tmp_path: Path, name: str) -> None:
    """From the start of the thread to long after its first work."""
    delays = [milliseconds / 1000 for milliseconds in range(0, 51, 2)]
    assert never_done(PROGRAMS[name], places.get(name, places[""]), tmp_path, delays) == []


IMPORTS_LATE = """
import pathlib, sys
import featuregate as fg
from featuregate import before_forks
pathlib.Path(folder, 'slow_module.py').write_text('import time; time.sleep(0.4)')
sys.path.append(folder)
def send(report):
    import slow_module
    sent.append(report)
sent = []
features = fg.Discoverer(where, interval=0.05, usage=fg.UsageReporter(send, app='orders'))
gate = features.gate('zstd', fg.presets.zstd)
done = lambda: (features.ensure_polling(), sent)[1]
while 'slow_module' not in sys.modules: pass
"""


def test_a_fork_waits_for_what_a_sender_of_the_app_imports(places: dict[str, str], tmp_path: Path) -> None:
    """The app's own code runs in our threads, and may import what it likes."""
    assert never_done(IMPORTS_LATE, places[""], tmp_path, [0]) == []


WRITES_SLOWLY = """
import logging, threading, time
import featuregate as fg
class Slow(logging.Handler):
    stream = threading.Lock()
    def emit(self, record):
        with self.stream: time.sleep(0.2)
logging.getLogger('featuregate').addHandler(Slow())
features = fg.Discoverer(where, interval=0.01)
done = lambda: (features.ensure_polling(), features.health()['failures'] > 3)[1]
features.start()
while not Slow.stream.locked(): pass
"""


def test_a_fork_waits_for_what_our_threads_write_to_a_log(tmp_path: Path) -> None:
    """The lock of a stream, such as that of sys.stderr, is held for good in a child that is forked within a write."""
    assert never_done(WRITES_SLOWLY, GONE, tmp_path, [0, 0.05]) == []


IN_A_THREAD = """
import signal, threading
import featuregate as fg
threading.Thread(target=lambda: [fg.discover(where) for _ in range(100)], daemon=True).start()
done = lambda: (signal.alarm(10), fg.discover(where))[1]
"""


def test_a_fork_waits_for_the_first_use_of_a_name_in_a_thread_of_the_app(
    places: dict[str, str], tmp_path: Path
) -> None:
    """A name is imported when it is first used, by whatever thread uses it."""
    assert never_done(IN_A_THREAD, places[""], tmp_path, [0, 0.005, 0.02, 0.04]) == []


def test_without_that_wait_the_child_waits_for_ever(places: dict[str, str], tmp_path: Path) -> None:
    """Whom it would wait for is in the parent."""
    unguarded = IMPORTS_LATE.replace("sent = []", "sent = []; before_forks.WAIT_SECONDS = 0")
    assert never_done(unguarded, places[""], tmp_path, [0], within=2.0) == [0]


def test_a_fork_waits_for_a_second_at_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an import never ends, the app forks all the same."""
    monkeypatch.setattr(before_forks, "_is_busy", lambda: True)
    monkeypatch.setattr(before_forks, "WAIT_SECONDS", 0.05)
    with warnings.catch_warnings(action="ignore"):
        child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_one_owner_that_fails_in_a_child_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """Each has locks of its own to renew, in the order in which they came."""
    told: list[object] = []

    class Owner:
        def forked(self) -> None:
            told.append(self)
            if self is fails:
                raise ValueError

    fails, other = Owner(), Owner()
    forks.follow_forks(fails)
    forks.follow_forks(other)
    forks._after_fork()
    assert told == [fails, other]
    assert "'Owner' could not be made ready" in caplog.text


def _opens(_: int) -> bool:
    return bool(eventually(lambda: POOLED.open, "the gate", 30.0))


POOLED: fg.Gate


def test_each_worker_of_a_pool_that_is_forked_at_once_opens_its_gate(places: dict[str, str]) -> None:
    """As apps do: a gate at the top of a module, and a pool right below."""
    global POOLED  # noqa: PLW0603 - as a module of an app has it
    with fg.Discoverer(places[""]) as features:
        POOLED = features.gate("zstd", fg.presets.zstd)
        with warnings.catch_warnings(action="ignore"), multiprocessing.get_context("fork").Pool(4) as pool:
            assert pool.map(_opens, range(16), chunksize=1) == [True] * 16


@contextmanager
def gunicorn(where: str) -> Iterator[str]:
    """Serve the Flask service of the page by four workers that are forked once the app is loaded; give its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "4", "--bind", address, "flask_app:app"]
    environment = {**os.environ, "KAFKA": where, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    server = subprocess.Popen(
        command, cwd=ROOT / "examples" / "health", env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(BOUND)


@pytest.mark.proof("net")
@pytest.mark.parametrize("start", range(5))
def test_each_worker_of_gunicorn_that_preloads_the_app_opens_its_gate(places: dict[str, str], start: int) -> None:
    """Forty answers in a row come from each of four workers, but for one time in 25,000."""
    pytest.importorskip("gunicorn")
    with gunicorn(places[""]) as url:
        answers = partial(requests.get, f"{url}/protocol", timeout=BOUND)
        eventually(
            lambda: all(answers().json() == {"group.protocol": "consumer"} for _ in range(40)),
            f"the gate of each worker, start {start}",
            within=60.0,
            despite=(requests.ConnectionError,),
        )
