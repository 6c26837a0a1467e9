"""The data source ``kafka_features``: what every broker of a cluster can do, as a table and as a stream of changes.

The driver alone asks brokers: a batch when its query is planned, a stream when Spark asks for the latest offset.
Executors are given what was answered as a value, so a task that is tried again gives the same rows.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from featuregate import discover
from featuregate.errors import ConfigError, DiscoveryError
from featuregate_spark.source.feature_state import document_of, latched_levels, next_state, seen_levels, state_from
from featuregate_spark.source.rows import KINDS, SCHEMA, pushed, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql.types import StructType

    from featuregate import View
    from featuregate_spark.source.feature_state import FeatureState, Levels
    from featuregate_spark.source.rows import FeatureRow, Only

__all__ = ["FeatureReader", "FeatureStream", "KafkaFeatures", "PushedReader"]

logger = logging.getLogger("featuregate.spark")

_KAFKA: Final = "kafka."
_WHERE: Final = ("kafka.bootstrap.servers", "kafka.bootstrap.controllers")
_NOTHING_YET: Final = {"n": 0}
"""The offset of a stream before anybody has answered."""


class KafkaFeatures(DataSource):
    """What every broker of a Kafka cluster can do: ``spark.read.format("kafka_features")``.

    Register it once for each session: ``spark.dataSource.register(KafkaFeatures)``. The columns, the options and what
    it is for are in *Features as a table*.
    """

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "kafka_features"

    def schema(self) -> str:
        """Give the columns, once the options are known to be right.

        Raises
        ------
        ConfigError
            An option is not known, is missing or has a value that cannot be used.
        """
        ReaderOptions.of(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the columns are always ours
        """Give what reads once."""
        wanted = ReaderOptions.of(self.options)
        return PushedReader(wanted) if wanted.pushdown else FeatureReader(wanted)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - PySpark's name
        """Give what reads each change."""
        return FeatureStream(ReaderOptions.of(self.options))


# ---------------------------------------------------------------------- options


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """What the options say, checked."""

    kafka: Mapping[str, str] = field(repr=False)
    """Properties of the cluster, with ``kafka.`` in front. Some are secret."""
    broker_list: Any = "cluster"
    timeout: float = 15.0
    interval: float = 30.0
    levels: Callable[[FeatureState], Levels] = latched_levels
    only: Only = field(default_factory=dict)
    pushdown: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReaderOptions:
        """Read the options of a reader, which are all text.

        Raises
        ------
        ConfigError
            An option is not known, is missing or has a value that cannot be used.
        """
        kafka = {name: value for name, value in options.items() if name.startswith(_KAFKA)}
        own = {name: value for name, value in options.items() if name not in kafka}
        for name in own:
            if name not in _READS:
                raise ConfigError(
                    name,
                    f"kafka_features has no such option; it has {', '.join(_READS)}, and properties of Kafka clients "
                    f"with {_KAFKA} in front",
                )
        if not any(where in kafka for where in _WHERE):
            raise ConfigError(_WHERE[0], "is missing: it says where the cluster is, as host:port")
        said = {name: _READS[name](name, value) for name, value in own.items()}
        only: Only = {name: said.pop(name) for name in ("broker", "kind", "feature") if name in said}
        return cls(kafka=kafka, only=only, **said)

    def discover(self) -> View:
        """Ask every broker once."""
        return discover(self.kafka, timeout=self.timeout, broker_list=self.broker_list)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(name, f"{value!r} is no number of seconds above 0")
    return seconds


def _one_of(choices: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def read(name: str, value: str) -> Any:
        if value.strip().lower() not in choices:
            raise ConfigError(name, f"{value!r} is none of: {', '.join(choices)}")
        return choices[value.strip().lower()]

    return read


def _list(name: str, value: str) -> frozenset[Any]:
    items = frozenset(item.strip() for item in value.split(",") if item.strip())
    if not items:
        raise ConfigError(name, "is empty: leave it out to have all")
    return items


def _brokers(name: str, value: str) -> frozenset[Any]:
    try:
        return frozenset(int(item) for item in _list(name, value))
    except ValueError:
        raise ConfigError(name, f"{value!r} is no list of broker ids, with commas between") from None


def _kinds(name: str, value: str) -> frozenset[Any]:
    items = _list(name, value)
    if not items <= set(KINDS):
        raise ConfigError(name, f"{value!r} has some that are none of: {', '.join(KINDS)}")
    return items


_READS: Final[dict[str, Callable[[str, str], Any]]] = {
    "broker": _brokers,
    "feature": _list,
    "interval": _seconds,
    "kind": _kinds,
    "levels": _one_of({"latched": latched_levels, "latest": seen_levels}),
    "pushdown": _one_of({"true": True, "false": False}),
    "broker_list": _one_of({"cluster": "cluster", "bootstrap": "bootstrap"}),
    "timeout": _seconds,
}


# ---------------------------------------------------------------------- readers


def _rows(wanted: ReaderOptions, partition: InputPartition) -> Iterator[FeatureRow]:
    """Give the rows of what was answered; this is what a task does."""
    step = state_from(partition.value)
    return rows_of(step.view, wanted.levels(step), wanted.only)


class FeatureReader(DataSourceReader):
    """One look at a cluster, as rows."""

    def __init__(self, wanted: ReaderOptions) -> None:
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        """Ask every broker, on the driver, while the query is planned.

        Raises
        ------
        DiscoveryError
            Nobody answered; the error names each broker. One that is silent among others is a row.
        """
        return [InputPartition(document_of(next_state(None, self._wanted.discover())))]

    def read(self, partition: InputPartition) -> Iterator[FeatureRow]:
        """Give the rows of what was answered."""
        return _rows(self._wanted, partition)


class PushedReader(FeatureReader):
    """One look, with the filters that Spark hands down, which PySpark 4.1 and newer do.

    A class of its own, because PySpark refuses to plan with such a reader while its push-down is switched off.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - PySpark's name
        """Take over what is handled here, and return the rest."""
        only, rest = pushed(self._wanted.only, filters)
        self._wanted = replace(self._wanted, only=only)
        return rest


class FeatureStream(DataSourceStreamReader):
    """The changes of a cluster, each as the rows of all that is known then.

    An offset holds the content that its rows are made of, and the levels that were latched by then: Spark's own log of
    offsets is what a replay reads, and what a restart goes on from.
    """

    def __init__(self, wanted: ReaderOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._wanted = wanted
        self._clock = clock
        self._due = clock()
        self._step: FeatureState | None = None
        self._offset: dict[str, Any] = _NOTHING_YET

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Give the offset before the first rows."""
        return _NOTHING_YET

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Give the newest offset: another one only if the cluster's content has changed."""
        if self._clock() >= self._due:
            self._poll()
            self._due = self._clock() + self._wanted.interval
        return self._offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan what lies between two offsets: all that is known at the second.

        With twice the same, Spark tells where a restarted query goes on.
        """
        if self._step is None and end != _NOTHING_YET:
            self._step, self._offset = state_from(end), end
        return [] if start == end else [InputPartition(end)]

    def read(self, partition: InputPartition) -> Iterator[FeatureRow]:
        """Give the rows of an offset, without asking anybody."""
        return _rows(self._wanted, partition)

    def _poll(self) -> None:
        try:
            seen = self._wanted.discover()
        except DiscoveryError as error:
            logger.warning("kafka_features goes on with what it knew: %s", error)
            return
        before, self._step = self._step, next_state(self._step, seen)
        if before is None or before.number != self._step.number:
            self._offset = document_of(self._step)
