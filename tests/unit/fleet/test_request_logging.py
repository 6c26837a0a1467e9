"""``featuregate fleet logging``: what it asks of which broker, and what it takes back."""

import argparse
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from broker_loggers import RESOURCE_TYPE, Loggers
from scripted import HANG_UP, ScriptedCluster, ScriptedNode

from featuregate.cli.plugin import OK, UNKNOWN, CommandError
from featuregate.wire.configs import AlterConfigsResult, DescribeConfigsRequest, IncrementalAlterConfigsResponse
from featuregate_fleet import command


@pytest.fixture
def cluster() -> Iterator[Loggers]:
    with Loggers() as loggers:
        yield loggers


def logging(cluster: ScriptedCluster, *argv: str) -> int:
    parser = argparse.ArgumentParser()
    parser.set_defaults(
        bootstrap_server=cluster.bootstrap,
        bootstrap_controller=None,
        command_config=None,
        broker_list="cluster",
        timeout=None,
    )
    command.add_options(parser)
    return command.run(parser.parse_args(["logging", *argv]))


def test_on_and_off_ask_each_broker_once(cluster: Loggers, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that logs enough already stays as it is."""
    cluster.levels[2] = "DEBUG"
    assert logging(cluster, "on") == OK
    assert cluster.changes == [(1, "DEBUG"), (3, "DEBUG")]
    said = capsys.readouterr()
    assert said.out.splitlines() == ["broker 2: DEBUG already", "broker 1: DEBUG", "broker 3: DEBUG"]
    assert "On a broker of ours with small requests a line had 1.3 kB: 110 GB a day" in said.err

    assert logging(cluster, "status") == OK
    assert capsys.readouterr().out.splitlines() == [f"broker {broker}: DEBUG" for broker in (1, 2, 3)]

    assert logging(cluster, "off") == OK
    assert set(cluster.levels.values()) == {"WARN"}
    cluster.levels[1] = "ERROR"
    assert logging(cluster, "off") == OK
    assert cluster.levels[1] == "ERROR"


def test_info_is_less_than_debug(cluster: Loggers) -> None:
    """A broker at debug logs the deprecated requests as well."""
    cluster.levels[3] = "DEBUG"
    assert logging(cluster, "on", "--level", "INFO") == OK
    assert cluster.levels == {1: "INFO", 2: "INFO", 3: "DEBUG"}


def test_after_a_time_each_broker_has_the_level_that_it_had(cluster: Loggers) -> None:
    """A broker that logged before goes on."""
    cluster.levels |= {1: "ERROR", 2: "DEBUG"}
    assert logging(cluster, "on", "--for", "1s") == OK
    assert cluster.levels == {1: "ERROR", 2: "DEBUG", 3: "WARN"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_takes_back_what_was_changed(cluster: Loggers, number: int) -> None:
    """Also in the middle of turning it on: the other brokers are left alone."""
    handler = signal.getsignal(number)
    sent: list[int] = []

    def interrupt(broker: int) -> None:
        if broker == 1 and not sent:
            sent.append(broker)
            os.kill(os.getpid(), number)

    cluster.on_change = interrupt
    assert logging(cluster, "on", "--for", "1h") == OK
    assert cluster.changes == [(1, "DEBUG"), (1, "WARN")]
    assert signal.getsignal(number) is handler


def test_a_broker_that_fails_gets_one_line_and_is_taken_back_too(
    cluster: Loggers, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have changed its level before its answer was lost."""
    lost = [2]
    cluster.on_change = lambda broker: HANG_UP if lost and lost[0] == broker and lost.pop() else None
    with pytest.raises(CommandError, match="brokers that failed: 2") as error:
        logging(cluster, "on", "--for", "1s")
    assert error.value.exit_code == UNKNOWN
    assert set(cluster.levels.values()) == {"WARN"}
    assert cluster.changes[-3:] == [(1, "WARN"), (2, "WARN"), (3, "WARN")]
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "broker 2" in line]
    assert "IncrementalAlterConfigs" in line


def test_a_broker_that_is_down_does_not_hide_the_others(cluster: Loggers, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker list names a broker that does not answer."""
    cluster.shut(3)
    with pytest.raises(CommandError, match="brokers that failed: 3"):
        logging(cluster, "status")
    said = capsys.readouterr()
    assert said.out.splitlines() == ["broker 1: WARN", "broker 2: WARN"]
    assert "broker 3: " in said.err


def test_a_missing_right_is_named(cluster: Loggers, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker's own answer does not say which right."""

    def refuse(request: Any, node: ScriptedNode) -> Any:
        if isinstance(request, DescribeConfigsRequest):
            return cluster.answer(request, node)
        result = AlterConfigsResult(error_code=31, resource_type=RESOURCE_TYPE, resource_name=str(node.node_id))
        return IncrementalAlterConfigsResponse(responses=(result,))

    cluster.says = refuse
    with pytest.raises(CommandError, match="brokers that failed: 1, 2, 3"):
        logging(cluster, "on")
    said = capsys.readouterr().err
    assert "changing ALTER_CONFIGS" in said
    assert "GB a day" not in said, "nothing is logged that could cost anything"
    with pytest.raises(CommandError, match="brokers that failed: 1, 2, 3"):
        logging(cluster, "on", "--for", "1h")
    assert "It ends" not in capsys.readouterr().err
