"""What Prometheus reads of a relay. Labels name clusters, brokers and gates only.

Nothing is labelled with a client: ten thousand of them would be ten thousand time series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from featuregate.gating.decisions import STATES
from featuregate.polling.poll_state import STATUSES
from featuregate.printable import printable

if TYPE_CHECKING:
    from featuregate import View

CONTENT_TYPE = CONTENT_TYPE_LATEST


class ClusterNumbers(NamedTuple):
    """What the metrics of one cluster are made of."""

    health: Mapping[str, Any]
    """As `Discoverer.health` returns it."""
    view: View | None
    waiting: int
    """Requests that wait for the next view."""
    streams: int
    """Streams that wait for the next event."""


def exposition(clusters: Mapping[str, ClusterNumbers]) -> bytes:
    """Return all metrics of these clusters in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Numbers(clusters))
    return generate_latest(registry)


class _Numbers(Collector):
    """The numbers of one moment, under their names."""

    def __init__(self, clusters: Mapping[str, ClusterNumbers]) -> None:
        self._clusters = clusters

    def collect(self) -> Iterator[Metric]:
        up = _gauge("up", "1 if a view is there and not stale.")
        waiting = _gauge("requests_waiting", "Requests that wait for the next view.")
        streams = _gauge("streams", "Open streams of events.")
        answered = _gauge("broker_answered", "1 if the broker answered the last poll.", "broker")
        gate_open = _gauge("gate_open", "1 if the gate is open.", "gate")
        status = _gauge("status", "1 for the status of now.", "status")
        state = _gauge(
            "gate_state", "1 for the state of the gate: open, held, waiting, closed or unknown.", "gate", "state"
        )
        of_health: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
            "age_seconds": _gauge("view_age_seconds", "Seconds since a broker answered."),
            "epoch": _gauge("epoch", "Epoch of the finalized levels; -1 if there is none."),
            "brokers_known": _gauge("brokers_known", "Brokers of the cluster."),
            "failures": _gauge("failed_polls", "Polls in a row that no broker answered."),
            "polls": _counter("polls", "Polls that have ended."),
        }
        for name, numbers in self._clusters.items():
            up.add_metric([name], numbers.health["status"] in {"ok", "degraded"})
            waiting.add_metric([name], numbers.waiting)
            streams.add_metric([name], numbers.streams)
            for key, family in of_health.items():
                if numbers.health[key] is not None:
                    family.add_metric([name], numbers.health[key])
            for broker in numbers.view.brokers if numbers.view else ():
                label = broker.address if broker.node_id is None else str(broker.node_id)
                answered.add_metric([name, printable(label)], broker.answered)
            for each in STATUSES:
                status.add_metric([name, each], each == numbers.health["status"])
            for gate, is_open in numbers.health["gates"].items():
                gate_open.add_metric([name, gate], is_open)
                for each in STATES:
                    state.add_metric([name, gate, each], each == numbers.health["states"][gate])
        yield from (up, status, waiting, streams, answered, gate_open, state, *of_health.values())


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"featuregate_relay_{name}", meaning, labels=["cluster", *labels])


def _counter(name: str, meaning: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"featuregate_relay_{name}", meaning, labels=["cluster"])
