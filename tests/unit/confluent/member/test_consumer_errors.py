"""The errors that a consumer returns in place of a message."""

import pytest
from confluent_kafka import KafkaError

from featuregate_confluent.errors import InstanceTaken, MustRejoin, SwitchFatal
from featuregate_confluent.member.membership import raise_for_consumer_errors
from featuregate_librdkafka.error_actions import ErrorAction, action_for

DONE_FOR = KafkaError._FATAL


def fatal(code: int) -> KafkaError:
    """Return the error of a consumer with a fatal error: ``_FATAL``, without the flag."""
    reason = KafkaError(code).str()
    return KafkaError(DONE_FOR, f"Fatal error: {reason}: Fatal consumer error: {reason}")


def test_what_passes_passes() -> None:
    """The end of a partition, a poll that came too late, a topic that is not there yet, a broker that is away."""
    passing = (KafkaError._PARTITION_EOF, KafkaError._MAX_POLL_EXCEEDED, KafkaError.UNKNOWN_TOPIC_OR_PART)
    raise_for_consumer_errors(
        KafkaError(code) for code in (*passing, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
    )


def test_a_static_member_that_was_replaced_stops() -> None:
    """By the code alone the member would join again, and replace the other process in turn."""
    error = fatal(KafkaError.FENCED_INSTANCE_ID)
    assert action_for(error) is ErrorAction.REJOIN
    with pytest.raises(SwitchFatal, match=r"another process has this one's group\.instance\.id"):
        raise_for_consumer_errors([error])


def test_a_name_that_is_taken_may_be_free_soon() -> None:
    """A process that was killed keeps the name until its session times out."""
    with pytest.raises(InstanceTaken, match="still used by another member"):
        raise_for_consumer_errors([fatal(KafkaError.UNRELEASED_INSTANCE_ID)])


def test_a_consumer_that_is_done_for_otherwise_is_made_anew() -> None:
    """If the error persists, the new consumer reports it."""
    with pytest.raises(MustRejoin, match="create a new consumer"):
        raise_for_consumer_errors(
            [KafkaError(KafkaError._PARTITION_EOF), fatal(KafkaError.INCONSISTENT_GROUP_PROTOCOL)]
        )


def test_a_partition_without_a_place_to_begin_stops() -> None:
    """The app has set auto.offset.reset=error; without an error that partition would be skipped silently."""
    with pytest.raises(SwitchFatal, match=r"_AUTO_OFFSET_RESET .*set the group's offset, or earliest"):
        raise_for_consumer_errors([KafkaError(KafkaError._AUTO_OFFSET_RESET)])


def test_missing_rights_stop() -> None:
    """A new consumer would lack them as well."""
    for code in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        with pytest.raises(SwitchFatal, match="AUTHORIZATION_FAILED"):
            raise_for_consumer_errors([KafkaError(code)])
