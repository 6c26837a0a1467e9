"""The provider behind the SDK: the scenarios of the specification for providers, over fake brokers."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.event import EventDetails, ProviderEvent
from openfeature.exception import ErrorCode, ProviderFatalError, ProviderNotReadyError
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from openfeature.provider import ProviderStatus
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_openfeature import KafkaFeatureProvider

HOUR = 3600.0
EVENTS = list(ProviderEvent)
GATE = "new-groups"


@pytest.fixture(autouse=True)
def _no_provider_stays() -> Iterator[None]:
    yield
    api.shutdown()


def ready_client(features: fg.Discoverer, *gates: fg.Gate) -> OpenFeatureClient:
    api.set_provider_and_wait(KafkaFeatureProvider(features, gates))
    return api.get_client()


@pytest.fixture
def client() -> OpenFeatureClient:
    features = StaticFeatures(release_view("4.2", "4.2"))
    return ready_client(features, features.gate(GATE, fg.presets.kip848), features.gate("next", "metadata.version>=99"))


def details(client: OpenFeatureClient, kind: str, key: str, default: Any, context=None) -> FlagEvaluationDetails[Any]:
    found: FlagEvaluationDetails[Any] = getattr(client, f"get_{kind}_details")(key, default, context)
    return found


class Emitted:
    def __init__(self, client: OpenFeatureClient) -> None:
        self._events: queue.Queue[tuple[ProviderEvent, EventDetails]] = queue.Queue()
        for event in EVENTS:
            client.add_handler(event, lambda details, event=event: self._events.put((event, details)))

    def next(self, event: ProviderEvent) -> EventDetails:
        """Return the details of the next event of this kind; others before it are skipped."""
        while True:
            found, details = self._events.get(timeout=BOUND)
            if found is event:
                return details

    def kinds_until(self, last: ProviderEvent) -> list[ProviderEvent]:
        kinds = [self._events.get(timeout=BOUND)[0]]
        while kinds[-1] is not last:
            kinds.append(self._events.get(timeout=BOUND)[0])
        return kinds

    def nothing(self) -> bool:
        return self._events.empty()


VALUES = [
    ("boolean", GATE, False, True, "open"),
    ("boolean", "next", True, False, "closed"),
    ("integer", "level.group.version", 7, 1, "1"),
    ("integer", "level.eligible.leader.replicas.version", 7, 1, "1"),
    ("string", "release", "bye", "4.2", "4.2"),
    ("string", "release.metadata.version", "bye", "4.2-IV1", "4.2-IV1"),
    ("object", "api.Produce", {}, {"min": 3, "max": 13, "incomplete": False}, "3..13"),
    ("object", "supported.group.version", {}, {"min": 0, "max": 1}, "0..1"),
]


@pytest.mark.parametrize(("kind", "key", "default", "value", "variant"), VALUES)
def test_each_kind_of_flag_resolves_with_a_variant_and_a_reason(client, kind, key, default, value, variant) -> None:
    """And without an error message, which would contradict the value."""
    found = details(client, kind, key, default)
    assert (found.value, found.variant, found.reason) == (value, variant, Reason.STATIC)
    assert (found.error_code, found.error_message) == (None, None)
    assert type(found.value) is type(value)
    assert found.flag_metadata["clusterId"] == "static"


@pytest.mark.parametrize(("kind", "key", "default", "value", "variant"), VALUES)
async def test_coroutines_get_the_same(client, kind, key, default, value, variant) -> None:
    """The provider awaits nothing in between: flags are in memory."""
    found = await getattr(client, f"get_{kind}_details_async")(key, default)
    assert (found.value, found.variant, found.reason) == (value, variant, Reason.STATIC)


def test_a_falsy_value_is_a_value() -> None:
    """False and 0 are not taken for "there is nothing"."""
    features = StaticFeatures(release_view("3.9"))
    client = ready_client(features, features.gate(GATE, fg.presets.kip848))
    assert details(client, "boolean", GATE, default=True).value is False
    absent = details(client, "integer", "level.share.version", 1)
    assert (absent.value, absent.reason, absent.error_code) == (0, Reason.STATIC, None)


MISMATCHES = [
    (asked, key, default)
    for key, kind in [
        (GATE, "boolean"),
        ("level.group.version", "integer"),
        ("release", "string"),
        ("api.Produce", "object"),
    ]
    for asked, default in [("boolean", False), ("integer", 5), ("string", "bye"), ("float", 0.1), ("object", {})]
    if asked != kind
]


@pytest.mark.parametrize(("asked", "key", "default"), MISMATCHES)
def test_another_type_is_a_mismatch_and_gives_the_default(client, asked, key, default) -> None:
    """A gate is no integer, although a bool is one in Python; a level is no float."""
    found = details(client, asked, key, default)
    assert (found.value, found.reason, found.error_code) == (default, Reason.ERROR, ErrorCode.TYPE_MISMATCH)


def test_a_flag_without_a_value_has_a_type_too() -> None:
    """An unknown level is not a string."""
    client = ready_client(StaticFeatures(release_view("2.4")))
    assert details(client, "string", "level.group.version", "x").error_code is ErrorCode.TYPE_MISMATCH
    unknown = details(client, "integer", "level.group.version", 5)
    assert (unknown.value, unknown.variant, unknown.reason, unknown.error_code) == (5, "unknown", Reason.UNKNOWN, None)
    absent = details(client, "object", "api.ShareFetch", {"min": 0})
    assert (absent.value, absent.variant, absent.reason) == ({"min": 0}, "absent", Reason.DEFAULT)


def test_a_flag_that_does_not_exist_gives_the_default(client) -> None:
    """The error names keys that resemble the missing one."""
    found = details(client, "integer", "level.group.versions", 5)
    assert (found.value, found.reason, found.error_code) == (5, Reason.ERROR, ErrorCode.FLAG_NOT_FOUND)
    assert "level.group.version" in found.error_message


def test_a_context_disturbs_nothing(client) -> None:
    """Every app of a cluster has the same truth."""
    context = EvaluationContext(targeting_key="5f", attributes={"tier": "gold"})
    assert details(client, "boolean", GATE, default=False, context=context).value is True


def test_an_app_may_change_the_object_that_it_gets(client) -> None:
    """The next evaluation returns an unchanged object."""
    details(client, "object", "supported.group.version", {}).value["min"] = 99
    assert details(client, "object", "supported.group.version", {}).value == {"min": 0, "max": 1}


def test_a_gate_must_not_hide_another_flag() -> None:
    """One key must not mean two flags."""
    features = StaticFeatures()
    with pytest.raises(ConfigError, match="would hide another flag"):
        KafkaFeatureProvider(features, [features.gate("level.mine", "release>=4.2")])


# ---------------------------------------------------------------- life and events


def test_a_provider_is_ready_when_there_is_a_view() -> None:
    """The SDK reports this once."""
    with FakeCluster(1, release="4.2") as brokers:
        client = ready_client(fg.Discoverer(brokers.bootstrap, interval=HOUR))
        emitted = Emitted(client)
        assert emitted.next(ProviderEvent.PROVIDER_READY).provider_name == "featuregate"
        assert client.get_provider_status() is ProviderStatus.READY
        assert details(client, "string", "release", "?").value == "4.2"


def test_a_provider_that_cannot_reach_its_brokers_reports_an_error() -> None:
    """Promptly; flags have their defaults, and nothing is raised by an evaluation."""
    features = fg.Discoverer("127.0.0.1:9", interval=HOUR, timeout=1)
    with pytest.raises(ProviderNotReadyError):
        api.set_provider_and_wait(KafkaFeatureProvider(features, [features.gate(GATE, "release>=4.2")], timeout=0.1))
    client = api.get_client()
    assert client.get_provider_status() is ProviderStatus.ERROR
    found = details(client, "boolean", GATE, default=True)
    assert (found.value, found.reason, found.error_code) == (True, Reason.ERROR, ErrorCode.PROVIDER_NOT_READY)


def test_a_provider_in_error_becomes_ready_with_the_first_view() -> None:
    """Brokers that start after the app are usual. READY says all: no key has changed before it."""
    features = StaticFeatures()
    with pytest.raises(ProviderNotReadyError):
        api.set_provider_and_wait(KafkaFeatureProvider(features, timeout=0.1))
    client = api.get_client()
    emitted = Emitted(client)
    emitted.next(ProviderEvent.PROVIDER_ERROR)  # that of before, which a thread of OpenFeature gives to a new handler
    features.show(release_view("4.2"))
    assert emitted.kinds_until(ProviderEvent.PROVIDER_READY) == [ProviderEvent.PROVIDER_READY]
    assert client.get_provider_status() is ProviderStatus.READY
    assert details(client, "string", "release", "?").value == "4.2"


def test_a_change_is_signalled_with_exactly_the_keys_that_changed() -> None:
    """And applied: an event without another value would be a lie."""
    view = release_view("4.2", finalized={"metadata.version": 25, "group.version": 0}, epoch=5)
    features = StaticFeatures(view)
    gate, other = features.gate(GATE, "group.version>=1"), features.gate("other", "group.version>=2")
    client = ready_client(features, gate, other)
    emitted = Emitted(client)
    features.show(release_view("4.2", finalized={"metadata.version": 25, "group.version": 1}, epoch=6))
    changed = emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED)
    assert changed.flags_changed == ["level.group.version", GATE]
    assert details(client, "boolean", GATE, default=False).value is True
    assert details(client, "integer", "level.group.version", 0).value == 1


def test_a_broker_of_another_release_changes_ranges() -> None:
    """Only those that differ, and the release."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    emitted = Emitted(ready_client(features))
    features.show(release_view("4.2", "4.1"))
    changed = set(emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED).flags_changed)
    assert {"release", "api.Fetch"} & changed >= {"release"}
    assert "level.group.version" not in changed
    assert "api.ApiVersions" not in changed


