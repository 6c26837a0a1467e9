"""What to do about each error, by its name: retry, abort and rewind, rejoin, or stop.

The name decides, and librdkafka's flags set the least that it takes: a *fatal* error ends the producer, so that
retrying and aborting are no answer to it, and an error that *requires an abort* is not retried. Names come first
because the flags speak of the producer alone: a member that was removed from its group is to librdkafka one more
error that an abort handles (``rdkafka_txnmgr.c``: ``rd_kafka_txn_handle_TxnOffsetCommit``), and that a record is too
large one more again, for ever.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorAction(Enum):
    """What to do after an error in a transaction, the mildest first."""

    RETRY = "retry"
    """The same call again: nothing was done, or it can be done twice."""
    ABORT = "abort"
    """Abort the transaction, rewind the consumer to where it began, and go on with the same producer."""
    REJOIN = "rejoin"
    """This member or its producer was replaced: drop the producer, leave the group and join again."""
    FATAL = "fatal"
    """Going on would not help: rights, settings, software."""


class ClientError(Protocol):
    """The part of ``confluent_kafka.KafkaError`` that decides."""

    def name(self) -> str:
        """Kafka's name of it; librdkafka's own begin with an underscore."""
        ...

    def str(self) -> str:
        """Words of librdkafka."""
        ...

    def fatal(self) -> bool:
        """Whether the client cannot be used any more."""
        ...

    def txn_requires_abort(self) -> bool:
        """Whether the transaction can only be aborted."""
        ...

    def retriable(self) -> bool:
        """Whether the same call may be made again."""
        ...


class Row(NamedTuple):
    """The action for an error, and why."""

    action: ErrorAction
    reason: str


_WAIT: Final = "librdkafka goes on in the background, and the same call resumes it"
_COORDINATOR: Final = "the coordinator is moving, loading or away: it is there again soon"
_REPLACED: Final = (
    "another producer has taken the transactional id, or the transaction took longer than transaction.timeout.ms: "
    "this producer can do nothing more, and what it had consumed may be another's by now"
)
_LOST: Final = "the producer and its coordinator disagree on where they are: a new producer settles what is open"
_RIGHTS: Final = "a right is missing: no attempt succeeds before an administrator grants it"
_LOGIN: Final = "the broker refused the credentials"
_RECORD: Final = "the broker refuses what the app writes, and would refuse it each time it is written"
_SETTINGS: Final = "a setting of this client is wrong for this broker"
_SOFTWARE: Final = "broker and client have no way in common to do this"
_UNSENT: Final = "a message was not delivered, so that the transaction would be incomplete"

_NO_NEW_EPOCH: Final = "KIP-360"
"""What librdkafka says where it wants to renew a producer's epoch on a broker before 2.5: "InitProducerId
(KIP-360) not supported by broker". Its name is that of everything that broker and client cannot do together."""
_NEW_PRODUCER: Final = Row(
    ErrorAction.REJOIN,
    "brokers before 2.5 cannot renew the epoch of a producer whose message timed out: a new one settles what is open",
)

