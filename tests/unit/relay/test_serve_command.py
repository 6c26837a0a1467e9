"""``featuregate serve``: a process that serves until it is told to stop."""

import argparse
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from relay_on_socket import served
from transcripts import in_this_process, replayed, sections
from waiting import eventually

import featuregate as fg
from featuregate.cli import main
from featuregate.cli.plugin import gate_requirements
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


SCENES = sections(__file__, "serve.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_a_configuration_is_checked_without_serving(
    scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A relay listens on loopback addresses only, unless a proxy is before it that bounds clients."""
    monkeypatch.chdir(tmp_path)
    Path("relay.toml").write_text("[clusters.a]\nproperties.bootstrap.servers = 'a:1'\n")

    assert replayed(SCENES[scene], in_this_process(capsys), {}, list) == SCENES[scene]


def test_a_port_that_is_taken_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["serve", "--bootstrap-server", "a:1", "--listen", address]) == 1
    said = capsys.readouterr().err
    assert said == f"featuregate: --listen: {address} cannot be used: Address already in use\n"


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


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("localhost:80", ("localhost", 80)), ("[::1]:8080", ("::1", 8080))],
)
def test_loopback_addresses_are_understood(listen: str, address: tuple[str, int]) -> None:
    assert parse("--listen", listen).listen == address


def test_a_gate_is_a_name_and_a_requirement_or_a_preset() -> None:
    gates = gate_requirements(parse("--gate", "groups=kip848", "--gate", "zstd=Produce>=7 & Fetch>=10"))
    assert gates == {"groups": fg.presets.kip848, "zstd": fg.parse("Produce>=7 & Fetch>=10")}
