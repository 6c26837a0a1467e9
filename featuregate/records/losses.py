"""What the coordinator of a release does not read of a log (KIP-915). Pure.

A log is an iterable of records, each the bytes of a key and of a value, None for a tombstone, as a consumer reads them
from a partition of an internal topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from featuregate.errors import RemoteWireError
from featuregate.records.releases import CoordinatorRelease, Loss, coordinator_release
from featuregate.records.schemas import Value, tagged_fields

if TYPE_CHECKING:
    from featuregate.records.coordinator_topic import CoordinatorRecord, CoordinatorTopic

__all__ = ["RecordLoss", "find_losses"]


class RecordLoss(NamedTuple):
    """A record of which a coordinator loses a part or all."""

    position: int
    """The position of the record in the log, from 0."""
    record: CoordinatorRecord
    """The whole record."""
    loss: Loss
    """What the coordinator does with the record, and why."""


def find_losses(
    log: Iterable[tuple[bytes, bytes | None]],
    topic: CoordinatorTopic,
    release: str,
    *,
    consumer_protocol: bool | None = None,
) -> Iterator[RecordLoss]:
    """Yield the records of a log that a coordinator does not read whole, including those after one that stops it.

    ``release`` is such as ``3.4.1``; patch releases differ here, so ``3.4`` is less precise. ``consumer_protocol`` says
    which group coordinator runs, where a release has two.

    Raises
    ------
    LookupError
        The release has no coordinator for this topic.
    RemoteWireError
        A record does not parse; a note says which.
    """
    reader = coordinator_release(release, consumer_protocol=consumer_protocol)
    if topic.topic not in reader.reads:
        raise LookupError(f"Kafka {release} has no coordinator that keeps {topic.topic}")
    return _losses(log, topic, reader)


def _losses(
    log: Iterable[tuple[bytes, bytes | None]], topic: CoordinatorTopic, reader: CoordinatorRelease
) -> Iterator[RecordLoss]:
    for position, (key, value) in enumerate(log):
        try:
            record = topic.decode(key, value)
        except RemoteWireError as error:
            error.add_note(f"in record {position}, counted from 0")
            raise
        tagged = tagged_fields(record.value) if isinstance(record.value, Value) else ()
        if loss := reader.loss(topic.topic, record.record_type, record.version, tagged):
            yield RecordLoss(position, record, loss)
