"""One discoverer and its gates, and how to start them again in another process.

On Spark Connect the function of ``foreachBatch`` runs in a process of the server, which sees no change of the driver's.
That process gets a copy that holds only the settings, and starts a discoverer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from featuregate import BrokerSource, Discoverer, Gate, Requirement, UsageReporter, View
from featuregate.errors import ClosedError, ConfigError
from featuregate.requirements import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate.gating.latch_store import LatchStore
    from featuregate.gating.latches import Policy


@dataclass(kw_only=True)
class Watch:
    """A discoverer that starts at its first use."""

    config: Mapping[str, Any] | str = field(repr=False)
    """May hold secrets."""
    interval: float
    wait: float
    """Maximum seconds that the first use waits for a view."""
    broker_list: Any = "cluster"
    cluster_id: str | None = None
    latch_store: LatchStore | str | None = None
    metrics: Callable[[Any], None] | None = None
    usage: UsageReporter | None = None
    _wanted: dict[str, tuple[str, Policy]] = field(default_factory=dict)
    _gates: dict[str, Gate] = field(default_factory=dict)
    _live: Discoverer | None = None
    _closed: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.config, Mapping):
            self.config = dict(self.config)  # sinks read it later, when the app may have changed its own

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings alone, without thread, hook and reporter, which belong to the driver's process."""
        return {**self.__dict__, "metrics": None, "usage": None, "_gates": {}, "_live": None}

    @property
    def features(self) -> Discoverer:
        """The running discoverer. Raises ClosedError (the watch was closed)."""
        if self._closed:
            raise ClosedError("this session's features are closed; make a new FeatureSession")
        if self._live is None:
            source = BrokerSource(self.config, broker_list=self.broker_list, cluster_id=self.cluster_id)
            self._live = Discoverer(
                source=source, interval=self.interval, latch_store=self.latch_store, usage=self.usage
            )
            if self.metrics is not None:
                self._live.on_event(self.metrics)
            self._live.start()
            for name, (text, policy) in self._wanted.items():
                self._gates[name] = self._live.gate(name, text, policy=policy)
            self._live.wait(self.wait)
        return self._live

    def require_cluster_id(self) -> None:
        """Make sure that the latches of this cluster differ from those of another cluster. Raises ConfigError."""
        if self.broker_list == "bootstrap" and self.cluster_id is None:
            raise ConfigError(
                "cluster_id",
                "is missing: brokers of the bootstrap list report no cluster id, and the latches in pins belong "
                "to one; give the cluster's id, or a name that stays the same for as long as the cluster exists",
            )

    def gate(self, name: str, requirement: Requirement | str, policy: Policy) -> Gate:
        """Return the gate of this name; see :meth:`featuregate.Discoverer.gate`."""
        gate = self.features.gate(
            name, parse(requirement) if isinstance(requirement, str) else requirement, policy=policy
        )
        self._wanted[name] = (str(gate.requirement), policy)
        self._gates[name] = gate
        return gate

    def observe(self) -> tuple[View | None, tuple[Gate, ...]]:
        """Return the view and the gates at this moment. Waits only for the first view."""
        features = self.features
        return features.view, tuple(self._gates.values())

    def close(self) -> None:
        """Stop the discoverer. A second call does nothing."""
        self._closed = True
        if self._live is not None:
            self._live.close()


def usage_reporter(spark: SparkSession, config: Mapping[str, Any] | str, topic: str) -> UsageReporter:
    """Return what reports the gates of the driver: the app is that of Spark, the instance its application id."""
    from featuregate_librdkafka.usage_topic import UsageTopic  # noqa: PLC0415 - it loads the client, which pins do not need

    app = spark.conf.get("spark.app.name") or "spark"
    return UsageReporter(
        UsageTopic(config, topic),
        app=app,
        instance=spark.conf.get("spark.app.id", None),
        software=("spark", spark.version),
    )
