"""``featuregate fleet logging``: what it asks of which broker, and what it takes back."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from broker_loggers import RESOURCE_TYPE, Loggers
from scripted import HANG_UP, ScriptedNode
from transcripts import Ran, in_this_process, replayed, sections

from featuregate.cli import main
from featuregate.cli.plugin import OK, UNKNOWN
from featuregate.wire.configs import AlterConfigsResult, DescribeConfigsRequest, IncrementalAlterConfigsResponse

SCENES = sections(__file__, "logging.txt")


@pytest.fixture
def cluster() -> Iterator[Loggers]:
    with Loggers() as loggers:
        yield loggers


def logging(cluster: Loggers, *argv: str) -> int:
    return main(["--bootstrap-server", cluster.bootstrap, "fleet", "logging", *argv])


def has(**levels: str) -> Callable[[Loggers], object]:
    return lambda cluster: cluster.levels.update({int(broker[1:]): level for broker, level in levels.items()})


def refuses(cluster: Loggers) -> None:
    def refuse(request: Any, node: ScriptedNode) -> Any:
        if isinstance(request, DescribeConfigsRequest):
            return cluster.answer(request, node)
        result = AlterConfigsResult(error_code=31, resource_type=RESOURCE_TYPE, resource_name=str(node.node_id))
        return IncrementalAlterConfigsResponse(responses=(result,))

    cluster.says = refuse


BEFORE: dict[str, Callable[[Loggers], object]] = {
    "each broker is asked once, and one that logs enough stays as it is": has(_2="DEBUG"),
    "a level that is lower than that of the command stays": has(_1="ERROR", _2="DEBUG"),
    "info is less than debug": has(_3="DEBUG"),
    "after a time each broker has the level that it had": has(_1="ERROR", _2="DEBUG"),
    "a broker that is down does not hide the others": lambda cluster: cluster.shut(3),
    "a missing right is named, and nothing is logged that could cost anything": refuses,
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_session_is_as_kept(cluster: Loggers, scene: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what changed at which broker, and the levels that they have then."""
    BEFORE[scene](cluster)

    command = in_this_process(capsys, "--bootstrap-server", cluster.bootstrap)

    def run(*argv: str) -> Ran:
        cluster.changes.clear()
        return command(*argv)

    def more() -> list[str]:
        return [f"changed: {cluster.changes}", f"then: {cluster.levels}"]

    assert replayed(SCENES[scene], run, {}, more) == SCENES[scene]


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
    assert logging(cluster, "on", "--for", "1s") == UNKNOWN
    assert set(cluster.levels.values()) == {"WARN"}
    assert cluster.changes[-3:] == [(1, "WARN"), (2, "WARN"), (3, "WARN")]
    said = capsys.readouterr().err
    assert "brokers that failed: 2" in said
    (line,) = [line for line in said.splitlines() if "broker 2" in line]
    assert "IncrementalAlterConfigs" in line
