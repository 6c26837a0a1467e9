"""What to do about each error of librdkafka and of brokers, and why: a row for each name. Pure.

The name decides, and librdkafka's flags set the least that it takes: a *fatal* error ends the producer, so that
retrying and aborting do not help, and an error that *requires an abort* is not retried. Names come first
because the flags speak of the producer alone: a member that was removed from its group is to librdkafka one more
error that an abort handles (``rdkafka_txnmgr.c``: ``rd_kafka_txn_handle_TxnOffsetCommit``), and that a record is too
large one more again, for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


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


class ErrorRow(NamedTuple):
    """The action for an error, and why."""

    action: ErrorAction
    reason: str
    record: bool = False
    """Whether a record that the app gave is refused: without that record the transaction would succeed."""
    unexplained: bool = False
    """Whether nothing is known of the error. A member ends after a few of them in a row."""


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
_AWAY: Final = "the leader of a partition is moving, or replicas are away, and the client did not outwait it"
_CONNECTION: Final = "a broker could not be reached in this way; the client tries again"
_OCCUPIED: Final = "another call occupies the client: only the end of that call, or a new client, helps"
_GROUP: Final = "the group does not know this member any more"
_MACHINE: Final = "this machine lacks files, memory or threads"
_NO_END: Final = "it tells nothing about the transaction, which the abort ends"
_ELSEWHERE: Final = "brokers answer so to requests that no transaction and no member sends: client and broker disagree"
_TIMESTAMP: Final = (
    "the timestamp is further from the broker's clock than message.timestamp.after.max.ms or "
    "message.timestamp.before.max.ms of the topic allows (message.timestamp.difference.max.ms before 3.6). A timestamp "
    "is in milliseconds; a record without one has the clock of this host"
)
_UNSENT: Final = "a message was not delivered, so that the transaction would be incomplete"

NO_NEW_EPOCH: Final = "KIP-360"
"""What librdkafka says where it wants to renew a producer's epoch on a broker before 2.5: "InitProducerId
(KIP-360) not supported by broker". Its name is that of everything that broker and client cannot do together."""
NEW_PRODUCER: Final = ErrorRow(
    ErrorAction.REJOIN,
    "brokers before 2.5 cannot renew the epoch of a producer whose message timed out: a new one settles what is open",
)


