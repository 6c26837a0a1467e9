"""Transactional ids: record type 0 of ``__transaction_state``.

Source: ``TransactionLogKey.json`` and ``TransactionLogValue.json`` of Apache Kafka 4.4.0 (``transaction-coordinator``);
3.9.2 has no tagged fields yet. The states are those of ``TransactionState.java``.
"""

from enum import IntEnum
from typing import Annotated, ClassVar, Final

from featuregate.records.key_value import Key, Value
from featuregate.wire.schema import Flexible, Int8, Int16, Int32, Int64, Tag, Versions, structure


class TransactionState(IntEnum):
    """Values of ``transaction_status``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@structure
class TransactionLogKey(Key):
    """Key of a transactional id."""

    RECORD_TYPE: ClassVar[int] = 0

    transactional_id: str


@structure
class PartitionsSchema(Flexible):
    """Partitions of one topic."""

    topic: str
    partition_ids: tuple[Int32, ...]


@structure
class TransactionLogValue(Value):
    """The producer that holds a transactional id, and its transaction.

    Brokers write version 0, and version 1 from 4.0 on while the cluster has ``transaction.version`` 1 or higher.
    """

    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    producer_id: Int64
    previous_producer_id: Annotated[Int64, Versions(1, ignorable=False), Tag(0)] = -1
    """From 4.0 on (KIP-890): the producer id before the last one; -1 where there was none."""
    next_producer_id: Annotated[Int64, Versions(1, ignorable=False), Tag(1)] = -1
    """From 4.0 on (KIP-890): the next producer id, where the epochs of this one are exhausted."""
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, Versions(1, ignorable=False), Tag(3)] = -1
    """From 4.1 on (KIP-939)."""
    transaction_timeout_ms: Int32
    transaction_status: Int8
    """A `TransactionState`; an unknown number is kept."""
    transaction_partitions: tuple[PartitionsSchema, ...] | None
    """None while there is no transaction."""
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[Int16, Versions(1, ignorable=False), Tag(2)] = 0
    """From 4.0 on (KIP-890): the transaction protocol version of the client."""


RECORDS: Final = ((TransactionLogKey, TransactionLogValue),)
"""The classes of key and value of each record type."""
