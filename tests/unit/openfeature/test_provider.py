"""The provider contract of OpenFeature, chapter 2 and appendix F: over brokers, and over a relay in front of them.

The scenarios are those of the appendix in words and flags of our own: its flag set is that of a product where people
define flags, and ours follow from a cluster. The page about OpenFeature says which capabilities are not supported.
"""

import asyncio
import queue
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.event import EventDetails, ProviderEvent
from openfeature.exception import ErrorCode, ProviderFatalError, ProviderNotReadyError
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from openfeature.provider import ProviderStatus
from relay_on_socket import serving
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.errors import ConfigError, FeatureGateError
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_openfeature import KafkaFeatureProvider

HOUR = 3600.0
STALE_AFTER = 60.0


@pytest.fixture(autouse=True)
def _no_provider_stays() -> Iterator[None]:
    yield
    api.shutdown()


def ready_client(features: fg.Discoverer, *gates: fg.Gate) -> OpenFeatureClient:
    api.set_provider_and_wait(KafkaFeatureProvider(features, gates))
    return api.get_client()


def details(client: OpenFeatureClient, kind: str, key: str, default: Any, context: Any = None) -> Any:
    found: FlagEvaluationDetails[Any] = getattr(client, f"get_{kind}_details")(key, default, context)
    return found


class Emitted:
    """The events of a client from now on, by their kinds: threads of the SDK bring them in any order."""

    def __init__(self, client: OpenFeatureClient) -> None:
        self._events: dict[ProviderEvent, queue.Queue[EventDetails]] = defaultdict(queue.Queue)
        for event in ProviderEvent:
            client.add_handler(event, self._events[event].put)

    def next(self, event: ProviderEvent) -> EventDetails:
        return self._events[event].get(timeout=BOUND)

    def has(self, event: ProviderEvent) -> bool:
        return not self._events[event].empty()


class Backend(NamedTuple):
    """Brokers, a client of the provider over them, and a poll at a time of the test's clock."""

    brokers: FakeCluster
    features: fg.Discoverer
    client: OpenFeatureClient
    poll_at: Callable[[float], None]

    def details(self, kind: str, key: str, default: Any, context: EvaluationContext | None = None) -> Any:
        return details(self.client, kind, key, default, context)


def discoverer(source: fg.HttpSource | str, now: list[float]) -> fg.Discoverer:
    wanted: dict[str, Any] = {"interval": HOUR, "stale_after": STALE_AFTER, "clock": lambda: now[0]}
    return fg.Discoverer(source, **wanted) if isinstance(source, str) else fg.Discoverer(source=source, **wanted)