BY_NAME: Final[Mapping[str, Row]] = MappingProxyType(
    {
        # the network, and coordinators that move
        "_TIMED_OUT": Row(ErrorAction.RETRY, _WAIT),
        "_TIMED_OUT_QUEUE": Row(ErrorAction.RETRY, _WAIT),
        "_TRANSPORT": Row(ErrorAction.RETRY, "a connection broke, and is made again"),
        "_ALL_BROKERS_DOWN": Row(ErrorAction.RETRY, "no broker can be reached now; librdkafka keeps trying"),
        "_WAIT_COORD": Row(ErrorAction.RETRY, _COORDINATOR),
        "REQUEST_TIMED_OUT": Row(ErrorAction.RETRY, "the broker was too slow, and has said so"),
        "COORDINATOR_LOAD_IN_PROGRESS": Row(ErrorAction.RETRY, _COORDINATOR),
        "COORDINATOR_NOT_AVAILABLE": Row(ErrorAction.RETRY, _COORDINATOR),
        "NOT_COORDINATOR": Row(ErrorAction.RETRY, _COORDINATOR),
        "CONCURRENT_TRANSACTIONS": Row(
            ErrorAction.RETRY, "the transaction before it, maybe a dead process's, is still being completed"
        ),
        "UNSTABLE_OFFSET_COMMIT": Row(
            ErrorAction.RETRY, "a pending transaction holds the offset: it commits, or times out"
        ),
        # the transaction cannot be completed; its producer can go on
        "ILLEGAL_GENERATION": Row(
            ErrorAction.ABORT,
            "the group has rebalanced since its metadata was taken: the next poll brings the new assignment",
        ),
        "STALE_MEMBER_EPOCH": Row(
            ErrorAction.ABORT, "the group has moved on since its metadata was taken: the next poll brings its new epoch"
        ),
        "REBALANCE_IN_PROGRESS": Row(
            ErrorAction.ABORT, "the group is being rebalanced: the next poll takes part in it"
        ),
        "TRANSACTION_ABORTABLE": Row(
            ErrorAction.ABORT, "the broker asks for it, and leaves the producer as it is (KIP-890)"
        ),
        "UNKNOWN_PRODUCER_ID": Row(
            ErrorAction.ABORT, "the broker has forgotten the producer; the abort renews it (KIP-360)"
        ),
        "INVALID_PRODUCER_ID_MAPPING": Row(
            ErrorAction.ABORT, "the coordinator has forgotten the producer; the abort renews it (KIP-360)"
        ),
        "OUT_OF_ORDER_SEQUENCE_NUMBER": Row(ErrorAction.ABORT, f"{_UNSENT}; the abort begins a new sequence (KIP-360)"),
        "UNKNOWN_TOPIC_OR_PART": Row(
            ErrorAction.ABORT, "the topic is not there; a new one takes a moment to be everywhere"
        ),
        "_UNKNOWN_TOPIC": Row(ErrorAction.ABORT, "the topic is not there; a new one takes a moment to be everywhere"),
        "_UNKNOWN_PARTITION": Row(
            ErrorAction.ABORT, "the partition is not there; a new one takes a moment to be everywhere"
        ),
        "_INCONSISTENT": Row(ErrorAction.ABORT, _UNSENT),
        "_MSG_TIMED_OUT": Row(ErrorAction.ABORT, _UNSENT),
        "_PURGE_QUEUE": Row(ErrorAction.ABORT, "the message was dropped because its transaction had failed before"),
        "_PURGE_INFLIGHT": Row(ErrorAction.ABORT, "the message was dropped because its transaction had failed before"),
        "_STATE": Row(
            ErrorAction.ABORT, "the transaction is not where this call is due: it may have failed in the background"
        ),
        # another member has this place now
        "_FENCED": Row(ErrorAction.REJOIN, _REPLACED),
        "PRODUCER_FENCED": Row(ErrorAction.REJOIN, _REPLACED),
        "INVALID_PRODUCER_EPOCH": Row(ErrorAction.REJOIN, _REPLACED),
        "UNKNOWN_MEMBER_ID": Row(
            ErrorAction.REJOIN,
            "the group has removed this member: its partitions, and their producers' ids, are others' now",
        ),
        "FENCED_MEMBER_EPOCH": Row(
            ErrorAction.REJOIN, "the group has removed this member and given its partitions away (KIP-848)"
        ),
        "_MAX_POLL_EXCEEDED": Row(
            ErrorAction.REJOIN, "no poll within max.poll.interval.ms: this member has left the group, and owns nothing"
        ),
        "INVALID_TXN_STATE": Row(ErrorAction.REJOIN, _LOST),
        "_CONFLICT": Row(
            ErrorAction.REJOIN,
            "a call that was given up before still occupies the producer, and only that call could resume it",
        ),
        "_FATAL": Row(
            ErrorAction.REJOIN, "the producer had failed before; a new one says what stands in its way, if anything"
        ),
        # nothing that this process does would help
        "FENCED_INSTANCE_ID": Row(
            ErrorAction.FATAL,
            "another process runs with this group.instance.id: joining again would remove that process from the group",
        ),
        "UNRELEASED_INSTANCE_ID": Row(ErrorAction.FATAL, "another process runs with this group.instance.id"),
        "TOPIC_AUTHORIZATION_FAILED": Row(ErrorAction.FATAL, f"{_RIGHTS} (READ on the input, WRITE on the output)"),
        "GROUP_AUTHORIZATION_FAILED": Row(ErrorAction.FATAL, f"{_RIGHTS} (READ on the group)"),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Row(
            ErrorAction.FATAL,
            f"{_RIGHTS} (WRITE on the transactional id; grant it for the prefix that is the app's id)",
        ),
        "CLUSTER_AUTHORIZATION_FAILED": Row(ErrorAction.FATAL, f"{_RIGHTS} (IDEMPOTENT_WRITE on a cluster before 2.8)"),
        "_AUTHENTICATION": Row(ErrorAction.FATAL, _LOGIN),
        "SASL_AUTHENTICATION_FAILED": Row(ErrorAction.FATAL, _LOGIN),
        "OFFSET_METADATA_TOO_LARGE": Row(
            ErrorAction.FATAL,
            "the broker's offset.metadata.max.bytes is below what the mark and the app's own text take",
        ),
        "MSG_SIZE_TOO_LARGE": Row(ErrorAction.FATAL, f"{_RECORD}: it is larger than message.max.bytes allows"),
        "RECORD_LIST_TOO_LARGE": Row(ErrorAction.FATAL, f"{_RECORD}: the batch is larger than the broker allows"),
        "INVALID_RECORD": Row(ErrorAction.FATAL, f"{_RECORD}: a compacted topic wants a key, for example"),
        "UNSUPPORTED_COMPRESSION_TYPE": Row(ErrorAction.FATAL, f"{_SETTINGS}: compression.type"),
        "INVALID_TRANSACTION_TIMEOUT": Row(
            ErrorAction.FATAL, f"{_SETTINGS}: transaction.timeout.ms is above its transaction.max.timeout.ms"
        ),
        "UNSUPPORTED_VERSION": Row(ErrorAction.FATAL, _SOFTWARE),
        "UNSUPPORTED_FOR_MESSAGE_FORMAT": Row(
            ErrorAction.FATAL, f"{_SOFTWARE}: the topic keeps its records in an old format"
        ),
        "_UNSUPPORTED_FEATURE": Row(ErrorAction.FATAL, _SOFTWARE),
        "_AUTO_OFFSET_RESET": Row(
            ErrorAction.FATAL,
            "the group has committed no offset in a partition, or one that is not there any more, and "
            "auto.offset.reset=error asks to stop then: set the group's offset, or earliest",
        ),
        "_NOT_CONFIGURED": Row(ErrorAction.FATAL, "the producer has no transactional.id"),
        "_INVALID_ARG": Row(ErrorAction.FATAL, "the call itself is wrong, and would be wrong again"),
    }
)
"""Every error that has a row of its own. For other names see :data:`BY_FLAG`."""

