"""What an app says of its cluster reaches the source that is asked."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

import featuregate as fg
from featuregate.config import Settings
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.testing import FakeCluster
from featuregate.usage.report import UsageReport

BOUND = 30.0
HOUR = 3600.0


async def _at_once(config: Any, **options: Any) -> fg.View:
    return fg.discover(config, **options)


either_door = pytest.mark.parametrize("look", [_at_once, fg.adiscover], ids=["discover", "adiscover"])


@either_door
@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({"timeout": -1}, "timeout"),
        ({"broker_list": "other"}, "broker_list"),
        ({"trust_shared_addresses": "yes"}, "trust_shared_addresses"),
        ({"allowed_hosts": "a b"}, "allowed_hosts"),
    ],
)
async def test_a_look_has_the_options_of_a_discoverer(
    look: Callable[..., Awaitable[fg.View]], option: Mapping[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        await look("localhost:1", **option)
    assert raised.value.key.removeprefix("featuregate.").replace(".", "_") == named


@either_door
async def test_a_look_uses_what_it_was_told(look: Callable[..., Awaitable[fg.View]]) -> None:
    """For configs each broker is asked, listed brokers tell no cluster id, and other hosts get nothing."""
    with FakeCluster(1) as cluster:
        seen = await look(cluster.bootstrap, timeout=BOUND, broker_list="bootstrap", configs=["log.retention.ms"])
        assert (seen.cluster_id, list(seen.brokers[0].configs)) == (None, ["log.retention.ms"])
        with pytest.raises(DiscoveryError, match="allowed"):
            await look(cluster.bootstrap, timeout=BOUND, allowed_hosts="10.0.0.0/8")


def test_a_discoverer_hands_each_option_on() -> None:
    said: dict[str, Any] = {
        "broker_list": "bootstrap",
        "cluster_id": "orders",
        "exclude_apis": "Fetch=3",
        "trust_shared_addresses": True,
        "allowed_hosts": "h",
    }
    source = fg.BrokerSource("h:1", timeout=3, **said)
    features = fg.Discoverer(source=source)
    assert source.settings == Settings.parse("h:1", total_timeout=3, **said)
    assert (source.timeout, source._keep_connections, features._poller.state.interval) == (3, True, 60)
    assert features._store._exclude_apis == source.settings.exclude_apis
    assert not fg.BrokerSource("h:1", keep_connections=False)._keep_connections


@pytest.mark.parametrize("option", [{"config": "h:1"}, {"timeout": 1}, {"cluster_id": "c"}])
def test_a_source_has_options_of_its_own(option: dict[str, Any]) -> None:
    """Those of a discoverer would do nothing."""
    with pytest.raises(ConfigError) as raised:
        fg.Discoverer(source=fg.BrokerSource("h:1"), **option)
    assert str(raised.value) == "source: has its own config, timeout and cluster_id"


def test_a_discoverer_has_at_most_fourteen_options() -> None:
    """What is about reaching brokers belongs to their source."""
    assert len(inspect.signature(fg.Discoverer).parameters) <= 14


NEEDS_STORE = (
    "start_from: needs a latch_store: give a folder, or an object that has last_cluster() and note_cluster(), too"
)
NEEDS_ID = (
    "cluster_id: is missing: listed brokers report no cluster id, and the latches of a latch store belong to a "
    "cluster; give the cluster's id, or a name that stays the same for as long as the cluster exists"
)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"start_from": "now"}, 'start_from: must be "answers" or "latch", not \'now\''),
        ({"latch_store": 5}, "latch_store: must be a folder, or have load() and save(), not 5"),
        ({"start_from": "latch"}, NEEDS_STORE),
        ({"latch_store": "/x", "source": fg.BrokerSource("h:1", broker_list="bootstrap")}, NEEDS_ID),
    ],
)
def test_a_latch_store_that_cannot_be_used_is_refused(options: dict[str, Any], problem: str) -> None:
    """In one sentence that says what to give."""
    with pytest.raises(ConfigError) as raised:
        fg.Discoverer(**({"source": fg.BrokerSource("h:1")} | options))
    assert str(raised.value) == problem


def test_an_app_reports_what_its_discoverer_knows() -> None:
    now, sent, chances = [5.0], list[bytes](), list[float]()
    with FakeCluster(1) as cluster:
        features = fg.Discoverer(
            cluster.bootstrap,
            interval=HOUR,
            usage=fg.UsageReporter(sent.append, app="orders"),
            clock=lambda: now[0],
            chance=lambda: chances.append(0.5) or 0.5,
        )
        with features:
            gate = features.gate("txn", "TxnOffsetCommit>=3")
            features.refresh(BOUND)
            now[0] = 9.0
        assert gate.open
        assert features.health()["usage"]["sent"] == len(sent)
    report = UsageReport.from_json(sent[-1])
    assert report.closing
    assert (report.cluster_id, report.age_seconds) == (cluster.cluster_id, 4.0)
    assert [(each.name, each.state) for each in report.gates] == [("txn", "open")]
    assert abs(report.reported_at - datetime.now(UTC).timestamp()) < HOUR
    assert chances


@pytest.mark.parametrize("option", [{"timeout": 1}, {"allowed_hosts": "h"}, {"broker_list": "bootstrap"}])
def test_settings_that_are_parsed_take_no_options(option: dict[str, Any]) -> None:
    """They would be ignored, also the one that says which hosts may be reached."""
    with pytest.raises(ConfigError, match="parsed already"):
        fg.BrokerSource(Settings.parse("h:1"), **option)