@pytest.fixture(params=["brokers", "relay"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    now = [0.0]
    with FakeCluster(2, release="4.2") as brokers, ExitStack() as running:
        brokers.finalize({"share.version": 0})
        polled = [running.enter_context(discoverer(brokers.bootstrap, now))]
        if request.param == "relay":
            polled[0].start()
            assert polled[0].wait(BOUND)
            url = running.enter_context(serving({"default": polled[0]}))
            source = fg.HttpSource(url, wait=0, clock=lambda: now[0])
            polled.append(running.enter_context(discoverer(source, now)))
        features = polled[-1]

        def poll_at(seconds: float) -> None:
            now[0] = seconds
            for each in polled:
                with suppress(FeatureGateError):
                    each.refresh(BOUND)

        wanted = {"groups": "group.version>=1", "next": "metadata.version>=99"}
        gates = [features.gate(name, requirement) for name, requirement in wanted.items()]
        live = features.gate("live", "group.version>=1", policy="live")
        yield Backend(brokers, features, ready_client(features, *gates, live), poll_at)
        api.shutdown()


VALUES = [
    ("boolean", "groups", False, True, "open"),
    ("integer", "level.group.version", 7, 1, "1"),
    ("integer", "level.eligible.leader.replicas.version", 7, 1, "1"),
    ("string", "release", "bye", "4.2", "4.2"),
    ("string", "release.metadata.version", "bye", "4.2-IV1", "4.2-IV1"),
    ("object", "api.Produce", {}, {"min": 3, "max": 13, "incomplete": False}, "3..13"),
    ("object", "supported.group.version", {}, {"min": 0, "max": 1}, "0..1"),
    ("boolean", "next", True, False, "closed"),
    ("integer", "level.share.version", 7, 0, "0"),
]


def test_each_type_has_a_value_a_variant_and_a_reason_and_no_error(backend: Backend) -> None:
    """2.2.1 to 2.2.6, 2.2.9 and 2.3.2; false and 0 are values, and coroutines get the same."""
    for kind, key, default, value, variant in VALUES:
        found = backend.details(kind, key, default)
        assert (key, found.value, found.variant, found.reason) == (key, value, variant, Reason.STATIC)
        assert (found.error_code, found.error_message) == (None, None)
        assert type(found.value) is type(value)
        assert {type(each) for each in found.flag_metadata.values()} <= {bool, int, float, str}
        assert found.flag_metadata["clusterId"] == backend.brokers.cluster_id
        assert asyncio.run(getattr(backend.client, f"get_{kind}_details_async")(key, default)) == found


TYPES = {"groups": "boolean", "level.group.version": "integer", "release": "string", "api.Produce": "object"}
DEFAULTS = {"boolean": False, "integer": 5, "string": "bye", "float": 0.1, "object": {}}


def test_what_is_asked_wrongly_gives_the_default_and_says_why(backend: Backend) -> None:
    """The provider raises nothing (2.2.7). A gate is no integer, as a bool is in Python; a level is no float."""
    for key, kind, default in ((key, kind, DEFAULTS[kind]) for key in TYPES for kind in DEFAULTS):
        if kind != TYPES[key]:
            found = backend.details(kind, key, default)
            said = (key, found.value, found.reason, found.error_code)
            assert said == (key, default, Reason.ERROR, ErrorCode.TYPE_MISMATCH)
    missing = backend.details("integer", "level.group.versions", 5)
    assert (missing.value, missing.reason, missing.error_code) == (5, Reason.ERROR, ErrorCode.FLAG_NOT_FOUND)
    assert "level.group.version?" in missing.error_message


def test_a_context_is_harmless(backend: Backend) -> None:
    """With and without a targeting key, and with every type of attribute."""
    attributes = {"tier": "gold", "age": 7, "share": 0.5, "beta": True, "tags": ["a"], "nested": {"a": 1}}
    for context in (EvaluationContext("5f"), EvaluationContext(attributes=attributes), EvaluationContext()):
        found = backend.details("string", "release", "bye", context)
        assert (found.value, found.error_code) == ("4.2", None)


def test_a_change_is_signalled_with_its_keys_and_applied(backend: Backend) -> None:
    """An event without another value would be a lie. A gate that latches is held open, and says so."""
    emitted = Emitted(backend.client)
    assert backend.details("integer", "level.group.version", 7).value == 1
    backend.brokers.finalize({"group.version": 0})
    backend.poll_at(1.0)
    changed = emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED)
    assert changed.flags_changed == ["level.group.version", "live"]
    assert backend.details("integer", "level.group.version", 7).value == 0
    assert backend.details("boolean", "live", default=True).value is False
    held = backend.details("boolean", "groups", default=False)
    assert (held.value, held.reason, held.variant) == (True, Reason.CACHED, "open")
    assert "held open" in held.flag_metadata["why"]


def test_losing_the_cluster_is_stale_and_finding_it_again_is_ready(backend: Backend) -> None:
    """The last values are served meanwhile; only a live gate closes."""
    emitted = Emitted(backend.client)
    emitted.next(ProviderEvent.PROVIDER_READY)
    for broker in (1, 2):
        backend.brokers.broker(broker).stop()
    backend.poll_at(STALE_AFTER + 1)
    assert "no broker has answered" in emitted.next(ProviderEvent.PROVIDER_STALE).message
    assert emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED).flags_changed == ["live"]
    assert backend.client.get_provider_status() is ProviderStatus.STALE
    for kind, key, value in (("string", "release", "4.2"), ("boolean", "groups", True), ("boolean", "live", False)):
        old = backend.details(kind, key, DEFAULTS[kind])
        assert (old.value, old.reason, old.error_code) == (value, Reason.STALE, None)
    for broker in (1, 2):
        backend.brokers.broker(broker).start()
    backend.poll_at(STALE_AFTER + 120)  # a relay that has failed rests before it is asked again
    emitted.next(ProviderEvent.PROVIDER_READY)
    assert backend.client.get_provider_status() is ProviderStatus.READY
    assert backend.details("string", "release", "bye").reason == Reason.STATIC


def test_a_provider_has_a_name_and_is_ready_once_it_has_a_view(backend: Backend) -> None:
    """The provider meets 2.1.1 and 2.4.1."""
    assert backend.client.provider.get_metadata().name == "featuregate"
    assert backend.client.get_provider_status() is ProviderStatus.READY
    assert Emitted(backend.client).next(ProviderEvent.PROVIDER_READY).provider_name == "featuregate"


