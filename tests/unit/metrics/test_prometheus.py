"""What Prometheus reads of a discoverer."""

import re

import pytest
from doc_pages import ROOT
from prometheus_client import CollectorRegistry, generate_latest

import featuregate as fg
from featuregate.errors import DiscoveryError
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_metrics.prometheus import FeatureCollector

BOUND = 60.0


def scrape(features: fg.Discoverer) -> tuple[CollectorRegistry, FeatureCollector]:
    registry, collector = CollectorRegistry(), FeatureCollector(features, cluster="orders")
    registry.register(collector)
    return registry, collector


def test_before_the_first_view_there_is_no_age() -> None:
    """Zero would be the best of all ages."""
    registry, _ = scrape(StaticFeatures())
    labels = {"cluster": "orders"}
    assert registry.get_sample_value("featuregate_up", labels) == 0
    assert registry.get_sample_value("featuregate_view_age_seconds", labels) is None
    assert registry.get_sample_value("featuregate_polls_total", labels) == 0


def test_gates_brokers_and_changes_are_numbers() -> None:
    """Labels name the cluster, gates and kinds of changes; a check is counted nowhere."""
    features = StaticFeatures(release_view("3.9", "3.9", epoch=5))
    gate = features.gate("groups", fg.presets.kip848)
    registry, _ = scrape(features)
    features.show(release_view("4.2", "4.2", epoch=9))
    assert gate.open
    labels = {"cluster": "orders"}
    assert registry.get_sample_value("featuregate_up", labels) == 1
    assert registry.get_sample_value("featuregate_epoch", labels) == 9
    assert registry.get_sample_value("featuregate_brokers_known", labels) == 2
    assert registry.get_sample_value("featuregate_brokers_answered", labels) == 2
    assert registry.get_sample_value("featuregate_gate_open", labels | {"gate": "groups"}) == 1
    assert registry.get_sample_value("featuregate_changes_total", labels | {"kind": "broker changed"}) == 2
    assert registry.get_sample_value("featuregate_gate_moves_total", labels | {"gate": "groups", "to": "open"}) == 1
    assert b"# HELP featuregate_gate_open 1 if the gate is open." in generate_latest(registry)


def test_the_page_names_each_metric_with_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other is there: each alert on a metric of the page finds it."""
    monkeypatch.setenv("FEATUREGATE_HOLD", "held")
    features = StaticFeatures(release_view("3.9", epoch=5))
    features.gate("held", fg.presets.kip848)
    features.gate("groups", fg.presets.kip848)
    registry, _ = scrape(features)
    features.show(release_view("4.2", epoch=9))
    page = (ROOT / "docs/how-to/check-health.md").read_text()
    rows = re.findall(r"^\| (`featuregate_.+?) \| (.*?) ?\|", page, re.MULTILINE)
    told = {name: set(re.findall(r"\w+", labels)) for names, labels in rows for name in re.findall(r"\w+", names)}
    samples = [each for family in registry.collect() for each in family.samples if not each.name.endswith("_created")]
    assert {each.name: {*each.labels} - {"cluster"} for each in samples} == told


def test_failed_polls_are_counted() -> None:
    """A counter has the failed polls, and another one has all polls."""
    with FakeCluster(1) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600) as features:
        registry, _ = scrape(features)
        features.refresh(BOUND)
        brokers.broker(1).stop()
        with pytest.raises(DiscoveryError):
            features.refresh(BOUND)
        assert registry.get_sample_value("featuregate_failed_polls_total", {"cluster": "orders"}) >= 1
        assert registry.get_sample_value("featuregate_polls_total", {"cluster": "orders"}) >= 2