def test_an_epoch_that_moves_is_no_change() -> None:
    """The epoch of KRaft moves all the time."""
    features = StaticFeatures(release_view("4.2", epoch=5))
    emitted = Emitted(ready_client(features))
    emitted.next(ProviderEvent.PROVIDER_READY)
    features.show(release_view("4.2", epoch=6))
    features.show(release_view("4.1", epoch=7))
    emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED)
    assert emitted.nothing()


@contextmanager
def late_discoverer() -> Iterator[tuple[FakeCluster, fg.Discoverer, list[float]]]:
    ahead = [0.0]
    with (
        FakeCluster(1, release="4.2") as brokers,
        fg.Discoverer(brokers.bootstrap, interval=HOUR, stale_after=60, clock=lambda: ahead[0]) as features,
    ):
        yield brokers, features, ahead


def test_losing_the_brokers_is_stale_and_finding_them_again_is_ready() -> None:
    """What is latched stays open meanwhile, and says that it is old."""
    with late_discoverer() as (brokers, features, ahead):
        gate = features.gate(GATE, fg.presets.kip848)
        assert gate.wait(BOUND)
        client = ready_client(features, gate)
        emitted = Emitted(client)
        emitted.next(ProviderEvent.PROVIDER_READY)
        port = brokers.broker(1)
        port.stop()
        ahead[0] = 61.0
        with pytest.raises(DiscoveryError):
            features.refresh(BOUND)
        assert "no broker has answered" in emitted.next(ProviderEvent.PROVIDER_STALE).message
        assert client.get_provider_status() is ProviderStatus.STALE
        old = details(client, "boolean", GATE, default=False)
        assert (old.value, old.reason) == (True, Reason.STALE)
        assert details(client, "integer", "level.group.version", 0).reason == Reason.STALE
        port.start()
        features.refresh(BOUND)
        emitted.next(ProviderEvent.PROVIDER_READY)
        assert details(client, "boolean", GATE, default=False).reason == Reason.STATIC


