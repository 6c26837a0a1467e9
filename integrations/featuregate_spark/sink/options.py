"""The checked options of the Kafka sink, and the batch that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from featuregate.errors import ConfigError
from featuregate_librdkafka.client_properties import client_properties, connection_properties
from featuregate_spark.sink.shards import MAX_METADATA, Batch, Sharding

_CLIENT_ID: Final = "client.id"
"""Left to the session's polls: the sink has a client id of its own, by which quotas and request logs know it."""
_OWN: Final = ("transactional.id", "enable.idempotence", "acks", "request.required.acks")
"""Properties that the sink sets itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What :meth:`featuregate_spark.FeatureSession.kafka_sink` was given. Raises ConfigError."""

    query_name: str
    topic: str | None
    progress_topic: str | None
    producer: Mapping[str, Any] = field(repr=False)
    shards: int | None
    shard_by: Sequence[str]
    first_batch: int
    timeout: float
    driver_rows: int

    def __post_init__(self) -> None:
        if not self.query_name:
            raise ConfigError("query_name", "must not be empty: it names the transactional ids and the consumer group")
        if not (self.progress_topic or self.topic):
            raise ConfigError("progress_topic", "is required without a topic: the progress of shards needs a topic")
        if self.shards is not None and self.shards < 1:
            raise ConfigError("shards", f"must be 1 or more, not {self.shards!r}")
        if isinstance(self.shard_by, str):
            raise ConfigError("shard_by", f"must be a list of columns: shard_by=[{self.shard_by!r}]")
        object.__setattr__(self, "shard_by", tuple(self.shard_by))  # an iterator would have none left for the batches
        if not all(self.shard_by) or len(Sharding(1, tuple(self.shard_by)).to_metadata()) > MAX_METADATA:
            raise ConfigError("shard_by", f"must name columns, in {MAX_METADATA:,} characters at most")
        if not self.timeout > 0:
            raise ConfigError("timeout", f"must be a number of seconds above 0, not {self.timeout!r}")
        if self.driver_rows < 0:
            raise ConfigError("driver_rows", f"must be 0 or more, not {self.driver_rows!r}")
        for name in _OWN:
            if name in self.producer:
                raise ConfigError(name, "is set by the sink itself: remove it")

    @property
    def topic_of_progress(self) -> str:
        """The topic to whose partitions the committed offsets belong."""
        return self.progress_topic or self.topic or ""

    @property
    def connection(self) -> dict[str, Any]:
        """The properties that any client needs to reach the same brokers as the same user."""
        return connection_properties(self.producer)

    def shards_of(self, partitions: int, cores: int) -> int:
        """Return the number of shards that are wanted; by default one for each core. Raises ConfigError."""
        if self.shards is None:
            return min(partitions, cores)
        if self.shards > partitions:
            raise ConfigError(
                "shards",
                f"must not be more than the {partitions} partitions of {self.topic_of_progress!r}, which keep the "
                f"progress of shards, but is {self.shards}",
            )
        return self.shards

    def batch(
        self, batch_id: int, shards: int, *, stable_offsets: bool, zstd: bool, checkpoint: str | None = None
    ) -> Batch:
        """Return a batch in the wanted sharding; properties of the user win over those of the sink."""
        producer = {
            **({"compression.type": "zstd"} if zstd else {}),
            "enable.idempotence": True,
            # Larger requests: a commit sends what waits at once, so that no batch takes longer for it.
            "linger.ms": 50,
            "queue.buffering.max.kbytes": 65_536,  # a task that is faster than Kafka waits, instead of buffering more
            "queue.buffering.max.messages": 1_000_000,  # so that the bytes above are the limit
            "partitioner": "murmur2_random",  # as Spark's own sink and Java's producers, so that keys stay in order
            **self.producer,
        }
        return Batch(
            query=self.query_name,
            batch_id=batch_id,
            sharding=Sharding(shards, tuple(self.shard_by)),
            progress_topic=self.topic_of_progress,
            topic=self.topic,
            producer=producer,
            connection=self.connection,
            stable_offsets=stable_offsets,
            timeout=self.timeout,
            checkpoint=checkpoint,
        )


def sink_properties(session: Mapping[str, Any] | str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's properties for the sink: those that the app gives it, and the connection of its session.

    Raises ConfigError (librdkafka cannot use a property of the session, or a property cannot be sent to executors).
    """
    found = client_properties(session, given)
    properties = {name: value for name, value in found.items() if name != _CLIENT_ID or name in given}
    for name, value in properties.items():
        _require_picklable(name, value)
    return properties


def _require_picklable(name: str, value: object) -> None:
    from pyspark import cloudpickle  # noqa: PLC0415 - the options are read without Spark, too

    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]  # PySpark has no types for it
    except Exception as error:  # whatever the value raises; its text may hold a secret
        raise ConfigError(
            name,
            f"cannot be sent to executors, since pickling it fails with {type(error).__name__}: pass "
            f"kafka_sink(producer={{{name!r}: ...}}) what can be pickled, such as a function of a module",
        ) from error