# the network, and coordinators that move
_RETRY: Final = {
    "_TIMED_OUT _TIMED_OUT_QUEUE": _WAIT,
    "_TRANSPORT": "a connection broke, and is made again",
    "_ALL_BROKERS_DOWN": "no broker can be reached now; librdkafka keeps trying",
    "_WAIT_COORD COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR": _COORDINATOR,
    "REQUEST_TIMED_OUT": "the broker was too slow, and has said so",
    "CONCURRENT_TRANSACTIONS": "the transaction before it, maybe a dead process's, is still being completed",
    "UNSTABLE_OFFSET_COMMIT": "a pending transaction holds the offset: it commits, or times out",
}
# the transaction cannot be completed; its producer can go on
_ABORT: Final = {
    "ILLEGAL_GENERATION": (
        "the group has rebalanced since its metadata was taken: the next poll brings the new assignment"
    ),
    "STALE_MEMBER_EPOCH": "the group has moved on since its metadata was taken: the next poll brings its new epoch",
    "REBALANCE_IN_PROGRESS": "the group is being rebalanced: the next poll takes part in it",
    "TRANSACTION_ABORTABLE": "the broker asks for it, and leaves the producer as it is (KIP-890)",
    "UNKNOWN_PRODUCER_ID": "the broker has forgotten the producer; the abort renews it (KIP-360)",
    "INVALID_PRODUCER_ID_MAPPING": "the coordinator has forgotten the producer; the abort renews it (KIP-360)",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": f"{_UNSENT}; the abort begins a new sequence (KIP-360)",
    "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC": "the topic is not there; a new one takes a moment to be everywhere",
    "_UNKNOWN_PARTITION": "the partition is not there; a new one takes a moment to be everywhere",
    "_INCONSISTENT _MSG_TIMED_OUT": _UNSENT,
    "_PURGE_QUEUE _PURGE_INFLIGHT": "the message was dropped because its transaction had failed before",
    "_STATE": "the transaction is not where this call is due: it may have failed in the background",
    (
        "LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE "
        "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND KAFKA_STORAGE_ERROR FENCED_LEADER_EPOCH "
        "UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE OFFSET_OUT_OF_RANGE UNKNOWN_TOPIC_ID "
        "INCONSISTENT_TOPIC_ID PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE "
        "STALE_BROKER_EPOCH STALE_CTRL_EPOCH NOT_CONTROLLER REBOOTSTRAP_REQUIRED "
        "THROTTLING_QUOTA_EXCEEDED TRANSACTION_COORDINATOR_FENCED _ISR_INSUFF _LOG_TRUNCATION"
    ): _AWAY,
    (
        "NETWORK_EXCEPTION _FAIL _RESOLVE _SSL _NODE_UPDATE _UNKNOWN_BROKER _DESTROY_BROKER _BAD_MSG "
        "_BAD_COMPRESSION _RETRY _WAIT_CACHE FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH "
        "LISTENER_NOT_FOUND"
    ): _CONNECTION,
    (
        "NO_ERROR _NOOP _INTR _PARTIAL _NOENT _NO_OFFSET _OUTDATED _PARTITION_EOF _QUEUE_FULL "
        "_EXISTING_SUBSCRIPTION _ASSIGN_PARTITIONS _REVOKE_PARTITIONS DUPLICATE_SEQUENCE_NUMBER"
    ): _NO_END,
}
# nothing is known of the error
_ABORT_UNKNOWN: Final = {
    "UNKNOWN": "the broker failed, and its log says how",
    "_APPLICATION": "a callback of the app has failed",
}
# another member has this place now
_REJOIN: Final = {
    "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH": _REPLACED,
    "UNKNOWN_MEMBER_ID": "the group has removed this member: its partitions, and their producers' ids, are others' now",
    "FENCED_MEMBER_EPOCH": "the group has removed this member and given its partitions away (KIP-848)",
    "_MAX_POLL_EXCEEDED": "no poll within max.poll.interval.ms: this member has left the group, and owns nothing",
    "INVALID_TXN_STATE": _LOST,
    "_CONFLICT": "a call that was given up before still occupies the producer, and only that call could resume it",
    "_FATAL": "the producer had failed before; a new one says what stands in its way, if anything",
    "_UNKNOWN_GROUP _ASSIGNMENT_LOST GROUP_ID_NOT_FOUND MEMBER_ID_REQUIRED": _GROUP,
    "_IN_PROGRESS _PREV_IN_PROGRESS _DESTROY _GAPLESS_GUARANTEE": _OCCUPIED,
}
# nothing that this process does would help
_FATAL: Final = {
    "FENCED_INSTANCE_ID": (
        "another process runs with this group.instance.id: joining again would remove that process from the group"
    ),
    "UNRELEASED_INSTANCE_ID": "another process runs with this group.instance.id",
    "TOPIC_AUTHORIZATION_FAILED": f"{_RIGHTS} (READ on the input, WRITE on the output)",
    "GROUP_AUTHORIZATION_FAILED": f"{_RIGHTS} (READ on the group)",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        f"{_RIGHTS} (WRITE on the transactional id; grant it for the prefix that is the app's id)"
    ),
    "CLUSTER_AUTHORIZATION_FAILED": f"{_RIGHTS} (IDEMPOTENT_WRITE on a cluster before 2.8)",
    (
        "_AUTHENTICATION SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE "
        "SECURITY_DISABLED DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND "
        "DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED "
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED UNACCEPTABLE_CREDENTIAL "
        "INVALID_PRINCIPAL_TYPE PRINCIPAL_DESERIALIZATION_FAILURE"
    ): _LOGIN,
    "OFFSET_METADATA_TOO_LARGE": (
        "the broker's offset.metadata.max.bytes is below what the mark and the app's own text take"
    ),
    "UNSUPPORTED_COMPRESSION_TYPE": f"{_SETTINGS}: compression.type",
    "INVALID_TRANSACTION_TIMEOUT": f"{_SETTINGS}: transaction.timeout.ms is above its transaction.max.timeout.ms",
    ("UNSUPPORTED_VERSION _UNSUPPORTED_FEATURE INVALID_REQUEST _NOT_IMPLEMENTED _UNKNOWN_PROTOCOL"): _SOFTWARE,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": f"{_SOFTWARE}: the topic keeps its records in an old format",
    "_AUTO_OFFSET_RESET": (
        "the group has committed no offset in a partition, or one that is not there any more, and "
        "auto.offset.reset=error asks to stop then: set the group's offset, or earliest"
    ),
    "_NOT_CONFIGURED": "the producer has no transactional.id",
    "_INVALID_ARG": "the call itself is wrong, and would be wrong again",
    "INCONSISTENT_GROUP_PROTOCOL": (
        "the members of the group have no assignor in common: give all of them the same "
        "partition.assignment.strategy and group.protocol (cooperative-sticky and range do not mix)"
    ),
    "UNSUPPORTED_ASSIGNOR": f"{_SETTINGS}: group.remote.assignor",
    "INVALID_GROUP_ID": f"{_SETTINGS}: group.id",
    "INVALID_SESSION_TIMEOUT": (
        f"{_SETTINGS}: session.timeout.ms is not between its group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    "INVALID_REQUIRED_ACKS": f"{_SETTINGS}: acks",
    "INVALID_REGULAR_EXPRESSION": f"{_SETTINGS}: the topics' regular expression",
    "GROUP_MAX_SIZE_REACHED": "the group has as many members as its group.max.size allows",
    "INVALID_COMMIT_OFFSET_SIZE": "the broker cannot store an offset commit of this size",
    "_CRIT_SYS_RESOURCE _FS": _MACHINE,
    (
        "_KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION "
        "_READ_ONLY _UNDERFLOW _INVALID_TYPE TOPIC_ALREADY_EXISTS INVALID_PARTITIONS "
        "INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG POLICY_VIOLATION "
        "OPERATION_NOT_ATTEMPTED LOG_DIR_NOT_FOUND REASSIGNMENT_IN_PROGRESS NON_EMPTY_GROUP "
        "TOPIC_DELETION_DISABLED ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS "
        "GROUP_SUBSCRIBED_TO_TOPIC RESOURCE_NOT_FOUND DUPLICATE_RESOURCE INCONSISTENT_VOTER_SET "
        "INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED MISMATCHED_ENDPOINT_TYPE "
        "UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE "
        "INVALID_REGISTRATION INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND "
        "INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER "
        "VOTER_NOT_FOUND STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH "
        "STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED"
    ): _ELSEWHERE,
}
# a record is refused: without it the transaction would succeed
_FATAL_RECORD: Final = {
    "MSG_SIZE_TOO_LARGE": (
        f"{_RECORD}: it is larger than message.max.bytes of the client, or max.message.bytes of the topic, allows"
    ),
    "RECORD_LIST_TOO_LARGE": f"{_RECORD}: the batch is larger than the broker allows",
    "INVALID_RECORD": f"{_RECORD}: a compacted topic wants a key, for example",
    "INVALID_TIMESTAMP": f"{_RECORD}: {_TIMESTAMP}",
    "TOPIC_EXCEPTION": f"{_RECORD}: no topic can have this name",
    "INVALID_MSG INVALID_MSG_SIZE": f"{_RECORD}: it arrives broken",
    "_INVALID_DIFFERENT_RECORD": f"{_RECORD}: another record of the same batch is refused",
}


