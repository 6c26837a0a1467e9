"""The data source ``kafka_features``: what every broker of a cluster can do, as a table.

Only the driver asks brokers, when a query is planned. Executors get the view as a value, so that a task that is retried
gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from featuregate import discover
from featuregate.errors import ConfigError
from featuregate_spark.source.rows import KINDS, SCHEMA, FeatureRow, Only, rows_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_KAFKA: Final = "kafka."
_BOOTSTRAP: Final = ("kafka.bootstrap.servers", "kafka.bootstrap.controllers")


class KafkaFeatures(DataSource):
    """What every broker of a Kafka cluster can do: ``spark.read.format("kafka_features")``.

    Register it once in each session: ``spark.dataSource.register(KafkaFeatures)``. *Features as a table* describes the
    columns and the options.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafka_features"

    def schema(self) -> str:
        """Check the options, as :meth:`ReaderOptions.parse` does, and return the columns."""
        ReaderOptions.parse(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the columns are always the same
        """Return the reader of a batch."""
        return FeatureReader(ReaderOptions.parse(self.options))


class FeatureReader(DataSourceReader):
    """Reads what a cluster can do, once."""

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Ask every broker, on the driver, while the query is planned. Raises DiscoveryError."""
        own = self._options
        return [InputPartition(discover(own.kafka, timeout=own.timeout, broker_list=own.broker_list))]

    def read(self, partition: InputPartition) -> Iterator[FeatureRow]:
        """Return the rows of the view; tasks run this."""
        return rows_of(partition.value, self._options.only)


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """The checked options of a reader."""

    kafka: Mapping[str, str] = field(repr=False)
    """Properties of the cluster, prefixed with ``kafka.``. Some are secret."""
    broker_list: Any = "cluster"
    timeout: float = 15.0
    only: Only = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReaderOptions:
        """Read the options of a reader, which are all text. Raises ConfigError."""
        kafka = {name: value for name, value in options.items() if name.startswith(_KAFKA)}
        own = {name: value for name, value in options.items() if name not in kafka}
        if unknown := own.keys() - _PARSERS.keys():
            known = f"{', '.join(_PARSERS)}, and properties of Kafka clients prefixed with {_KAFKA}"
            raise ConfigError(min(unknown), f"is not an option of kafka_features, which has {known}")
        if not any(name in kafka for name in _BOOTSTRAP):
            raise ConfigError(_BOOTSTRAP[0], "is missing: the bootstrap brokers, as host:port")
        values = {name: _PARSERS[name](name, value) for name, value in own.items()}
        only: Only = {name: values.pop(name) for name in ("broker", "kind", "feature") if name in values}
        return cls(kafka=kafka, only=only, **values)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(name, f"{value!r} is not a number of seconds above 0")
    return seconds


def _broker_list(name: str, value: str) -> str:
    if (chosen := value.strip().lower()) not in {"cluster", "bootstrap"}:
        raise ConfigError(name, f"{value!r} is none of: cluster, bootstrap")
    return chosen


def _list(convert: Callable[[str], object], wrong: str = "") -> Callable[[str, str], frozenset[Any]]:
    def parse(name: str, value: str) -> frozenset[Any]:
        try:
            items = frozenset(convert(item.strip()) for item in value.split(",") if item.strip())
        except ValueError:
            raise ConfigError(name, f"{value!r} {wrong}") from None
        if not items:
            raise ConfigError(name, "is empty: omit it to get all")
        return items

    return parse


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "broker": _list(int, "is not a comma-separated list of broker ids"),
    "feature": _list(str),
    "kind": _list(lambda item: KINDS[KINDS.index(item)], f"has items that are none of: {', '.join(KINDS)}"),
    "broker_list": _broker_list,
    "timeout": _seconds,
}
