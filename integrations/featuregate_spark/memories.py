"""The memories of slots, asked of the group that keeps them: by a driver that begins, and by the task of a slot."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from featuregate_spark.errors import WriteFailed
from featuregate_spark.slots import Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from featuregate_spark.slots import Batch

__all__ = ["LOOK_SECONDS", "PAUSE", "QUIET", "Memories", "Unanswered", "partitions_of", "words_of"]

_log = logging.getLogger("featuregate.spark.memories")

PAUSE: Final = 0.2
LOOK_SECONDS: Final = 2.0
"""For a look that a transaction may hold up, before something is done about it."""
QUIET: Final = {"log_level": 3}
_ATTEMPT: Final = 5.0
_PASSING: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's own codes are public names that begin so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""Errors that pass while the group moves to another coordinator, or a transaction ends."""


class Unanswered(WriteFailed):
    """The group's coordinator did not answer in time: it is on its way, or a transaction holds what was asked for."""


class Memories:
    """Reads what slots have committed, and lends the group's name to a transaction. It never joins the group."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._consumer = Consumer(
            {
                **QUIET,
                **batch.connection,
                "group.id": batch.query,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "retry.backoff.ms": 10,  # for an offset that a transaction holds for a few milliseconds
                "logger": _log,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def group(self) -> Any:
        """What a transaction sends with the offsets that it commits."""
        return self._consumer.consumer_group_metadata()

    def read(self, slots: Iterable[int], seconds: float) -> dict[int, Memory | None]:
        """Read memories, again while a transaction holds one of them.

        Raises
        ------
        WriteFailed
            They cannot be read: rights, or nobody answers (`Unanswered`).
        MemoryLost
            Something else has committed in this group.
        """
        found = self._committed([TopicPartition(self._batch.memory_topic, slot) for slot in slots], seconds)
        for each in found:
            if each.error is not None:
                raise WriteFailed(
                    f"what query {self._batch.query!r} has committed for slot {each.partition} cannot be read: "
                    f"{each.error.str()}"
                )
        return {each.partition: Memory.read(each.offset, each.metadata) for each in found}

    def read_ended(self, slots: Iterable[int]) -> dict[int, Memory | None]:
        """Read memories, once the ids of these slots are taken, so that nobody else can change them.

        Brokers before 2.5 show an offset a moment after its transaction has ended, so that there it is read until two
        reads agree.
        """
        wanted = list(slots)
        found = self.read(wanted, self._batch.timeout)
        while not self._batch.stable:
            time.sleep(PAUSE)
            again = self.read(wanted, self._batch.timeout)
            if again == found:
                break
            found = again
        return found

    def _committed(self, wanted: list[TopicPartition], seconds: float) -> list[TopicPartition]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._consumer.committed(wanted, timeout=min(max(deadline - time.monotonic(), PAUSE), _ATTEMPT))
            except KafkaException as failure:
                said = f"what query {self._batch.query!r} has committed cannot be read: {words_of(failure)}"
                if failure.args[0].code() not in _PASSING:
                    raise WriteFailed(said) from failure
                if time.monotonic() > deadline:
                    raise Unanswered(said) from failure
                time.sleep(PAUSE)


def partitions_of(connection: Mapping[str, Any], topic: str, timeout: float) -> int:
    """Return how many partitions a topic has. It is asked for as consumers ask, which creates none.

    Raises
    ------
    WriteFailed
        There is no such topic, or nobody answers.
    """
    client = Consumer({**QUIET, **connection, "group.id": "featuregate", "logger": _log})
    try:
        found = client.list_topics(topic, timeout=timeout).topics[topic]
    except KafkaException as failure:
        raise WriteFailed(f"nobody says how many partitions topic {topic!r} has: {words_of(failure)}") from failure
    finally:
        client.close()
    if found.error is not None or not found.partitions:
        raise WriteFailed(f"topic {topic!r} cannot be written: {found.error.str() if found.error else 'no partitions'}")
    return len(found.partitions)


def words_of(failure: KafkaException) -> str:
    """Say what the client says, by name."""
    error: KafkaError = failure.args[0]
    return f"{error.name()}: {error.str()}"
