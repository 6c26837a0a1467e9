"""The numbers of a discoverer for Prometheus, read when it scrapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from featuregate.errors import ConfigError
from featuregate.version import how_to_install
from featuregate_metrics.counts import NUMBERS, EventCounts

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise ImportError(
        f"featuregate_metrics.prometheus needs prometheus-client: {how_to_install('prometheus')}"
    ) from error

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from featuregate import Discoverer


class FeatureCollector(Collector):
    """The numbers of a discoverer: ``REGISTRY.register(FeatureCollector(features, cluster="orders"))``.

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
        self._reported: dict[str, tuple[Discoverer, EventCounts]] = {}
        self.add(features, cluster=cluster)

    def add(self, features: Discoverer, *, cluster: str) -> None:
        """Report another discoverer, too: a registry takes a metric from one collector alone.

        Raises ConfigError: another one is reported under this name of a cluster.
        """
        if cluster in self._reported:
            raise ConfigError("cluster", f"{cluster!r} is reported already: give each discoverer a name of its own")
        counts = EventCounts(features.health()["gates"])
        self._reported[cluster] = features, counts
        features.on_event(counts)

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. The registry calls this; no broker is asked."""
        found = [(cluster, features.health(), counts) for cluster, (features, counts) in list(self._reported.items())]
        for number in NUMBERS:
            name = f"featuregate_{number.name.replace('.', '_')}{'_seconds' if number.unit == 's' else ''}"
            make = GaugeMetricFamily if number.kind == "gauge" else CounterMetricFamily
            family = make(name, number.meaning, labels=["cluster", *number.labels])
            for cluster, health, counts in found:
                for labels, value in number.read(health, counts).items():
                    if value is not None:
                        family.add_metric([cluster, *labels], value)
            yield family
