"""What Prometheus reads of a discoverer."""

import re
from dataclasses import replace

import pytest
from doc_pages import ROOT
from prometheus_client import CollectorRegistry, generate_latest

import featuregate as fg
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.polling.poll_state import STATUSES
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


def test_several_clusters_have_one_collector() -> None:
    """A registry takes each metric from one alone."""
    registry, collector = scrape(StaticFeatures(release_view("4.2")))
    collector.add(StaticFeatures(release_view("4.2", "4.2")), cluster="payments")
    known = [
        registry.get_sample_value("featuregate_brokers_known", {"cluster": name}) for name in ("orders", "payments")
    ]
    assert known == [1, 2]
    with pytest.raises(ConfigError, match="cluster: 'orders' is reported already"):
        collector.add(StaticFeatures(), cluster="orders")


def states(registry: CollectorRegistry, gate: str) -> dict[str, float | None]:
    known = ("open", "held", "waiting", "closed", "unknown")
    labels = {"cluster": "orders", "gate": gate}
    return {state: registry.get_sample_value("featuregate_gate_state", labels | {"state": state}) for state in known}


def test_a_gate_that_is_held_open_is_no_gate_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open all the time. The status is degraded meanwhile, and each state and status has a number."""
    monkeypatch.setenv("FEATUREGATE_HOLD", "waits")
    features = StaticFeatures(release_view("3.9", epoch=5))
    gates = [features.gate(name, "group.version>=1") for name in ("groups", "waits")]
    registry, _ = scrape(features)
    assert states(registry, "groups") == {"open": 0, "held": 0, "waiting": 0, "closed": 1, "unknown": 0}
    upgraded = release_view("4.2", epoch=9)
    features.show(upgraded)
    assert states(registry, "groups")["open"] == states(registry, "waits")["waiting"] == 1
    features.show(release_view("4.2", finalized={"metadata.version": 25}, epoch=10))
    assert gates[0].open
    assert states(registry, "groups") == {"open": 0, "held": 1, "waiting": 0, "closed": 0, "unknown": 0}
    status = [
        registry.get_sample_value("featuregate_status", {"cluster": "orders", "status": name}) for name in STATUSES
    ]
    assert dict(zip(STATUSES, status, strict=True)) == dict.fromkeys(STATUSES, 0) | {"degraded": 1}
    features.show(replace(upgraded, epoch=11))

    def moves(to: str) -> float | None:
        labels = {"cluster": "orders", "gate": "groups", "to": to}
        return registry.get_sample_value("featuregate_gate_moves_total", labels)

    assert (moves("open"), moves("held"), moves("closed")) == (1, 1, None)


def test_a_gate_that_was_open_before_the_collector_closes_once() -> None:
    """The collector begins with the gates as they are."""
    features = StaticFeatures(release_view("4.2", epoch=9))
    gate = features.gate("groups", "group.version>=1", policy="live")
    registry, _ = scrape(features)
    features.show(release_view("4.2", finalized={"metadata.version": 25}, epoch=10))
    assert not gate.open
    labels = {"cluster": "orders", "gate": "groups", "to": "closed"}
    assert registry.get_sample_value("featuregate_gate_moves_total", labels) == 1


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
