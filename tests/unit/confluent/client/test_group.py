"""The parts of reading a group that need no broker."""

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from featuregate.errors import ClosedError
from featuregate_confluent.client.committed import named, observe, read_all, settled_read, stable_read
from featuregate_confluent.client.group import GroupReader, matcher
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import TakeoverTimedOut, UnknownMark
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.models import Model
from featuregate_librdkafka.client_properties import connection_properties

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "client.id": "orders#fg=bridge"}


def failed(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


class Offsets:
    """A consumer whose ``committed()`` first fails in these ways, and then returns offset 7."""

    def __init__(self, *failures: KafkaException) -> None:
        self.failures = list(failures)
        self.asked = 0

    def committed(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return [TopicPartition(p.topic, p.partition, 7, "fg1;model=v2") for p in partitions]


def test_a_partition_whose_leader_is_silent_stands_where_it_stood() -> None:
    """To forget it at each look without an end would never call it stalled. One that moves or is gone is forgotten."""
    before = observe({}, dict.fromkeys((("in", 0), ("in", 1), ("in", 2)), 5), {("in", at): 20 for at in range(3)}, 10.0)
    later = observe(before, {("in", 0): 5, ("in", 1): 6}, {}, 70.0)
    assert {key: each.stalled_seconds(70.0) for key, each in later.items()} == {("in", 0): 60.0}
    again = observe(later, {("in", 0): 5}, {("in", 0): 30}, 130.0)
    assert again["in", 0].stalled_seconds(130.0) == 120.0


class Late:
    """A consumer whose ``committed()`` returns these offsets, one after the other, and then the last one."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = list(offsets)

    def committed(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        offset = self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]
        return [TopicPartition(p.topic, p.partition, offset) for p in partitions]


class Held:
    """A consumer whose ``committed()`` times out, because a transaction holds the offsets for ever."""

    def committed(self, _partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        time.sleep(timeout)
        raise failed(KafkaError._TIMED_OUT)


@pytest.mark.parametrize(
    "code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_COORDINATOR, KafkaError.STALE_MEMBER_EPOCH]
)
def test_stable_read_asks_again_after_what_passes(code: int) -> None:
    """The read waits for a pending transaction, and for a coordinator that moves."""
    consumer = Offsets(failed(code), failed(code))
    assert stable_read(consumer, [("orders", 0)], 30) == {("orders", 0): (7, Mark(Model.V2))}  # type: ignore[arg-type]
    assert consumer.asked == 3


def test_stable_read_names_what_did_not_settle_and_what_to_do() -> None:
    """The read ends within its timeout, and the error says what usually holds offsets."""
    with pytest.raises(TakeoverTimedOut) as caught:
        stable_read(Held(), [("orders", 1), ("orders", 0)], 0.2)  # type: ignore[arg-type]
    assert "orders[0], orders[1] did not settle within 0.2 s" in str(caught.value)
    assert "transaction.timeout.ms" in str(caught.value)


def test_stable_read_does_not_wait_for_what_will_not_pass() -> None:
    """A missing right is reported at once, with the client's own error for an app that handles it."""
    consumer = Offsets(failed(KafkaError.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(GroupUnreadable, match="GROUP_AUTHORIZATION_FAILED") as caught:
        stable_read(consumer, [("orders", 0)], 30)  # type: ignore[arg-type]
    assert caught.value.error is not None
    assert caught.value.error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert consumer.asked == 1


def test_a_settled_read_is_one_that_the_next_read_confirms() -> None:
    """A coordinator before 2.5 answers with the offset before the last transaction, and has no other sign of it."""
    wanted = [("orders", 0)]
    assert stable_read(Late(5, 6, 7), wanted, 30) == {("orders", 0): (5, Mark(None))}  # type: ignore[arg-type]
    assert settled_read(Late(5, 6, 7), wanted, 30) == {("orders", 0): (7, Mark(None))}  # type: ignore[arg-type]
    with pytest.raises(TakeoverTimedOut, match=r"orders\[0\] did not settle within 0.1 s"):
        settled_read(Late(*range(1_000_000)), wanted, 0.1)  # type: ignore[arg-type]


def test_no_partitions_are_not_asked_for() -> None:
    """librdkafka takes an empty list for all partitions of the assignment, or refuses it."""
    consumer = Offsets()
    assert (stable_read(consumer, [], 30), consumer.asked) == ({}, 0)  # type: ignore[arg-type]
    assert (settled_read(consumer, [], 30), consumer.asked) == ({}, 0)  # type: ignore[arg-type]


def test_an_unstable_read_of_no_partitions_sends_no_request() -> None:
    """On the wire an empty list would mean all partitions. No broker listens at this address, and the read returns."""
    reader = GroupReader(NOWHERE, "orders")
    assert reader.ask_offsets([], timeout=30).result() == {}
    reader.close()


def test_an_offset_that_was_not_answered_is_no_offset_of_none() -> None:
    """A partition that the answer leaves out might hold the latch."""
    with pytest.raises(GroupUnreadable, match=r"in orders\[1\]: no answer"):
        read_all("offsets", [("orders", 0), ("orders", 1)], [TopicPartition("orders", 0, 5)])


def test_a_newer_mark_stops_the_reading() -> None:
    """A mark that newer software wrote is not taken for the app's own text."""
    with pytest.raises(UnknownMark):
        read_all("offsets", [("orders", 0)], [TopicPartition("orders", 0, 5, "fg9;model=v9")])


def test_absent_offsets_and_foreign_text() -> None:
    found = read_all("offsets", (), [TopicPartition("a", 0, -1001), TopicPartition("a", 1, 0, "theirs")])
    assert found == {("a", 0): (None, Mark(None)), ("a", 1): (0, Mark(None, "theirs"))}


@pytest.mark.slow
def test_a_reader_without_brokers_fails_within_its_timeout_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Standard error belongs to the app, so nothing is written to it."""
    reader = GroupReader(NOWHERE, "orders")
    began = time.monotonic()
    asked = reader.ask(timeout=1)
    assert not asked.done
    with pytest.raises(GroupUnreadable, match="who is in group 'orders'"):
        asked.result()
    assert time.monotonic() - began < 10
    with pytest.raises(GroupUnreadable):
        reader.input_partitions(["orders"], timeout=1)
    with pytest.raises(GroupUnreadable):
        reader.input_partitions(["^orders"], timeout=1)
    reader.close()
    assert capfd.readouterr() == ("", "")


def test_a_closed_reader_sends_no_request() -> None:
    reader = GroupReader(NOWHERE, "orders")
    reader.close()
    reader.close()
    with pytest.raises(ClosedError):
        reader.ask()


def test_clients_of_our_own_take_the_connection_and_nothing_else() -> None:
    """They take credentials and the token callback, but not the group, the offsets or the app's other callbacks."""

    def token(_config: str) -> tuple[str, float]:
        return "token", 0.0

    ours = {
        "bootstrap.servers": "b:9092",
        "client.id": "orders#fg=bridge",
        "oauth_cb": token,
        "sasl.mechanisms": "OAUTHBEARER",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "enable.ssl.certificate.verification": True,
        "socket.timeout.ms": 5000,
    }
    apps = {
        "group.id": "orders",
        "group.instance.id": "one",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "transactional.id": "orders-0",
        "on_commit": print,
        "stats_cb": print,
        "error_cb": print,
        "debug": "all",
    }
    assert connection_properties(ours | apps) == ours


def test_many_partitions_are_named_in_few_words() -> None:
    assert named([("b", 1), ("a", 10), ("a", 2)]) == "a[2], a[10], b[1]"
    assert named([("a", n) for n in range(10)]).endswith("a[7] and 2 more")


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("^orders", "orders-2", True),
        ("^orders", "old-orders", False),
        ("^orders$", "orders-2", False),
        ("^(a|b)[0-9]+$", "b12", True),
        ("^[[:digit:]]+$", "letters", True),
        ("^\\p{Alpha}+$", "12", True),
        ("^(?i)orders$", "ORDERS", True),
        ("^(", "anything", True),
    ],
)
def test_patterns_match_as_consumers_do_or_else_everything(pattern: str, topic: str, matches: bool) -> None:  # noqa: FBT001 - a table
    """POSIX classes and patterns that do not compile match all topics: a missed partition might hold the latch."""
    assert bool(matcher(pattern)(topic)) is matches