def test_a_live_gate_that_closes_with_age_is_a_change() -> None:
    """The event names the gate."""
    with late_discoverer() as (brokers, features, ahead):
        gate = features.gate(GATE, fg.presets.kip848, policy="live")
        assert gate.wait(BOUND)
        client = ready_client(features, gate)
        emitted = Emitted(client)
        brokers.broker(1).stop()
        ahead[0] = 61.0
        with pytest.raises(DiscoveryError):
            features.refresh(BOUND)
        assert emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED).flags_changed == [GATE]
        assert details(client, "boolean", GATE, default=True).value is False


def test_a_gate_that_is_held_open_says_so() -> None:
    """The operator went back: the value comes from the latch."""
    features = StaticFeatures(release_view("4.2", epoch=5))
    client = ready_client(features, features.gate(GATE, "group.version>=1"))
    features.show(release_view("4.2", finalized={"metadata.version": 25}, epoch=6))
    held = details(client, "boolean", GATE, default=False)
    assert (held.value, held.reason, held.variant) == (True, Reason.CACHED, "open")
    assert "held open" in held.flag_metadata["why"]


def test_the_provider_is_shut_down_with_the_sdk() -> None:
    """No thread of it is left, and no event comes any more."""
    before = threading.enumerate()
    with FakeCluster(1) as brokers:
        features = fg.Discoverer(brokers.bootstrap, interval=HOUR)
        emitted = Emitted(ready_client(features))
        emitted.next(ProviderEvent.PROVIDER_READY)
        api.shutdown()
        assert features.health()["status"] == "closed"
        assert not features.health()["polling"]
        assert [each for each in threading.enumerate() if each.name == "featuregate-poll" and each not in before] == []
        assert emitted.nothing()


def test_a_discoverer_that_was_closed_is_fatal() -> None:
    """It will never have another view."""
    features = StaticFeatures()
    features.close()
    with pytest.raises(ProviderFatalError, match="closed"):
        api.set_provider_and_wait(KafkaFeatureProvider(features))
    assert api.get_client().get_provider_status() is ProviderStatus.FATAL


def test_another_provider_ends_the_one_before() -> None:
    """The SDK shuts down a provider that has been replaced."""
    before, after = StaticFeatures(release_view("3.9")), StaticFeatures(release_view("4.2"))
    client = ready_client(before)
    ready_client(after)
    assert details(client, "string", "release", "?").value == "4.2"
    eventually(lambda: before.health()["status"] == "closed")