@pytest.mark.parametrize("source", ["127.0.0.1:9", fg.HttpSource("http://127.0.0.1:9")], ids=["brokers", "relay"])
def test_a_cluster_that_is_not_there_is_an_error_soon_and_gives_defaults(source: fg.HttpSource | str) -> None:
    """The provider does not delay the app (2.4.2.1)."""
    with discoverer(source, [0.0]) as features:
        began = time.monotonic()
        with pytest.raises(ProviderNotReadyError):
            api.set_provider_and_wait(KafkaFeatureProvider(features, timeout=0.1))
        assert time.monotonic() - began < BOUND
        client = api.get_client()
        assert client.get_provider_status() is ProviderStatus.ERROR
        found = details(client, "boolean", "groups", default=True)
        assert (found.value, found.reason, found.error_code) == (True, Reason.ERROR, ErrorCode.PROVIDER_NOT_READY)
        api.shutdown()


def test_a_shutdown_ends_soon_without_the_cluster_and_may_come_twice(backend: Backend) -> None:
    """The provider meets 2.5.1 and 2.5.2; no event comes any more."""
    provider, emitted = backend.client.provider, Emitted(backend.client)
    emitted.next(ProviderEvent.PROVIDER_READY)
    for broker in (1, 2):
        backend.brokers.broker(broker).stop()
    api.shutdown()
    provider.shutdown()
    assert backend.features.health()["status"] == "closed"
    assert not backend.features.health()["polling"]
    assert not any(map(emitted.has, ProviderEvent))


# ---------------------------------------------------------------- whatever the view comes from


def test_a_flag_without_a_value_has_a_type_too() -> None:
    """An unknown level is not a string."""
    client = ready_client(StaticFeatures(release_view("2.4")))
    assert details(client, "string", "level.group.version", "x").error_code is ErrorCode.TYPE_MISMATCH
    unknown = details(client, "integer", "level.group.version", 5)
    assert (unknown.value, unknown.variant, unknown.reason, unknown.error_code) == (5, "unknown", Reason.UNKNOWN, None)
    absent = details(client, "object", "api.ShareFetch", {"min": 0})
    assert (absent.value, absent.variant, absent.reason) == ({"min": 0}, "absent", Reason.DEFAULT)


def test_an_app_may_change_the_object_that_it_gets() -> None:
    """The next evaluation returns an unchanged object."""
    client = ready_client(StaticFeatures(release_view("4.2")))
    details(client, "object", "supported.group.version", {}).value["min"] = 99
    assert details(client, "object", "supported.group.version", {}).value == {"min": 0, "max": 1}


def test_a_gate_must_not_hide_another_flag() -> None:
    """One key must not mean two flags."""
    features = StaticFeatures()
    with pytest.raises(ConfigError, match="would hide another flag"):
        KafkaFeatureProvider(features, [features.gate("level.mine", "release>=4.2")])


def test_a_provider_in_error_becomes_ready_with_the_first_view() -> None:
    """Brokers that start after the app are usual. READY says all: no key has changed before it."""
    features = StaticFeatures()
    with pytest.raises(ProviderNotReadyError):
        api.set_provider_and_wait(KafkaFeatureProvider(features, timeout=0.1))
    client = api.get_client()
    emitted = Emitted(client)
    features.show(release_view("4.2"))
    emitted.next(ProviderEvent.PROVIDER_READY)
    assert not emitted.has(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED)
    assert client.get_provider_status() is ProviderStatus.READY
    assert details(client, "string", "release", "?").value == "4.2"


def test_a_broker_of_another_release_changes_ranges() -> None:
    """Only those that differ, and the release. An epoch that moves is no change: that of KRaft moves all the time."""
    features = StaticFeatures(release_view("4.2", "4.2", epoch=5))
    emitted = Emitted(ready_client(features))
    emitted.next(ProviderEvent.PROVIDER_READY)
    features.show(release_view("4.2", "4.2", epoch=6))
    features.show(release_view("4.2", "4.1", epoch=7))
    changed = set(emitted.next(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED).flags_changed)
    assert {"release", "api.Fetch"} & changed >= {"release"}
    assert not changed & {"level.group.version", "api.ApiVersions"}
    assert not any(map(emitted.has, ProviderEvent))


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
