"""The level of one logger of each broker: what is asked of which broker, and what its answer has to say."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from broker_loggers import LOGGER, RESOURCE_TYPE, Loggers
from scripted import ScriptedNode

from featuregate.admin import loggers
from featuregate.admin.loggers import BrokerLogLevel, LogLevels
from featuregate.errors import BrokerError, DiscoveryError, NetError
from featuregate.wire.configs import (
    AlterConfigsResult,
    ConfigEntry,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsResponse,
)


@pytest.fixture
def cluster() -> Iterator[Loggers]:
    with Loggers() as loggers:
        yield loggers


def found(*levels: str) -> list[BrokerLogLevel]:
    return [BrokerLogLevel(broker=at, level=level) for at, level in enumerate(levels, 1)]


def test_each_broker_is_asked_for_its_own_level(cluster: Loggers) -> None:
    cluster.levels |= {2: "DEBUG", 3: "TRACE"}
    assert list(LogLevels(cluster.bootstrap).read()) == found("WARN", "DEBUG", "TRACE")


def test_only_the_named_brokers_are_changed(cluster: Loggers) -> None:
    """A broker that is not listed any more is left out."""
    changed = LogLevels(cluster.bootstrap).change({3: "INFO", 1: "ERROR", 9: "INFO"})
    assert [(one.broker, one.level, one.failure) for one in changed] == [(1, "ERROR", None), (3, "INFO", None)]
    assert cluster.changes == [(1, "ERROR"), (3, "INFO")]


def test_any_logger_has_a_level(cluster: Loggers) -> None:
    """The logger of requests is only the usual one."""
    cluster.logger = "kafka"
    levels = LogLevels({"bootstrap.servers": "b:1,c:2", "client.id": "x"}, logger="kafka")
    assert repr(levels) == "<LogLevels of kafka on b:1, c:2>"
    levels = LogLevels(cluster.bootstrap, logger="kafka")
    assert list(levels.read()) == found("WARN", "WARN", "WARN")
    assert [one.level for one in levels.change({2: "INFO"})] == ["INFO"]


def test_the_brokers_of_the_last_list_are_asked_for_the_next(cluster: Loggers) -> None:
    """The bootstrap broker may be away meanwhile."""
    levels = LogLevels(cluster.nodes[1].address)
    assert list(levels.read()) == found("WARN", "WARN", "WARN")
    cluster.shut(1)
    assert [one.level for one in levels.read()] == [None, "WARN", "WARN"]


def test_silent_brokers_cost_the_time_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them alone would have its own time."""
    monkeypatch.setattr(loggers, "_LIST_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        levels = LogLevels(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(DiscoveryError, match=r"the 0\.2 s in total have passed"):
            list(levels.read())


NO_LEVEL = f"INVALID_CONFIG (error 40): the broker names no level of {LOGGER}"


@pytest.mark.parametrize(
    ("error", "configs", "says"),
    [
        ({}, (), NO_LEVEL),
        ({}, (ConfigEntry(name=LOGGER, value="\x1b[2J"),), NO_LEVEL),
        ({}, (ConfigEntry(name="kafka", value="INFO"),), NO_LEVEL),
        (
            {"error_code": 29, "error_message": "no\x1b"},
            (ConfigEntry(name=LOGGER, value="INFO"),),
            "TOPIC_AUTHORIZATION_FAILED (error 29): no?",
        ),
        ({"error_code": 31}, (), "CLUSTER_AUTHORIZATION_FAILED (error 31)"),
    ],
)
def test_an_answer_without_a_known_level_is_a_failure(
    cluster: Loggers, error: dict[str, Any], configs: tuple[ConfigEntry, ...], says: str
) -> None:
    def strange(_: Any, node: ScriptedNode) -> Any:
        result = DescribeConfigsResult(
            resource_type=RESOURCE_TYPE, resource_name=str(node.node_id), configs=configs, **error
        )
        return DescribeConfigsResponse(results=(result,))

    cluster.says = strange
    for one in LogLevels(cluster.bootstrap).read():
        assert one.level is None
        assert isinstance(one.failure, BrokerError)
        assert str(one.failure) == says


def test_the_level_is_found_among_others(cluster: Loggers) -> None:
    """A broker may name more loggers than the one that it is asked for."""

    def more(_: Any, node: ScriptedNode) -> Any:
        configs = (ConfigEntry(name="kafka", value="INFO"), ConfigEntry(name=LOGGER, value="DEBUG"))
        named = {"resource_type": RESOURCE_TYPE, "resource_name": str(node.node_id)}
        empty, full = (DescribeConfigsResult(configs=some, **named) for some in ((), configs))
        return DescribeConfigsResponse(results=(empty, full))

    cluster.says = more
    assert list(LogLevels(cluster.bootstrap).read()) == found("DEBUG", "DEBUG", "DEBUG")


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ((), "UNKNOWN_SERVER_ERROR (error -1): the broker did not say whether the level was changed"),
        (({}, {"error_code": 44, "error_message": "no\x1b"}), "POLICY_VIOLATION (error 44): no?"),
        (({"error_code": 31},), "CLUSTER_AUTHORIZATION_FAILED (error 31)"),
    ],
)
def test_only_a_confirmed_change_counts(cluster: Loggers, results: tuple[dict[str, Any], ...], says: str) -> None:
    """An empty answer confirms nothing, and one error is enough."""
    named = {"resource_type": RESOURCE_TYPE, "resource_name": "2"}
    responses = tuple(AlterConfigsResult(**named, **result) for result in results)
    cluster.says = lambda *_: IncrementalAlterConfigsResponse(responses=responses)
    (one,) = LogLevels(cluster.bootstrap).change({2: "DEBUG"})
    assert (one.broker, one.level, str(one.failure)) == (2, None, says)
    assert isinstance(one.failure, BrokerError)


def test_a_failure_is_that_of_the_broker(cluster: Loggers) -> None:
    cluster.shut(1)
    failures = {one.broker: one.failure for one in LogLevels(cluster.bootstrap).read()}
    assert isinstance(failures[1], NetError)
    assert failures[2] is None