def _rows(
    action: ErrorAction, reasons: Mapping[str, str], *, record: bool = False, unexplained: bool = False
) -> dict[str, ErrorRow]:
    """Return a row for each name; names that share a reason have blanks between them."""
    return {
        name: ErrorRow(action, why, record, unexplained) for names, why in reasons.items() for name in names.split()
    }


BY_NAME: Final[Mapping[str, ErrorRow]] = MappingProxyType(
    _rows(ErrorAction.RETRY, _RETRY)
    | _rows(ErrorAction.ABORT, _ABORT)
    | _rows(ErrorAction.ABORT, _ABORT_UNKNOWN, unexplained=True)
    | _rows(ErrorAction.REJOIN, _REJOIN)
    | _rows(ErrorAction.FATAL, _FATAL)
    | _rows(ErrorAction.FATAL, _FATAL_RECORD, record=True)
)
"""Every error of librdkafka 2.16 has a row. For names of later releases see :data:`BY_FLAG`."""

BY_FLAG: Final[Mapping[str, ErrorRow]] = MappingProxyType(
    {
        "fatal": ErrorRow(
            ErrorAction.FATAL,
            "the producer cannot be used any more, and the error is unknown: a stop is noticed, an endless loop is not",
        ),
        "txn_requires_abort": ErrorRow(
            ErrorAction.ABORT, "librdkafka asks for it, and leaves the producer as it is", unexplained=True
        ),
        "retriable": ErrorRow(ErrorAction.RETRY, "librdkafka says that the same call may be made again"),
        "": ErrorRow(
            ErrorAction.ABORT,
            "nothing is known of it. An abort commits nothing and the input is read again; and where a commit had got "
            "through, the broker refuses the abort with INVALID_TXN_STATE, and a new producer reads what is committed",
            unexplained=True,
        ),
    }
)
"""The row of an error without a row of its own: that of its first flag, or the last row if it has none."""

