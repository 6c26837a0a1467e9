"""The numbers of a discoverer for Prometheus, read when it scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from featuregate_metrics.counts import EventCounts

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise ImportError(
        "featuregate_metrics.prometheus needs prometheus-client: pip install '.[prometheus]' in a checkout"
    ) from error

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from featuregate import Discoverer


class FeatureCollector(Collector):
    """The numbers of one discoverer: ``REGISTRY.register(FeatureCollector(features, cluster="orders"))``.

    A check of a gate is counted nowhere, because it is one attribute read.

    Parameters
    ----------
    features
        The discoverer; its events are counted from now on.
    cluster
        The value of the label ``cluster``. A name of the app's own, because the cluster id is unknown before the
        first view.
    """

    def __init__(self, features: Discoverer, *, cluster: str = "default") -> None:
        self._features = features
        self._cluster = cluster
        self._counts = EventCounts()
        features.on_event(self._counts)

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. The registry calls this; no broker is asked."""
        health = self._features.health()
        yield self._gauge("up", "1 if there is a view, and it is not stale.", health["status"] in {"ok", "degraded"})
        yield self._gauge("view_age_seconds", "Seconds since a broker answered.", health["age_seconds"])
        yield self._gauge("epoch", "Epoch of the finalized levels; -1 if there is none.", health["epoch"])
        yield self._gauge("brokers_known", "Brokers of the cluster.", health["brokers_known"])
        yield self._gauge("brokers_answered", "Brokers that answered the last poll.", health["brokers_answered"])
        gates = GaugeMetricFamily("featuregate_gate_open", "1 if the gate is open.", labels=["cluster", "gate"])
        for name, is_open in health["gates"].items():
            gates.add_metric([self._cluster, name], is_open)
        yield gates
        waits = GaugeMetricFamily(
            "featuregate_gate_waits",
            "1 if a hold or the burn-in keeps the gate closed.",
            labels=["cluster", "gate", "for"],
        )
        for name, waiting in health["waits"].items():
            waits.add_metric([self._cluster, name, waiting["for"]], 1)
        yield waits
        yield self._counter("polls", "Polls that have ended.", {(): health["polls"]})
        yield self._counter("failed_polls", "Polls that no broker answered.", {(): self._counts.failed_polls})
        changes: dict[tuple[str, ...], int] = {(kind,): count for kind, count in self._counts.changes.items()}
        yield self._counter("changes", "Differences between two views.", changes, "kind")
        moves: dict[tuple[str, ...], int] = {
            (gate, "open" if is_open else "closed"): count for (gate, is_open), count in self._counts.gate_moves.items()
        }
        yield self._counter("gate_moves", "Gates that opened, closed, or are held open.", moves, "gate", "to")

    def _gauge(self, name: str, meaning: str, value: float | None) -> Metric:
        family = GaugeMetricFamily(f"featuregate_{name}", meaning, labels=["cluster"])
        if value is not None:
            family.add_metric([self._cluster], value)
        return family

    def _counter(self, name: str, meaning: str, values: dict[tuple[str, ...], int], *labels: str) -> Metric:
        family = CounterMetricFamily(f"featuregate_{name}", meaning, labels=["cluster", *labels])
        for label, value in values.items():
            family.add_metric([self._cluster, *label], value)
        return family
