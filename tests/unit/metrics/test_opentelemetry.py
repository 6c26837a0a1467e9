"""What OpenTelemetry gets of a discoverer."""

from typing import Any

import pytest

import featuregate as fg
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.polling.poll_state import STATUSES
from featuregate.testing import FakeCluster, StaticFeatures, release_view

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from featuregate_metrics.opentelemetry import FeatureTelemetry

BOUND = 60.0


class Backend:
    def __init__(self, features: fg.Discoverer) -> None:
        self._logs, self._metrics = InMemoryLogRecordExporter(), InMemoryMetricReader()
        logger_provider = LoggerProvider()
        logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.telemetry = FeatureTelemetry(
            features, cluster="orders", meter_provider=MeterProvider([self._metrics]), logger_provider=logger_provider
        )

    @property
    def events(self) -> list[Any]:
        return [data.log_record for data in self._logs.get_finished_logs()]

    def points(self) -> dict[str, list[Any]]:
        data = self._metrics.get_metrics_data()
        if data is None:
            return {}
        (resource,) = data.resource_metrics
        return {metric.name: metric.data.data_points for metric in resource.scope_metrics[0].metrics}


def test_a_gate_that_moves_is_an_evaluation() -> None:
    """With the names of the semantic conventions; a check is none."""
    features = StaticFeatures(release_view("3.9", epoch=5))
    gate = features.gate("groups", "group.version>=1")
    backend = Backend(features)
    features.show(release_view("4.2", epoch=9))
    assert gate.open
    (event,) = backend.events
    assert event.event_name == "feature_flag.evaluation"
    assert event.attributes == {
        "feature_flag.key": "groups",
        "feature_flag.provider.name": "featuregate",
        "feature_flag.result.variant": "open",
        "feature_flag.result.value": True,
        "feature_flag.result.reason": "static",
        "feature_flag.set.id": "static",
        "feature_flag.version": "9",
    }
    features.show(release_view("4.2", finalized={"metadata.version": 25}, epoch=10))
    assert backend.events[-1].attributes["feature_flag.result.reason"] == "cached"
    assert "held open" in backend.events[-1].body


def test_several_clusters_report_to_one_provider() -> None:
    """The SDK makes each instrument once, and without a word drops what another one of its name would observe."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    def known() -> dict[object, object]:
        (resource,) = reader.get_metrics_data().resource_metrics  # type: ignore[union-attr]
        (metric,) = [each for each in resource.scope_metrics[0].metrics if each.name == "featuregate.brokers.known"]
        return {point.attributes["featuregate.cluster"]: point.value for point in metric.data.data_points}

    orders = FeatureTelemetry(StaticFeatures(release_view("4.2")), cluster="orders", meter_provider=provider)
    FeatureTelemetry(StaticFeatures(release_view("4.2", "4.2")), cluster="payments", meter_provider=provider)
    assert known() == {"orders": 1, "payments": 2}
    with pytest.raises(ConfigError, match="cluster: 'orders' is reported already"):
        FeatureTelemetry(StaticFeatures(), cluster="orders", meter_provider=provider)
    orders.stop()
    orders.stop()
    FeatureTelemetry(StaticFeatures(release_view("4.2", "4.2", "4.2")), cluster="orders", meter_provider=provider)
    assert known() == {"orders": 3, "payments": 2}


def test_a_check_is_an_evaluation_where_the_app_says_so() -> None:
    """Also before anybody knows, and then without a cluster."""
    features = StaticFeatures()
    backend = Backend(features)
    backend.telemetry.record(features.gate("groups", "group.version>=1"))
    (event,) = backend.events
    assert event.attributes["feature_flag.result.reason"] == "unknown"
    assert "feature_flag.set.id" not in event.attributes


def test_numbers_are_those_of_now() -> None:
    """A gauge reads the current view, and reports nothing after the end."""
    features = StaticFeatures(release_view("3.9", "3.9"))
    features.gate("groups", fg.presets.kip848)
    backend = Backend(features)
    features.show(release_view("4.2", "4.2"))
    found = backend.points()
    assert [point.value for point in found["featuregate.brokers.known"]] == [2]
    (gate,) = found["featuregate.gate.open"]
    assert (gate.value, dict(gate.attributes)) == (1, {"featuregate.cluster": "orders", "feature_flag.key": "groups"})
    states = {point.attributes["featuregate.gate.state"]: point.value for point in found["featuregate.gate.state"]}
    assert states == {"open": 1, "held": 0, "waiting": 0, "closed": 0, "unknown": 0}
    status = {point.attributes["featuregate.status"]: point.value for point in found["featuregate.status"]}
    assert status == dict.fromkeys(STATUSES, 0) | {"ok": 1}
    (move,) = found["featuregate.gate.moves"]
    assert (move.value, move.attributes["featuregate.gate.to"]) == (1, "open")
    kinds = {point.attributes["featuregate.change"] for point in found["featuregate.changes"]}
    assert "broker changed" in kinds
    later = features.gate("later", "release>=4.3")
    backend.telemetry.stop()
    events = len(backend.events)
    features.show(release_view("4.3", "4.3"))
    assert later.open
    assert "featuregate.gate.open" not in backend.points()
    assert len(backend.events) == events


def test_before_the_first_view_there_is_no_age() -> None:
    """Zero would be the best of all ages."""
    assert "featuregate.view.age" not in Backend(StaticFeatures()).points()


def test_polls_have_durations() -> None:
    """Failed polls have an error.type."""
    with FakeCluster(1) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600) as features:
        backend = Backend(features)
        features.refresh(BOUND)
        brokers.broker(1).stop()
        with pytest.raises(DiscoveryError):
            features.refresh(BOUND)
        points = backend.points()["featuregate.poll.duration"]
        assert {point.attributes.get("error.type") for point in points} == {None, "poll_failed"}