_SEVERITY: Final = {action: rank for rank, action in enumerate(ErrorAction)}


def action_for(error: KafkaError) -> ErrorAction:
    """Return the action for an error. Every error has one, and none could lose or duplicate a message."""
    return explain(error).action


def explain(error: KafkaError) -> ErrorRow:
    """Return the action for an error, and why.

    A fatal error of a known name asks for a new producer at least, even if the name alone would ask for less:
    INVALID_PRODUCER_ID_MAPPING is abortable in ``EndTxn``, and fatal in ``TxnOffsetCommit``.
    """
    row = NEW_PRODUCER if _cannot_renew(error) else BY_NAME.get(error.name()) or BY_FLAG[_flag(error)]
    floor = _floor(error)
    if _SEVERITY[row.action] >= _SEVERITY[floor.action]:
        return row
    return row._replace(action=floor.action, reason=f"{row.reason}; {floor.reason}")


def may_arrive_later(error: KafkaError) -> bool:
    """Return whether brokers may still act on a request of the call: it was not answered, or not for good.

    The name says so, and not the flags: `send_offsets_to_transaction()` gives ``_TIMED_OUT`` with the flag that the
    transaction can only be aborted.
    """
    row = BY_NAME.get(error.name())
    return row is not None and row.action is ErrorAction.RETRY


def _cannot_renew(error: KafkaError) -> bool:
    return error.name() == "_UNSUPPORTED_FEATURE" and NO_NEW_EPOCH in error.str()


def _flag(error: KafkaError) -> str:
    if error.fatal():
        return "fatal"
    if error.txn_requires_abort():
        return "txn_requires_abort"
    return "retriable" if error.retriable() else ""


def _floor(error: KafkaError) -> ErrorRow:
    """Return the least that the flags allow."""
    if error.fatal():
        return ErrorRow(ErrorAction.REJOIN, "but the producer cannot be used any more")
    if error.txn_requires_abort():
        return ErrorRow(ErrorAction.ABORT, "but the transaction has failed, and can only be aborted")
    return ErrorRow(ErrorAction.RETRY, "")
