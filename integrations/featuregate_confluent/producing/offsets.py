"""Sends the offsets of a transaction, always with fresh group metadata. No other module sends offsets.

``Producer.send_offsets_to_transaction`` checks nothing. A consumer that was only assigned to, or that has lost its
membership, has metadata that a broker accepts without a look (generation -1, no member), and an old broker is never
given any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from featuregate_confluent.client.pending import GroupUnreadable, read_cluster_id
from featuregate_confluent.errors import CommitRefused, SwitchFatal
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.protocol import require_same_cluster
from featuregate_librdkafka.error_table import ErrorAction
from featuregate_librdkafka.transaction_calls import CallFailed, TransactionalProducer

if TYPE_CHECKING:
    from featuregate import Decision, Gate
    from featuregate_confluent.latch.marks import Mark

SEND_SECONDS: Final = 30.0
CLUSTER_SECONDS: Final = 5.0
_HEADER: Final = b"CGMDv2:"
_GENERATION_BYTES: Final = 4


class GroupMetadata(NamedTuple):
    """The membership of a consumer, from the group metadata."""

    generation: int
    """The generation of a classic group; in a KIP-848 group the epoch of the member. -1 outside of a group."""
    member_id: str


def read_group_metadata(group_metadata: bytes) -> GroupMetadata:
    """Read what ``Consumer.consumer_group_metadata()`` gave.

    It is librdkafka's own serialization (``rd_kafka_consumer_group_metadata_write``), which is not an API: what does
    not look like it is refused rather than guessed. Raises CommitRefused (it is another format).
    """
    body = bytes(group_metadata)
    generation_at = len(_HEADER)
    texts = body[generation_at + _GENERATION_BYTES :].split(b"\0")
    if not body.startswith(_HEADER) or len(texts) < 3:  # noqa: PLR2004 - group, member, and what follows
        raise CommitRefused(
            ErrorAction.FATAL,
            "this confluent-kafka describes its group membership in a way that is not understood, so it could not be "
            "checked; use a release that this version of featuregate lists",
        )
    generation = int.from_bytes(body[generation_at : generation_at + _GENERATION_BYTES], "little", signed=True)
    return GroupMetadata(generation, texts[1].decode("utf-8", "replace"))


def uncontradicted(decision: Decision) -> Decision:
    """Return a gate's decision; where a broker shows now that it is too old, without what holds the gate open (R4)."""
    return replace(decision, held=None) if decision.verdict == "closed" else decision


def safe_send_offsets(
    producer: Producer,
    consumer: Consumer,
    offsets: Iterable[TopicPartition],
    *,
    gate: Gate,
    mark: Mark | None = None,
    timeout: float = SEND_SECONDS,
) -> int:
    """Send the offsets of a transaction in the v2 model, where everything proves that zombies are stopped.

    Parameters
    ----------
    producer
        With an open transaction.
    consumer
        Subscribed to its topics, in the group whose offsets these are.
    offsets
        The next offset to consume of each partition, which must still be assigned to the consumer.
    gate
        On ``featuregate.requirements.presets.kip447``, of the cluster that the consumer is connected to.
    mark
        What the offsets' metadata says; by default, what each of them brings.
    timeout
        Seconds, over all attempts.

    Returns
    -------
    The generation in which they were sent.

    Raises
    ------
    CommitRefused
        They were not sent, or not accepted. ``error.action`` says what to do: abort the transaction and seek back;
        drop the producer, without an abort, and join the group again; or nothing.

    Notes
    -----
    KIP-447; TxnOffsetCommitRequest.json, version 3. Needs READ on the group and WRITE on the transactional id.
    """
    decision = uncontradicted(gate.decision)
    if not decision.open:
        raise CommitRefused(
            ErrorAction.ABORT, f"not every broker is known to check the group's metadata: {decision.summary}"
        )
    offsets = list(offsets)
    _check(read_group_metadata(consumer.consumer_group_metadata()), None)
    _require_own_cluster(decision, producer, offsets)
    if mark is not None:
        text = marks.write(mark)
        offsets = [TopicPartition(offset.topic, offset.partition, offset.offset, text) for offset in offsets]
    try:
        return send_offsets(TransactionalProducer(producer), consumer, offsets, timeout=timeout)
    except CallFailed as failed:
        action = ErrorAction.REJOIN if failed.is_unanswered else failed.action
        raise CommitRefused(action, failed.why) from failed.__cause__


def send_offsets(
    producer: TransactionalProducer,
    consumer: Consumer,
    offsets: list[TopicPartition],
    *,
    timeout: float = SEND_SECONDS,
    generation: int | None = None,
) -> int:
    """Send offsets with fresh metadata; only in ``generation``, if one is given.

    A producer with an id for each partition needs no more than this: its id is what stops its zombies. Raises
    CommitRefused (they were not sent: the consumer is not a member, or the group has moved on), CallFailed (they were
    not accepted).
    """
    who = GroupMetadata(-1, "")

    def fresh_metadata() -> bytes:
        nonlocal who
        fresh: bytes = consumer.consumer_group_metadata()
        who = read_group_metadata(fresh)
        _check(who, generation)
        return fresh

    try:
        producer.send_offsets(offsets, fresh_metadata, timeout)
    except CallFailed as failed:
        failed.why = f"{failed.why}; sent as member {who.member_id} of generation {who.generation}"
        raise
    return who.generation


def _require_own_cluster(decision: Decision, producer: Producer, offsets: list[TopicPartition]) -> None:
    """Ask the producer, whose brokers take the offsets: an app may send them in a callback of the consumer."""
    try:
        cluster_id = read_cluster_id(producer, [offset.topic for offset in offsets], CLUSTER_SECONDS)
        require_same_cluster(decision, cluster_id)
    except GroupUnreadable as unread:
        raise CommitRefused(ErrorAction.ABORT, str(unread)) from unread
    except SwitchFatal as other:
        raise CommitRefused(ErrorAction.FATAL, str(other)) from other


def _check(who: GroupMetadata, generation: int | None) -> None:
    if who.generation < 0 or not who.member_id:
        raise CommitRefused(
            ErrorAction.ABORT,
            f"this consumer is not a member of its group (generation {who.generation}, member {who.member_id!r}): "
            "brokers would accept its offsets unchecked. Use subscribe() rather than assign(), and poll it",
        )
    if generation is not None and who.generation != generation:
        raise CommitRefused(
            ErrorAction.ABORT, f"the group moved on from generation {generation} to {who.generation} meanwhile"
        )
