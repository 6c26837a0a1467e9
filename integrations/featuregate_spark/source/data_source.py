"""The data source ``kafka_features``: what every broker of a cluster can do, as a table and as a stream of changes.

Only the driver asks brokers: for a batch when its query is planned, for a stream when Spark asks for the latest offset.
Executors get the answers as a value, so that a task that is retried gives the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from featuregate import discover
from featuregate.polling.discovery import broker_source
from featuregate_spark.source.feature_poller import FeaturePoller
from featuregate_spark.source.feature_state import FeatureState, document_of, next_state, state_from
from featuregate_spark.source.reader_options import ReaderOptions
from featuregate_spark.source.rows import SCHEMA, FeatureRow, pushed, rows_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_INITIAL_OFFSET: Final = {"n": 0}
"""The offset of a stream before any broker has answered."""


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
        """Check the options, and return the columns.

        Raises
        ------
        ConfigError
            An option is not known, is missing or has a value that cannot be used.
        """
        ReaderOptions.parse(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the columns are always the same
        """Return the reader of a batch."""
        options = ReaderOptions.parse(self.options)
        return PushedReader(options) if options.pushdown else FeatureReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - PySpark's name
        """Return the reader of a stream."""
        return FeatureStream(ReaderOptions.parse(self.options))


def _rows(options: ReaderOptions, partition: InputPartition) -> Iterator[FeatureRow]:
    """Return the rows of a document; tasks run this."""
    state = state_from(partition.value)
    return rows_of(state, options.levels(state), options.only)


class FeatureReader(DataSourceReader):
    """Reads the state of a cluster once."""

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Ask every broker, on the driver, while the query is planned.

        Raises
        ------
        DiscoveryError
            No broker answered; the error names each. A single broker that does not answer is a row.
        """
        kafka, options = self._options.kafka, self._options
        view = discover(kafka, timeout=options.timeout, broker_list=options.broker_list)
        return [InputPartition(document_of(next_state(None, view)))]

    def read(self, partition: InputPartition) -> Iterator[FeatureRow]:
        """Return the rows of the answers."""
        return _rows(self._options, partition)


class PushedReader(FeatureReader):
    """Reads once, and applies the filters that Spark pushes down, as PySpark 4.1 and newer do.

    A class of its own, because PySpark refuses to plan with such a reader while its push-down is switched off.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - PySpark's name
        """Keep the filters that this reader applies, and return the others to Spark."""
        only, rest = pushed(self._options.only, filters)
        self._options = replace(self._options, only=only)
        return rest


class FeatureStream(DataSourceStreamReader):
    """Reads the changes of a cluster, each as the rows of the whole state.

    An offset holds the content of its rows and the levels that were latched by then. A replay and a restart read it
    from Spark's own offset log.
    """

    def __init__(self, options: ReaderOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._due = clock()
        self._poller: FeaturePoller | None = None
        self._offset: dict[str, Any] = _INITIAL_OFFSET

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Return the offset before the first rows."""
        return _INITIAL_OFFSET

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Return the newest offset, which changes only with the content of the cluster."""
        if self._clock() >= self._due:
            self._poll()
            self._due = self._clock() + self._options.interval
        return self._offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the rows between two offsets: the whole state at the second.

        Spark passes the same offset twice to tell where a restarted query continues.
        """
        if self._poller is None and end != _INITIAL_OFFSET:
            self._poller, self._offset = self._poller_from(state_from(end)), end
        return [] if start == end else [InputPartition(end)]

    def read(self, partition: InputPartition) -> Iterator[FeatureRow]:
        """Return the rows of an offset, without asking a broker."""
        return _rows(self._options, partition)

    def _poll(self) -> None:
        if self._poller is None:
            self._poller = self._poller_from(None)
        before = self._poller.state
        self._poller.poll()
        state = self._poller.state
        if state is not None and (before is None or before.number != state.number):
            self._offset = document_of(state)

    def _poller_from(self, before: FeatureState | None) -> FeaturePoller:
        options = self._options
        source = broker_source(options.kafka, timeout=options.timeout, broker_list=options.broker_list)
        return FeaturePoller(source, options, before, clock=self._clock)
