"""What Prometheus reads of a relay: the text exposition format 0.0.4. Labels name clusters, brokers and gates only.

Nothing is labelled with a client: ten thousand of them would be ten thousand time series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from featuregate import View

__all__ = ["CONTENT_TYPE", "ClusterNumbers", "exposition"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class ClusterNumbers(NamedTuple):
    """What the metrics of one cluster are made of."""

    health: Mapping[str, Any]
    """As `Discoverer.health` returns it."""
    view: View | None
    gates: Mapping[str, bool]
    waiting: int
    """Requests that wait for the next view."""


class _Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


def exposition(clusters: Mapping[str, ClusterNumbers]) -> str:
    """Return all metrics of these clusters, by their names."""
    lines: list[str] = []
    for name, (kind, meaning, samples) in _metrics(clusters).items():
        lines += [f"# HELP featuregate_relay_{name} {meaning}", f"# TYPE featuregate_relay_{name} {kind}"]
        lines += [f"featuregate_relay_{name}{_labels(each.labels)} {each.value:.15g}" for each in samples]
    return "\n".join(lines) + "\n"


def _metrics(clusters: Mapping[str, ClusterNumbers]) -> dict[str, tuple[str, str, list[_Sample]]]:
    def of_health(key: str) -> list[_Sample]:
        known = ((name, numbers.health[key]) for name, numbers in clusters.items())
        return [_Sample({"cluster": name}, value) for name, value in known if value is not None]

    return {
        "up": ("gauge", "1 if a view is there and not stale.", list(_up(clusters))),
        "view_age_seconds": ("gauge", "Seconds since a broker answered.", of_health("age_seconds")),
        "epoch": ("gauge", "Epoch of the finalized levels; -1 if there is none.", of_health("epoch")),
        "brokers_known": ("gauge", "Brokers of the cluster.", of_health("brokers_known")),
        "polls_total": ("counter", "Polls that have ended.", of_health("polls")),
        "failed_polls": ("gauge", "Polls in a row that no broker answered.", of_health("failures")),
        "broker_answered": ("gauge", "1 if the broker answered the last poll.", list(_brokers(clusters))),
        "gate_open": ("gauge", "1 if the gate is open.", list(_gates(clusters))),
        "requests_waiting": (
            "gauge",
            "Requests that wait for the next view.",
            [_Sample({"cluster": name}, numbers.waiting) for name, numbers in clusters.items()],
        ),
    }


def _up(clusters: Mapping[str, ClusterNumbers]) -> Iterable[_Sample]:
    for name, numbers in clusters.items():
        yield _Sample({"cluster": name}, numbers.health["status"] in {"ok", "degraded"})


def _brokers(clusters: Mapping[str, ClusterNumbers]) -> Iterable[_Sample]:
    for name, numbers in clusters.items():
        for broker in numbers.view.brokers if numbers.view else ():
            label = broker.address if broker.node_id is None else str(broker.node_id)
            yield _Sample({"cluster": name, "broker": label}, broker.answered)


def _gates(clusters: Mapping[str, ClusterNumbers]) -> Iterable[_Sample]:
    for name, numbers in clusters.items():
        for gate, is_open in numbers.gates.items():
            yield _Sample({"cluster": name, "gate": gate}, is_open)


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"
