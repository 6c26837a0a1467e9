"""``featuregate fleet logging``: what it asks of which broker, and what it takes back."""

import argparse
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted import HANG_UP, ScriptedCluster, ScriptedNode

from featuregate.admin.loggers import LogLevels
from featuregate.cli.plugin import OK, UNKNOWN, USAGE, CommandError
from featuregate.errors import BrokerError, NetError
from featuregate.wire.configs import (
    AlterConfigsResult,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsResponse,
)
from featuregate_fleet import command

LOGGER = "kafka.request.logger"
RESOURCE_TYPE = 8


class Loggers(ScriptedCluster):
    """Three brokers with loggers. Each knows its own alone, as in Kafka."""

    def __init__(self) -> None:
        super().__init__(3)
        self.levels = dict.fromkeys(self.nodes, "WARN")
        self.changes: list[tuple[int, str]] = []
        self.on_change: Callable[[int], Any] = lambda _: None
        self.says = self.answer

    def answer(self, request: Any, node: ScriptedNode) -> Any:
        """Answer as a broker does."""
        (resource,) = request.resources
        assert (resource.resource_type, resource.resource_name) == (RESOURCE_TYPE, str(node.node_id))
        result: dict[str, Any] = {"resource_type": RESOURCE_TYPE, "resource_name": resource.resource_name}
        if isinstance(request, DescribeConfigsRequest):
            assert resource.configuration_keys == (LOGGER,)
            config = ConfigEntry(name=LOGGER, value=self.levels[node.node_id])
            return DescribeConfigsResponse(results=(DescribeConfigsResult(configs=(config,), **result),))
        (config,) = resource.configs
        self.changes.append((node.node_id, config.value))
        self.levels[node.node_id] = config.value
        special = self.on_change(node.node_id)
        return special or IncrementalAlterConfigsResponse(responses=(AlterConfigsResult(**result),))


@pytest.fixture
def cluster() -> Iterator[Loggers]:
    """Start the brokers."""
    with Loggers() as loggers:
        yield loggers


def logging(cluster: ScriptedCluster, *argv: str) -> int:
    """Run the command."""
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
    assert logging(cluster, "on", "--level", "info") == OK
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
    assert "changing ALTER_CONFIGS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ((), "names no level"),
        ((ConfigEntry(name=LOGGER, value="\x1b[2J"),), "names no level"),
        ((ConfigEntry(name="kafka", value="INFO"),), "names no level"),
    ],
)
def test_an_answer_without_a_known_level_is_a_failure(
    cluster: Loggers, results: tuple[ConfigEntry, ...], says: str
) -> None:
    """The error escapes what the broker has sent."""

    def strange(_: Any, node: ScriptedNode) -> Any:
        result = DescribeConfigsResult(resource_type=RESOURCE_TYPE, resource_name=str(node.node_id), configs=results)
        return DescribeConfigsResponse(results=(result,))

    cluster.says = strange
    for one in LogLevels(cluster.bootstrap).read():
        assert one.level is None
        assert isinstance(one.failure, BrokerError)
        assert says in str(one.failure)


def test_an_empty_answer_does_not_count_as_a_change(cluster: Loggers) -> None:
    """The change counts only if the broker confirms it."""
    cluster.says = lambda *_: IncrementalAlterConfigsResponse()
    (one,) = LogLevels(cluster.bootstrap).change({2: "DEBUG"})
    assert (one.broker, one.level) == (2, None)
    assert isinstance(one.failure, BrokerError)


def test_a_failure_is_that_of_the_broker(cluster: Loggers) -> None:
    """A broker that was shut before the request has a failure, and the other has none."""
    cluster.shut(1)
    failures = {one.broker: one.failure for one in LogLevels(cluster.bootstrap).read()}
    assert isinstance(failures[1], NetError)
    assert failures[2] is None


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("off", "--for", "1h"), "they are for 'on'"),
        (("status", "--level", "info"), "they are for 'on'"),
        (("on", "--bootstrap-controller", "c:1"), "needs the ids of the brokers"),
    ],
)
def test_options_that_mean_nothing_are_refused(argv: tuple[str, ...], says: str) -> None:
    """The command fails before it sends a request."""
    with pytest.raises(CommandError, match=says) as error:
        logging(ScriptedCluster(0), *argv)
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("time", ["1", "0s", "-1h", "31d", "1w", "1.5h"])
def test_a_time_has_a_unit(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Thirty days at most: 110 GB a day is no setting for ever."""
    with pytest.raises(SystemExit):
        logging(ScriptedCluster(0), "on", f"--for={time}")
    assert "is not a time up to 30 days" in capsys.readouterr().err
