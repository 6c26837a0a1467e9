"""Apps of a rehearsal: what they may know, and whom they may reach."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psutil
import pytest
from waiting import eventually

from featuregate.rehearsal.apps import READABLE, AppProcesses, Peer, clean_environment

pytestmark = pytest.mark.skipif(not READABLE, reason="this system does not show whom processes are connected to")

SMALL: Peer = ("127.0.0.1", 1)
CONNECT = "import socket, sys, time; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"
MAPPED = CONNECT.replace("'127", "'::ffff:127")
BY_A_CHILD = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]], start_new_session=True)"
)
BY_A_CLEAN_CHILD = BY_A_CHILD.replace("start_new_session=True", "env=dict()")


@pytest.fixture
def listener() -> Iterator[Peer]:
    """Yield the address of somebody who accepts connections."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()


@contextmanager
def started(command: str, *, small: Peer, real: Peer) -> Iterator[AppProcesses]:
    apps = AppProcesses([command], {"PATH": "/usr/bin:/bin"}, {small}, {real})
    apps.start()
    try:
        yield apps
    finally:
        apps.close()


def command(code: str, *arguments: object) -> str:
    quoted = " ".join(f'"{each}"' for each in arguments)
    return f'{sys.executable} -c "{code}" {quoted}'


def until(apps: AppProcesses, seen: Callable[[], object]) -> None:
    """Look again and again, as the loop of a rehearsal does."""
    eventually(lambda: (apps.look(), seen())[1])


@pytest.mark.parametrize(
    ("clean", "code"),
    [
        ("", CONNECT),
        ("", MAPPED),
        ("", BY_A_CHILD),
        ("env -i ", CONNECT),
        ("env -i ", BY_A_CHILD),
        ("", BY_A_CLEAN_CHILD),
    ],
    ids=["itself", "by IPv6", "a child in its own session", "without a variable", "its child", "a child without one"],
)
def test_an_app_that_reaches_the_real_cluster_ends_at_once(clean: str, code: str, listener: Peer) -> None:
    """The rehearsal ends, and the broker is named. Without the address nobody notices."""
    line = clean + command(code, listener[1], CONNECT)
    with started(line, small=SMALL, real=listener) as apps:
        with pytest.raises(KeyboardInterrupt):
            until(apps, lambda: False)
        assert apps.strayed.endswith(f"connected to 127.0.0.1:{listener[1]}, a broker of the real cluster")
        eventually(apps.ended)
    with started(line, small=listener, real=SMALL) as apps:
        until(apps, lambda: not apps.unseen())
        assert apps.strayed == ""


def test_no_process_is_read_that_ran_before_the_apps(monkeypatch: pytest.MonkeyPatch, listener: Peer) -> None:
    """It is none of theirs, and a machine may have thousands, of which each look would read the environments."""
    read, environ = list[int](), psutil.Process.environ
    monkeypatch.setattr(psutil.Process, "environ", lambda each: (read.append(each.pid), environ(each))[1])
    with started(command(CONNECT, listener[1]), small=listener, real=SMALL) as apps:
        until(apps, lambda: not apps.unseen())
        assert {process.pid for process in apps.connected[0]} <= set(read)
    assert os.getpid() not in read


def test_each_port_of_a_host_of_the_real_cluster_counts() -> None:
    """A broker has listeners that nobody told us of. This machine has brokers of both."""
    apps = AppProcesses([], {}, set(), {("192.0.2.7", 9092), ("127.0.0.1", 9092)})
    assert apps.is_real(("192.0.2.7", 9093))
    assert apps.is_real(("127.0.0.1", 9092))
    assert not apps.is_real(("127.0.0.1", 9093))
    apps.close()


def test_an_app_knows_no_address_and_no_secret_of_another_cluster() -> None:
    """Unless the user lets a variable through."""
    given = {
        "PATH": "/bin",
        "KAFKA_BROKERS": "prod:9092",
        "DB_PASSWORD": "x",
        "BOOTSTRAP_SERVERS": "prod:9092",
        "LC_ALL": "C",
    }
    small = {"BOOTSTRAP_SERVERS": "127.0.0.1:1", "FEATUREGATE_BOOTSTRAP_SERVER": "127.0.0.1:1"}
    kept = {"PATH": "/bin", "LC_ALL": "C"}
    assert clean_environment(given, [], "127.0.0.1:1") == kept | small
    assert clean_environment(given, ["DB_PASSWORD"], "127.0.0.1:1") == kept | small | {"DB_PASSWORD": "x"}


def test_a_process_that_takes_the_place_of_another_one_is_a_restart(listener: Peer) -> None:
    """A supervisor would hide it."""
    again = (
        "import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', sys.argv[2], sys.argv[1]])"
    )
    once = CONNECT.replace("time.sleep(600)", "s.recv(1)")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        line = command(again, server.getsockname()[1], once)
        with started(line, small=server.getsockname(), real=SMALL) as apps:
            first = server.accept()[0]
            until(apps, lambda: not apps.unseen())
            assert apps.restarted() == [f"{line} was restarted: 1 processes connected again"]
            assert apps.restarted() == []
            first.close()
            second = server.accept()[0]
            until(apps, lambda: len(apps.connected[0]) == 2)
            assert apps.restarted() == [f"{line} was restarted: 1 processes connected again"]
            second.close()


def test_an_app_that_ends_and_errors_that_it_prints_are_told() -> None:
    """Each error once."""
    code = "import sys; print('all is well'); print('ERROR broken'); sys.exit(3)"
    with started(command(code), small=SMALL, real=SMALL) as apps:
        eventually(apps.ended)
        assert apps.ended() == [f"{command(code)} ended with 3"]
        assert apps.new_errors() == [f"{command(code)} printed 1 line with errors: ERROR broken"]
        assert apps.new_errors() == []
