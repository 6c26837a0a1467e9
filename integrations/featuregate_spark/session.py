"""The session: one discoverer on the driver, which ends with its SparkSession."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

from featuregate.errors import ConfigError, NotPicklable
from featuregate.files import require_text
from featuregate.requirements import presets
from featuregate_spark.environment import SparkEnvironment, environment_of, require_driver, require_fitting_connector
from featuregate_spark.errors import WrongSession
from featuregate_spark.events import EventEmitter, SparkHook
from featuregate_spark.pins.batches import BatchFunction, PinnedBatches
from featuregate_spark.pins.write_once import open_files
from featuregate_spark.session_kind import is_classic, is_stopped
from featuregate_spark.snapshot import Snapshot
from featuregate_spark.watch import Watch, usage_reporter

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from featuregate import Gate, Requirement, View
    from featuregate.gating.latch_store import LatchStore
    from featuregate.gating.latches import Policy
    from featuregate.roles import BrokerListSource
    from featuregate_spark.listener import FeatureListener
    from featuregate_spark.sink.kafka_sink import KafkaSink

FIRST_VIEW_SECONDS: Final = 15.0
SINK_SECONDS: Final = 60.0


class FeatureSession:
    """Discovers the cluster on the driver, and gives executors the decisions as values.

    The session polls until it is closed or its SparkSession is stopped.

    Parameters
    ----------
    spark
        The driver's session.
    config
        Where the cluster is: ``host:port``, or properties in any spelling that :class:`featuregate.Discoverer` takes,
        those of Spark's Kafka source (``kafka.bootstrap.servers``) among them.
    gates
        The first gates, by name: a requirement, or its text.
    interval
        Seconds between polls of a quiet cluster.
    wait
        Maximum seconds to wait for the first view. Without a view gates are closed.
    latch_store
        Keeps latches beyond the process, in addition to those that each query keeps in its checkpoint.
    metrics
        Called with each event of the core and of this package.
    broker_list, cluster_id
        See :class:`featuregate.BrokerSource`. Brokers of a bootstrap list report no cluster id:
        there ``latch_store`` and :meth:`foreach_batch` need ``cluster_id``.
    usage_topic
        The topic that takes :doc:`usage reports </reference/views>` of the driver, such as
        ``featuregate-usage``. The app of a report is ``spark.app.name``. Off by default.

    Raises
    ------
    ConfigError
        A property has a value that cannot be used.
    WrongConnector
        The Kafka connector of this Spark was built for another release.
    WrongSession
        This is a task of an executor; only the driver asks brokers.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Mapping[str, Any] | str,
        *,
        gates: Mapping[str, Requirement | str] | None = None,
        interval: float = 60.0,
        wait: float = FIRST_VIEW_SECONDS,
        latch_store: LatchStore | str | None = None,
        metrics: SparkHook | None = None,
        broker_list: BrokerListSource = "cluster",
        cluster_id: str | None = None,
        usage_topic: str | None = None,
    ) -> None:
        require_driver()
        require_fitting_connector(spark)
        self.spark = spark
        self._hook = metrics
        self._emit = EventEmitter(metrics)
        self._sinks: WeakSet[KafkaSink] = WeakSet()
        self._watch = Watch(
            config=config,
            interval=interval,
            wait=wait,
            broker_list=broker_list,
            cluster_id=cluster_id,
            latch_store=latch_store,
            metrics=self._on_event,
            usage=usage_reporter(spark, config, usage_topic) if usage_topic else None,
        )
        for name, requirement in (gates or {}).items():
            self.gate(name, requirement)
        self._watch.observe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FeatureSession: {self._watch.features!r}>"

    def __reduce__(self) -> str:
        raise NotPicklable("feature session", "it lives on the driver; send features.snapshot(), or its broadcast()")

    def close(self) -> None:
        """Stop polling, and close the clients of the sinks. A second call does nothing."""
        self._watch.close()
        for sink in list(self._sinks):
            sink.close()

    # ------------------------------------------------------------------ decisions

    @property
    def view(self) -> View | None:
        """The view of the last poll; None before the first answer."""
        return self._watch.features.view

    def gate(self, name: str, requirement: Requirement | str, *, policy: Policy = "sticky") -> Gate:
        """Return the gate of this name; see :meth:`featuregate.Discoverer.gate`. It stays on the driver."""
        return self._watch.gate(name, requirement, policy)

    def health(self) -> dict[str, Any]:
        """Return the state of discovery; see :meth:`featuregate.Discoverer.health`."""
        return self._watch.features.health()

    def environment(self) -> SparkEnvironment:
        """Return the versions of Spark, of its Kafka connector and of pandas, and whether workers import featuregate.

        Runs one job of one task. ``print()`` shows a line for each.
        """
        return environment_of(self.spark)

    def snapshot(self) -> Snapshot:
        """Return the decisions of all gates as a value for closures: small, frozen, picklable.

        Take it where the plan is built: a function keeps the snapshot that it closed over.
        """
        view, gates = self._watch.observe()
        return Snapshot.of(view, {gate.name: gate.decision for gate in gates})

    def broadcast(self) -> Broadcast[Snapshot]:
        """Return the snapshot as a broadcast, for plans of many tasks.

        Raises `WrongSession`: Spark Connect has no broadcasts. Let functions close over :meth:`snapshot` there.
        """
        if not is_classic(self.spark):
            raise WrongSession("Spark Connect has no broadcasts: let the function close over features.snapshot()")
        return self.spark.sparkContext.broadcast(self.snapshot())

    # ------------------------------------------------------------------ streams

    def foreach_batch(self, function: BatchFunction, *, checkpoint: str) -> Callable[[DataFrame, int], None]:
        """Return a function for ``writeStream.foreachBatch`` that pins each micro-batch, then calls ``function``.

        ``function(df, batch_id, pin)`` is called when the pin is durable. A replay of the batch gets the same pin,
        whatever the cluster has become, and no pin falls below what the query has latched.
        Raises `ConfigError`: ``checkpoint`` is empty; or brokers are those of a bootstrap list, which need
        ``cluster_id``, without which latches would hold for any cluster.

        Parameters
        ----------
        function
            The app's code.
        checkpoint
            The query's ``checkpointLocation``; its folder ``featuregate`` keeps the pins.
        """
        require_text("checkpoint", checkpoint)
        self._watch.require_cluster_id()
        return PinnedBatches(function, checkpoint=checkpoint, watch=self._watch, open_files=open_files, emit=self._emit)

    def listener(self) -> FeatureListener:
        """Return a listener for ``spark.streams.addListener`` that reports gates and pins with Spark's progress.

        Spark calls it some time after each batch: use it for logs and metrics, not for gating.
        """
        from featuregate_spark.listener import FeatureListener  # noqa: PLC0415 - it subclasses a class of PySpark

        return FeatureListener(self.snapshot, emit=self._emit)

    def kafka_sink(
        self,
        query_name: str,
        topic: str | None = None,
        bootstrap: str | None = None,
        *,
        producer: Mapping[str, Any] | None = None,
        shards: int | None = None,
        shard_by: Sequence[str] = (),
        progress_topic: str | None = None,
        first_batch: int = 0,
        timeout: float = SINK_SECONDS,
        driver_rows: int = 1000,
    ) -> KafkaSink:
        """Return an exactly-once Kafka sink for ``writeStream.foreachBatch``, or to call in a function of your own.

        It takes the columns of Spark's Kafka sink: ``value``, and optionally ``key``, ``topic``, ``partition`` and
        ``headers``. Each shard of a batch is written in one transaction, together with the shard's progress; a
        replay skips the shards that have committed.

        Parameters
        ----------
        query_name
            Names the transactional ids and the consumer group of the progress. Keep it over restarts; a query with a
            new checkpoint needs a new name.
        topic
            The topic of the rows; without it the column ``topic`` names the topic of each row.
        bootstrap
            ``host:port`` of other brokers than those of this session.
        producer
            Properties of librdkafka: ``compression.type``, ``transaction.timeout.ms`` and others; ``partitioner`` is
            ``murmur2_random`` by default, as Java's producers partition. Addresses, TLS and
            SASL are those of the session, except where these say something else: a property of TLS here replaces
            all of the session's TLS, one of SASL all of its SASL, and other brokers all of both.
        shards
            The number of transactions that write a batch, at most one for each partition of ``topic``; by default one
            for each core. It may change between two runs of a query.
        shard_by
            The columns that choose a row's shard; by default ``key``, or ``value`` where the key is null. Their values
            must be the same in a replay of the batch.
        progress_topic
            The topic whose partitions keep the progress of the shards, where ``topic`` is not given.
        first_batch
            The first batch that the query gives to this sink, or the first one after batches without rows that a
            function did not give to it; no progress of the batch before is expected.
        timeout
            Seconds that a call to Kafka may take.
        driver_rows
            The driver writes a batch itself, without tasks, if neither that batch nor the one before has more rows. 0:
            tasks write every batch.

        Raises
        ------
        ConfigError
            A parameter or a property cannot be used: by librdkafka, or because it cannot be sent to executors.
        WriteFailed
            ``topic`` or ``progress_topic`` does not exist, or no broker answers within ``timeout``.

        Notes
        -----
        Needs WRITE and DESCRIBE on the topics, WRITE and DESCRIBE on the transactional ids ``<query_name>-*``, and
        READ and DESCRIBE on the group ``<query_name>``.
        """
        # Here, because it loads the client, which pins do not need.
        from featuregate_spark.sink.kafka_sink import STABLE_OFFSETS_GATE, ZSTD_GATE, KafkaSink  # noqa: PLC0415
        from featuregate_spark.sink.options import SinkOptions, sink_properties  # noqa: PLC0415

        if bootstrap is not None and not bootstrap.strip():  # a variable that is not set
            raise ConfigError("bootstrap", "is empty: give host:port, or leave it out for this session's brokers")
        brokers = {} if bootstrap is None else {"bootstrap.servers": bootstrap}
        options = SinkOptions(
            query_name=query_name,
            topic=topic,
            progress_topic=progress_topic,
            producer=sink_properties(self._watch.config, {**(producer or {}), **brokers}),
            shards=shards,
            shard_by=shard_by,
            first_batch=first_batch,
            timeout=timeout,
            driver_rows=driver_rows,
        )
        self.gate(STABLE_OFFSETS_GATE, presets.kip447)
        self.gate(ZSTD_GATE, presets.zstd)
        sink = KafkaSink(self.spark, options, watch=self._watch, emit=self._emit)
        sink.check_topics()
        self._sinks.add(sink)
        return sink

    # ------------------------------------------------------------------ the poll loop's side

    def _on_event(self, event: Any) -> None:
        """Pass on an event of the core; close the session if its Spark is stopped."""
        if is_stopped(self.spark):
            self.close()
        if self._hook is not None:
            self._hook(event)
