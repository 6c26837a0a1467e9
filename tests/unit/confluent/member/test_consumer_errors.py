"""The errors that a consumer returns in place of a message."""

import pytest
from confluent_kafka import KafkaError

from featuregate_confluent.errors import InstanceTaken, MustRejoin, SwitchFatal
from featuregate_confluent.member.membership import raise_for_consumer_errors
from featuregate_librdkafka.error_table import ErrorAction, action_for

DONE_FOR = KafkaError._FATAL


def fatal(code: int) -> KafkaError:
    """Return the error of a consumer with a fatal error: ``_FATAL``, without the flag."""
    reason = KafkaError(code).str()
    return KafkaError(DONE_FOR, f"Fatal error: {reason}: Fatal consumer error: {reason}")


NOT_FOR_LONG = (KafkaError._PARTITION_EOF, KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_by_its_code_alone_a_member_that_was_replaced_would_join_again() -> None:
    assert action_for(fatal(KafkaError.FENCED_INSTANCE_ID)) is ErrorAction.REJOIN


def test_what_passes_passes() -> None:
    """The end of a partition, a poll that came too late, a topic that is not there yet, a broker that is away."""
    away = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
    raise_for_consumer_errors(KafkaError(code) for code in (*NOT_FOR_LONG, *away))


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        # by the code alone the member would join again, and replace the other process in turn
        (fatal(KafkaError.FENCED_INSTANCE_ID), SwitchFatal, r"another process has this one's group\.instance\.id"),
        # a process that was killed keeps the name until its session times out
        (fatal(KafkaError.UNRELEASED_INSTANCE_ID), InstanceTaken, "still used by another member"),
        # if the error persists, the new consumer reports it
        (fatal(KafkaError.INCONSISTENT_GROUP_PROTOCOL), MustRejoin, "create a new consumer"),
        # auto.offset.reset=error; without an error that partition would be skipped silently
        (
            KafkaError(KafkaError._AUTO_OFFSET_RESET),
            SwitchFatal,
            r"_AUTO_OFFSET_RESET .*set the group's offset, or earliest",
        ),
        # a new consumer would lack the rights as well
        (KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), SwitchFatal, "AUTHORIZATION_FAILED"),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), SwitchFatal, "AUTHORIZATION_FAILED"),
    ],
)
def test_what_does_not_pass_stops_the_member_or_replaces_it(
    error: KafkaError, kind: type[Exception], words: str
) -> None:
    """Also after an error that passes."""
    with pytest.raises(kind, match=words):
        raise_for_consumer_errors([KafkaError(KafkaError._PARTITION_EOF), error])
