"""``featuregate serve``: a process that serves until it is told to stop."""

import argparse
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from relay_on_socket import served
from waiting import eventually

import featuregate as fg
from featuregate.cli.plugin import CommandError, gate_requirements
from featuregate.errors import RequirementError
from featuregate.testing import FakeCluster
from featuregate_relay import command

BOUND = 60.0
SERVE = """
import argparse, sys
from featuregate_relay import command
parser = argparse.ArgumentParser()
parser.set_defaults(bootstrap_server=None, bootstrap_controller=None, command_config=None, broker_list="cluster",
                    timeout=None, command="serve")
command.add_options(parser)
sys.exit(command.run(parser.parse_args()))
"""


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_options(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_comes(ending: signal.Signals) -> None:
    with FakeCluster(1) as brokers:
        options = ["--bootstrap-server", brokers.bootstrap, "--listen", "127.0.0.1:0", "--name", "orders"]
        with served(*options, program=("-c", SERVE)) as relay:
            url, process = relay.url, relay.process
            eventually(lambda: requests.get(f"{url}/readyz", timeout=BOUND).status_code == 200)
            with fg.Discoverer(source=fg.HttpSource(url, cluster="orders")) as features:
                assert features.gate("groups", "kip848").wait(BOUND)  # which depends on a config of brokers
            with ThreadPoolExecutor() as clients:
                view = f"{url}/v1/clusters/orders/view?wait=30"
                waiting = clients.submit(requests.get, view, headers={"If-None-Match": "*"}, timeout=BOUND)
                number = 'requests_waiting{cluster="orders"} 1'
                eventually(lambda: number in requests.get(f"{url}/metrics", timeout=BOUND).text)
                process.send_signal(ending)
                assert waiting.result().status_code == 304  # answered, not cut off
            assert process.wait(BOUND) == 0
            assert process.stderr.read() == ""


DRAINING = """
from featuregate_relay import server
server.DRAIN_SECONDS = 1
"""


def test_a_client_that_never_ends_its_request_does_not_hold_up_the_end() -> None:
    """What is under way has the time of draining, and no more; others are answered meanwhile."""
    with FakeCluster(1) as brokers:
        options = ["--bootstrap-server", brokers.bootstrap, "--listen", "127.0.0.1:0"]
        with served(*options, program=("-c", DRAINING + SERVE)) as relay:
            with socket.create_connection(("127.0.0.1", int(relay.url.rpartition(":")[2])), timeout=BOUND) as client:
                client.sendall(b"POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
                assert requests.get(f"{relay.url}/healthz", timeout=BOUND).status_code == 200  # that one has come, too
                relay.process.terminate()
                assert relay.process.wait(BOUND) == 0
            assert "Traceback" not in relay.process.stderr.read()


@pytest.mark.parametrize(("options", "status"), [((), 421), (("--allow-anonymous",), 200)])
def test_a_relay_without_authentication_is_for_this_machine(options: tuple[str, ...], status: int) -> None:
    """A page of another site may let its own name lead to it, unless the relay is for anybody."""
    with FakeCluster(1) as brokers:
        arguments = ["--bootstrap-server", brokers.bootstrap, "--listen", "127.0.0.1:0", *options]
        with served(*arguments, program=("-c", SERVE)) as relay:
            for host, expected in (("evil.example", status), ("localhost", 200)):
                response = requests.get(f"{relay.url}/healthz", headers={"Host": host}, timeout=BOUND)
                assert response.status_code == expected


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080", "relay.example:80"])
def test_it_listens_on_loopback_only(listen: str) -> None:
    """By default, the relay does not authenticate clients."""
    arguments = ["--bootstrap-server", "localhost:9092", "--listen", listen]
    done = subprocess.run([sys.executable, "-c", SERVE, *arguments], check=False, capture_output=True, timeout=BOUND)
    assert done.returncode != 0
    assert b"is not a loopback address" in done.stderr


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("localhost:80", ("localhost", 80)), ("[::1]:8080", ("::1", 8080))],
)
def test_loopback_addresses_are_understood(listen: str, address: tuple[str, int]) -> None:
    assert parse("--listen", listen).listen == address


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *(("--listen", each, ".* is not ") for each in ("8080", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536")),
        *(("--gate", each, "") for each in ("groups", "=kip848", "groups=")),
    ],
)
def test_what_is_no_address_or_no_gate_is_refused(option: str, value: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=f"argument {option}: {words}"):
        parse(option, value)


def test_a_port_that_is_taken_is_one_clear_line() -> None:
    with FakeCluster(1) as brokers, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["--bootstrap-server", brokers.bootstrap, "--listen", f"127.0.0.1:{port}"]
        done = subprocess.run(
            [sys.executable, "-m", "featuregate", "serve", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=BOUND,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"featuregate: --listen: 127.0.0.1:{port} cannot be used: Address already in use"
    ]


def test_a_gate_is_a_name_and_a_requirement_or_a_preset() -> None:
    gates = gate_requirements(parse("--gate", "groups=kip848", "--gate", "zstd=Produce>=7 & Fetch>=10"))
    assert gates == {"groups": fg.presets.kip848, "zstd": fg.parse("Produce>=7 & Fetch>=10")}


@pytest.mark.parametrize(
    ("gates", "problem"),
    [
        (["a=kip848", "a=kip447"], "argument --gate: 'a' is given twice"),
        (["level.group.version=kip848"], "would hide another flag"),
    ],
)
def test_gates_that_cannot_be_served_together_are_refused(gates: list[str], problem: str) -> None:
    """The command fails before it asks a broker."""
    with pytest.raises(CommandError, match=problem):
        command.run(parse(*(argument for gate in gates for argument in ("--gate", gate))))


def test_a_requirement_that_does_not_parse_is_refused() -> None:
    with pytest.raises(RequirementError):
        command.run(parse("--gate", "groups=kip 848"))
