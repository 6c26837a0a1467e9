"""What to do about each error, by its name: retry, abort and rewind, rejoin, or stop. Pure.

The name decides, and librdkafka's flags set the least that it takes: a *fatal* error ends the producer, so that
retrying and aborting do not help, and an error that *requires an abort* is not retried. Names come first
because the flags speak of the producer alone: a member that was removed from its group is to librdkafka one more
error that an abort handles (``rdkafka_txnmgr.c``: ``rd_kafka_txn_handle_TxnOffsetCommit``), and that a record is too
large one more again, for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate_librdkafka.error_table import BY_FLAG, BY_NAME, NEW_PRODUCER, NO_NEW_EPOCH, ErrorAction, ErrorRow

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

__all__ = ["BY_FLAG", "BY_NAME", "ErrorAction", "ErrorRow", "action_for", "explain", "may_arrive_later"]


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