BY_FLAG: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "fatal": Row(
            ErrorAction.FATAL,
            "the producer cannot be used any more, and the error is unknown: a stop is noticed, an endless loop is not",
        ),
        "txn_requires_abort": Row(ErrorAction.ABORT, "librdkafka asks for it, and leaves the producer as it is"),
        "retriable": Row(ErrorAction.RETRY, "librdkafka says that the same call may be made again"),
        "": Row(
            ErrorAction.ABORT,
            "nothing is known of it. An abort commits nothing and the input is read again; and where a commit had got "
            "through, the broker refuses the abort with INVALID_TXN_STATE, and a new producer reads what is committed",
        ),
    }
)
"""The row of an error without a row of its own: that of its first flag, or the last row if it has none."""

_SEVERITY: Final = {action: rank for rank, action in enumerate(ErrorAction)}


def action_for(error: ClientError) -> ErrorAction:
    """Return the action for an error. Every error has one, and none could lose or duplicate a message."""
    return explain(error).action


def explain(error: ClientError) -> Row:
    """Return the action for an error, and why.

    A fatal error of a known name asks for a new producer at least, even if the name alone would ask for less:
    INVALID_PRODUCER_ID_MAPPING is abortable in ``EndTxn``, and fatal in ``TxnOffsetCommit``.
    """
    row = _NEW_PRODUCER if _cannot_renew(error) else BY_NAME.get(error.name()) or BY_FLAG[_flag(error)]
    floor = _floor(error)
    if _SEVERITY[row.action] >= _SEVERITY[floor.action]:
        return row
    return Row(floor.action, f"{row.reason}; {floor.reason}")


def may_arrive_later(error: ClientError) -> bool:
    """Return whether brokers may still act on a request of the call: it was not answered, or not for good.

    The name says so, and not the flags: `send_offsets_to_transaction()` gives ``_TIMED_OUT`` with the flag that the
    transaction can only be aborted.
    """
    row = BY_NAME.get(error.name())
    return row is not None and row.action is ErrorAction.RETRY


def _cannot_renew(error: ClientError) -> bool:
    return error.name() == "_UNSUPPORTED_FEATURE" and _NO_NEW_EPOCH in error.str()


def _flag(error: ClientError) -> str:
    if error.fatal():
        return "fatal"
    if error.txn_requires_abort():
        return "txn_requires_abort"
    return "retriable" if error.retriable() else ""


def _floor(error: ClientError) -> Row:
    """Return the least that the flags allow."""
    if error.fatal():
        return Row(ErrorAction.REJOIN, "but the producer cannot be used any more")
    if error.txn_requires_abort():
        return Row(ErrorAction.ABORT, "but the transaction has failed, and can only be aborted")
    return Row(ErrorAction.RETRY, "")
