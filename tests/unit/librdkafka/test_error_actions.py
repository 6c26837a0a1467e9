"""The action for each error."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, libversion

from featuregate_librdkafka.error_table import BY_NAME, ErrorAction, action_for, explain

HIGHEST_CODE = 200
LOWEST_CODE = -200

FLAGS = list(product((False, True), repeat=3))


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error with any name and any flags, including those that librdkafka does not combine."""

    named: str
    text: str = ""
    is_fatal: bool = False
    is_retriable: bool = False
    must_abort: bool = False

    def name(self) -> str:
        return self.named

    def str(self) -> str:
        return self.text

    def fatal(self) -> bool:
        return self.is_fatal

    def retriable(self) -> bool:
        return self.is_retriable

    def txn_requires_abort(self) -> bool:
        return self.must_abort


def known_codes() -> list[int]:
    return [code for code in range(LOWEST_CODE, HIGHEST_CODE) if not KafkaError(code).name().startswith("ERR_")]


@pytest.mark.skipif(libversion()[1] < 0x02100000, reason="an older client names fewer errors")
def test_every_name_of_the_table_is_one_that_the_client_gives() -> None:
    """A misspelled name would never match."""
    given = {KafkaError(code).name() for code in known_codes()}
    assert sorted(set(BY_NAME) - given) == []


@pytest.mark.parametrize("flags", FLAGS)
def test_a_fatal_error_is_never_answered_with_the_same_producer(flags: tuple[bool, bool, bool]) -> None:
    """After a fatal error every call fails, abort_transaction() too: a loop of aborts would never end."""
    fatal, retriable, must_abort = flags
    for name in [*BY_NAME, "SOMETHING_NEW"]:
        found = action_for(Failure(named=name, is_fatal=fatal, is_retriable=retriable, must_abort=must_abort))
        if fatal:
            assert found in {ErrorAction.REJOIN, ErrorAction.FATAL}, name
        elif must_abort:
            assert found is not ErrorAction.RETRY, name


def test_a_producer_whose_epoch_cannot_be_renewed_is_replaced() -> None:
    """librdkafka reports this for brokers before 2.5 when a message has timed out."""
    text = (
        "Failed to request ProducerId bump: InitProducerId (KIP-360) not supported by broker, requires broker "
        "version >= 2.5.0: unable to recover from previous transactional error"
    )
    assert action_for(Failure(named="_UNSUPPORTED_FEATURE", text=text, is_fatal=True)) is ErrorAction.REJOIN
    other = "TxnOffsetCommitRequest (KIP-447) not supported by broker, requires broker version >= 2.5.0"
    assert action_for(Failure(named="_UNSUPPORTED_FEATURE", text=other, is_fatal=True)) is ErrorAction.FATAL


@pytest.mark.parametrize("code", known_codes())
def test_every_error_of_the_client_has_a_row_and_an_action(code: int) -> None:
    """A release of librdkafka that knows more codes is to be looked through. No flags make the handling raise."""
    assert KafkaError(code).name() in BY_NAME
    for fatal, retriable, must_abort in FLAGS:
        error = KafkaError(code, "x", fatal=fatal, retriable=retriable, txn_requires_abort=must_abort)
        assert explain(error).action in ErrorAction


@pytest.mark.parametrize("flags", FLAGS)
def test_an_error_without_a_row_ends_after_a_few(flags: tuple[bool, bool, bool]) -> None:
    """A member counts errors of which nothing is known, where it does not stop or ask again, within a bound."""
    fatal, retriable, must_abort = flags
    row = explain(Failure(named="ERR_999?", is_fatal=fatal, is_retriable=retriable, must_abort=must_abort))
    assert row.unexplained or row.action in {ErrorAction.FATAL, ErrorAction.RETRY}


def test_all_actions_are_as_kept() -> None:
    """By name and flags, with the reason: whether a transaction is asked again, aborted, left behind or given up.

    Of what would fail again in the same way nothing is aborted for ever, though librdkafka flags it as abortable; what
    is fenced, or has lost its place in the group, rejoins; nothing is retried that could be a second commit; and only
    an error of a record blames a record.
    """
    told = []
    for name in [*BY_NAME, "ERR_999?"]:
        rows = {
            flags: explain(Failure(named=name, is_fatal=fatal, is_retriable=retriable, must_abort=must_abort))
            for flags in FLAGS
            for fatal, retriable, must_abort in [flags]
        }
        plain = rows[False, False, False]
        marks = f"{' record' * plain.record}{' unexplained' * plain.unexplained}"
        told.append(f"{name}: {' '.join(row.action.value for row in rows.values())}{marks}: {plain.reason}")
    told.append(explain(Failure(named="INVALID_PRODUCER_ID_MAPPING", is_fatal=True)).reason)
    kept = Path(__file__).parent / "error_actions.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")
