"""The action for each error."""

from dataclasses import dataclass
from itertools import product

import pytest
from confluent_kafka import KafkaError, libversion

from featuregate_librdkafka.error_actions import BY_FLAG, BY_NAME, ErrorAction, action_for, explain

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
    """Return every code that this librdkafka has a name for."""
    return [code for code in range(LOWEST_CODE, HIGHEST_CODE) if not KafkaError(code).name().startswith("ERR_")]


@pytest.mark.skipif(libversion()[1] < 0x02100000, reason="an older client names fewer errors")
def test_every_name_of_the_table_is_one_that_the_client_gives() -> None:
    """A misspelled name would never match."""
    given = {KafkaError(code).name() for code in known_codes()}
    assert sorted(set(BY_NAME) - given) == []


def test_every_row_says_why() -> None:
    """The reasons are documentation, one line each."""
    for row in (*BY_NAME.values(), *BY_FLAG.values()):
        assert row.reason
        assert "\n" not in row.reason


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
def test_every_error_of_the_client_has_a_row(code: int) -> None:
    """A release of librdkafka that knows more codes is to be looked through."""
    assert KafkaError(code).name() in BY_NAME


@pytest.mark.parametrize("flags", FLAGS)
def test_an_error_without_a_row_ends_after_a_few(flags: tuple[bool, bool, bool]) -> None:
    """A member counts errors of which nothing is known, where it does not stop or ask again, within a bound."""
    fatal, retriable, must_abort = flags
    row = explain(Failure(named="ERR_999?", is_fatal=fatal, is_retriable=retriable, must_abort=must_abort))
    assert row.unexplained or row.action in {ErrorAction.FATAL, ErrorAction.RETRY}


@pytest.mark.parametrize(
    "name", ["INVALID_TIMESTAMP", "MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "TOPIC_EXCEPTION", "RECORD_LIST_TOO_LARGE"]
)
def test_an_error_of_a_record_says_so(name: str) -> None:
    """The transaction would succeed without the record, and no attempt succeeds with it."""
    row = explain(Failure(named=name, must_abort=True))
    assert (row.action, row.record) == (ErrorAction.FATAL, True)


def test_a_refused_timestamp_names_the_limit_of_the_topic() -> None:
    """The reader is to look at the timestamp, at the clock and at the topic."""
    reason = explain(Failure(named="INVALID_TIMESTAMP", must_abort=True)).reason
    assert "message.timestamp.after.max.ms" in reason
    assert "clock of this host" in reason


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "_FENCED", "_TIMED_OUT", "ERR_999?"])
def test_an_error_of_anything_else_blames_no_record(name: str) -> None:
    """No message is dead-lettered for a missing right."""
    assert not explain(Failure(named=name, must_abort=True)).record


@pytest.mark.parametrize("code", known_codes())
def test_every_error_of_the_client_has_an_action(code: int) -> None:
    """No name and no flags make the error handling itself raise."""
    for fatal, retriable, must_abort in FLAGS:
        error = KafkaError(code, "x", fatal=fatal, retriable=retriable, txn_requires_abort=must_abort)
        assert explain(error).action in ErrorAction


def test_an_unknown_error_is_never_retried_unless_the_client_says_so() -> None:
    """A retried commit could be a second one; an abort commits nothing."""
    assert action_for(Failure(named="ERR_999?")) is ErrorAction.ABORT
    assert action_for(Failure(named="ERR_999?", is_retriable=True)) is ErrorAction.RETRY
    assert action_for(Failure(named="ERR_999?", must_abort=True)) is ErrorAction.ABORT
    assert action_for(Failure(named="ERR_999?", is_retriable=True, must_abort=True)) is ErrorAction.ABORT


def test_an_unknown_fatal_error_stops() -> None:
    """A new producer may fail as well, and a stop is easier to notice than a loop of rejoins."""
    assert action_for(Failure(named="ERR_999?", is_fatal=True)) is ErrorAction.FATAL


def test_a_known_error_that_is_fatal_here_takes_a_new_producer() -> None:
    """INVALID_PRODUCER_ID_MAPPING is cured by an abort after EndTxn, and fatal after TxnOffsetCommit."""
    assert action_for(Failure(named="INVALID_PRODUCER_ID_MAPPING", must_abort=True)) is ErrorAction.ABORT
    row = explain(Failure(named="INVALID_PRODUCER_ID_MAPPING", is_fatal=True))
    assert row.action is ErrorAction.REJOIN
    assert row.reason.endswith("but the producer cannot be used any more")


def test_a_timeout_that_failed_the_transaction_is_not_retried() -> None:
    """send_offsets_to_transaction gives _TIMED_OUT with an abort flag once the time for retries is over."""
    assert action_for(Failure(named="_TIMED_OUT", is_retriable=True)) is ErrorAction.RETRY
    assert action_for(Failure(named="_TIMED_OUT", must_abort=True)) is ErrorAction.ABORT


@pytest.mark.parametrize("name", ["_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"])
def test_a_fenced_producer_rejoins(name: str) -> None:
    """R10: with or without the flag, its id now belongs to another producer."""
    assert action_for(Failure(named=name, is_fatal=True)) is ErrorAction.REJOIN
    assert action_for(Failure(named=name, must_abort=True)) is ErrorAction.REJOIN


def test_a_member_that_was_removed_rejoins_although_an_abort_would_satisfy_the_producer() -> None:
    """librdkafka flags UNKNOWN_MEMBER_ID as abortable; but another member owns the partitions by now."""
    assert action_for(Failure(named="UNKNOWN_MEMBER_ID", must_abort=True)) is ErrorAction.REJOIN


def test_a_member_that_only_missed_a_rebalance_stays() -> None:
    """Its metadata was too old: after an abort, the next poll brings fresh metadata and the next attempt succeeds."""
    assert action_for(Failure(named="ILLEGAL_GENERATION", must_abort=True)) is ErrorAction.ABORT
    assert action_for(Failure(named="STALE_MEMBER_EPOCH", must_abort=True)) is ErrorAction.ABORT


@pytest.mark.parametrize(
    "name",
    [
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "OFFSET_METADATA_TOO_LARGE",
        "MSG_SIZE_TOO_LARGE",
        "UNSUPPORTED_VERSION",
        "FENCED_INSTANCE_ID",
    ],
)
def test_what_would_fail_again_in_the_same_way_is_not_aborted_for_ever(name: str) -> None:
    """librdkafka flags these as abortable; an app that only aborts would fail at the same input for ever."""
    assert action_for(Failure(named=name, must_abort=True)) is ErrorAction.FATAL
