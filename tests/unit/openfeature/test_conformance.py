"""The provider contract of OpenFeature, chapter 2 and appendix F: over brokers, and over a relay in front of them.

The scenarios are those of the appendix in words and flags of our own: its flag set is that of a product where people
define flags, and ours follow from a cluster. The page about OpenFeature says which capabilities are not supported.
"""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.event import EventDetails, ProviderEvent
from openfeature.exception import ErrorCode, ProviderNotReadyError
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from openfeature.provider import ProviderStatus
from relay_on_socket import serving
from waiting import BOUND

import featuregate as fg
from featuregate.errors import FeatureGateError
from featuregate.testing import FakeCluster
from featuregate_openfeature import KafkaFeatureProvider

HOUR = 3600.0
STALE_AFTER = 60.0


class Backend(NamedTuple):
    """Brokers, a client of the provider over them, and a poll at a time of the test's clock."""

    brokers: FakeCluster
    features: fg.Discoverer
    client: OpenFeatureClient
    poll_at: Callable[[float], None]

    def details(self, kind: str, key: str, default: Any, context: EvaluationContext | None = None) -> Any:
        found: FlagEvaluationDetails[Any] = getattr(self.client, f"get_{kind}_details")(key, default, context)
        return found

    def events(self) -> Callable[[ProviderEvent], EventDetails]:
        """Collect events from now on; the function waits for the next one of a kind."""
        found: queue.Queue[tuple[ProviderEvent, EventDetails]] = queue.Queue()
        for event in ProviderEvent:
            self.client.add_handler(event, lambda details, event=event: found.put((event, details)))

        def next_of(kind: ProviderEvent) -> EventDetails:
            while True:
                event, details = found.get(timeout=BOUND)
                if event is kind:
                    return details

        return next_of


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

        gates = [features.gate("groups", "group.version>=1"), features.gate("next", "metadata.version>=99")]
        api.set_provider_and_wait(KafkaFeatureProvider(features, gates))
        yield Backend(brokers, features, api.get_client(), poll_at)
        api.shutdown()


VALUES = [
    ("boolean", "groups", False, True, "open"),
    ("integer", "level.group.version", 7, 1, "1"),
    ("string", "release", "bye", "4.2", "4.2"),
    ("object", "supported.group.version", {}, {"min": 0, "max": 1}, "0..1"),
    ("boolean", "next", True, False, "closed"),
    ("integer", "level.share.version", 7, 0, "0"),
]


def test_each_type_has_a_value_a_variant_and_a_reason_and_no_error(backend: Backend) -> None:
    """2.2.1 to 2.2.6, 2.2.9 and 2.3.2; false and 0 are values."""
    for kind, key, default, value, variant in VALUES:
        found = backend.details(kind, key, default)
        assert (key, found.value, found.variant, found.reason) == (key, value, variant, Reason.STATIC)
        assert (found.error_code, found.error_message) == (None, None)
        assert type(found.value) is type(value)
        assert {type(each) for each in found.flag_metadata.values()} <= {bool, int, float, str}


def test_what_is_asked_wrongly_gives_the_default_and_says_why(backend: Backend) -> None:
    """The provider raises nothing (2.2.7)."""
    wrong = [
        ("string", "groups", "x"),
        ("integer", "groups", 5),
        ("boolean", "release", True),
        ("float", "release", 0.5),
    ]
    wrong += [("string", "level.group.version", "x"), ("float", "level.group.version", 0.5)]
    wrong += [("boolean", "api.Fetch", True), ("integer", "api.Fetch", 5)]
    for kind, key, default in wrong:
        found = backend.details(kind, key, default)
        assert (key, found.value, found.reason, found.error_code) == (
            key,
            default,
            Reason.ERROR,
            ErrorCode.TYPE_MISMATCH,
        )
    missing = backend.details("string", "missing-flag", "fallback")
    assert (missing.value, missing.reason, missing.error_code) == ("fallback", Reason.ERROR, ErrorCode.FLAG_NOT_FOUND)


def test_a_context_is_harmless(backend: Backend) -> None:
    """With and without a targeting key, and with every type of attribute."""
    attributes = {"tier": "gold", "age": 7, "share": 0.5, "beta": True, "tags": ["a"], "nested": {"a": 1}}
    for context in (EvaluationContext("5f"), EvaluationContext(attributes=attributes), EvaluationContext()):
        found = backend.details("string", "release", "bye", context)
        assert (found.value, found.error_code) == ("4.2", None)


def test_a_change_is_signalled_with_its_keys_and_applied(backend: Backend) -> None:
    """An event without another value would be a lie."""
    next_event = backend.events()
    assert backend.details("integer", "level.group.version", 7).value == 1
    backend.brokers.finalize({"group.version": 0})
    backend.poll_at(1.0)
    assert next_event(ProviderEvent.PROVIDER_CONFIGURATION_CHANGED).flags_changed == ["level.group.version"]
    assert backend.details("integer", "level.group.version", 7).value == 0
    assert backend.details("boolean", "groups", default=False).value is True  # a gate latches


def test_losing_the_cluster_is_stale_and_finding_it_again_is_ready(backend: Backend) -> None:
    """The last values are served meanwhile."""
    next_event = backend.events()
    next_event(ProviderEvent.PROVIDER_READY)
    for broker in (1, 2):
        backend.brokers.broker(broker).stop()
    backend.poll_at(STALE_AFTER + 1)
    next_event(ProviderEvent.PROVIDER_STALE)
    assert backend.client.get_provider_status() is ProviderStatus.STALE
    old = backend.details("string", "release", "bye")
    assert (old.value, old.reason, old.error_code) == ("4.2", Reason.STALE, None)
    for broker in (1, 2):
        backend.brokers.broker(broker).start()
    backend.poll_at(STALE_AFTER + 120)  # a relay that has failed rests before it is asked again
    next_event(ProviderEvent.PROVIDER_READY)
    assert backend.client.get_provider_status() is ProviderStatus.READY
    assert backend.details("string", "release", "bye").reason == Reason.STATIC


def test_a_provider_has_a_name_and_is_ready_once_it_has_a_view(backend: Backend) -> None:
    """The provider meets 2.1.1 and 2.4.1."""
    assert backend.client.provider.get_metadata().name == "featuregate"
    assert backend.client.get_provider_status() is ProviderStatus.READY
    assert backend.events()(ProviderEvent.PROVIDER_READY).provider_name == "featuregate"


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
        found = client.get_boolean_details("groups", True)  # noqa: FBT003 - the SDK's signature
        assert (found.value, found.reason, found.error_code) == (True, Reason.ERROR, ErrorCode.PROVIDER_NOT_READY)
        api.shutdown()


def test_a_shutdown_ends_soon_without_the_cluster_and_may_come_twice(backend: Backend) -> None:
    """The provider meets 2.5.1 and 2.5.2."""
    provider = backend.client.provider
    for broker in (1, 2):
        backend.brokers.broker(broker).stop()
    api.shutdown()
    provider.shutdown()
    assert backend.features.health()["status"] == "closed"
    assert not backend.features.health()["polling"]
