"""How the transform is called, and what happens to messages that it cannot transform."""

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from featuregate_confluent import DeadLetter, Record, RecordRefused, SwitchFatal, TransformFailed
from featuregate_confluent.events import DeadLettered
from featuregate_confluent.producing.pipeline import OutputTopics
from featuregate_confluent.records import RecordLike
from featuregate_confluent.transform import TransformCalls

MESSAGES = [Message(topic="orders", partition=1, offset=7 + at, value=b"%d" % at, headers=[]) for at in range(3)]


class Silent:
    """A client whose brokers do not answer what topics there are."""

    def list_topics(self, _topic: str, _timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


CLIENT = Silent()


def bill(messages: Sequence[Message]) -> list[RecordLike]:
    if any(message.value() == b"1" for message in messages):
        raise ValueError("poison")
    return [("bills", message.value()) for message in messages]


def unsendable(messages: Sequence[Message]) -> list[Any]:
    return [("bills", {} if message.value() == b"1" else message.value()) for message in messages]


def calls_of(transform: Any, *, dead: str | None = None) -> TransformCalls:
    return TransformCalls(transform, None if dead is None else DeadLetter(dead), OutputTopics())


@pytest.mark.parametrize(
    ("transform", "error"), [(bill, "ValueError: poison"), (unsendable, "TypeError: the value of")]
)
def test_without_dead_letters_an_error_names_the_batch_and_the_message(transform: Any, error: str) -> None:
    """The batch gives no record."""
    calls = calls_of(transform)
    assert calls.records(MESSAGES[:1], CLIENT) == ([("bills", b"0")], [])
    with pytest.raises(TransformFailed) as failed:
        calls.records(MESSAGES, CLIENT)
    assert str(failed.value).startswith(error)
    assert str(failed.value).endswith(
        ", for 3 messages from orders[1]@7 to orders[1]@9, of which orders[1]@8 fails alone; nothing of them counts"
    )


def test_an_error_that_no_message_causes_alone_names_the_batch() -> None:
    """Nothing is said of a single message, also where the calls cannot go on."""

    def whole(messages: Sequence[Message]) -> list[RecordLike]:
        if len(messages) > 1:
            raise ValueError("too many")
        if messages[0].offset() in ends:
            raise TransformFailed("a coroutine that nobody awaits")
        return []

    ends: list[int | None] = []
    for _ in range(2):
        with pytest.raises(TransformFailed, match=r"to orders\[1\]@9; nothing of them counts"):
            calls_of(whole).records(MESSAGES, CLIENT)
        ends.append(8)


@pytest.mark.parametrize("transform", [bill, unsendable])
def test_the_message_that_fails_is_found_one_by_one_and_gets_a_dead_letter(transform: Any) -> None:
    """The event waits for the commit."""
    records, events = calls_of(transform, dead="dead").records(MESSAGES, CLIENT)
    first, dead, last = records
    assert (first, last) == (("bills", b"0"), ("bills", b"2"))
    assert isinstance(dead, Record)
    assert (dead.topic, dead.value) == ("dead", b"1")
    assert [(event.topic, event.partition, event.offset) for event in events] == [("orders", 1, 8)]
    assert isinstance(events[0], DeadLettered)


def test_a_transform_may_take_messages_off_its_list() -> None:
    """Those that it has taken before it raised would have neither a record nor a dead letter, and be committed."""

    def taking(messages: list[Message]) -> list[RecordLike]:
        return [bill([messages.pop(0)])[0] for _ in range(len(messages))]

    records, (event,) = calls_of(taking, dead="dead").records(given := list(MESSAGES), CLIENT)
    assert [record[0] for record in records] == ["bills", "dead", "bills"]
    assert (event.offset, given) == (8, MESSAGES)
    with pytest.raises(
        TransformFailed, match=r"from orders\[1\]@7 to orders\[1\]@9, of which orders\[1\]@8 fails alone"
    ):
        calls_of(taking).records(given, CLIENT)


def test_a_refused_record_is_looked_for_one_by_one_and_then_a_dead_letter_is_in_its_place() -> None:
    """The transform is not called again for that message."""
    called = []

    def copy(messages: Sequence[Message]) -> list[RecordLike]:
        called.extend(message.offset() for message in messages)
        return [("bills", message.value()) for message in messages]

    calls = calls_of(copy, dead="dead")
    assert calls.refused(RecordRefused(MESSAGES, "too large")) == 3
    assert calls.records(MESSAGES, CLIENT).events == []
    assert calls.refused(RecordRefused(MESSAGES[1:2], "too large")) == 1
    called.clear()
    records, events = calls.records(MESSAGES, CLIENT)
    assert [record[0] for record in records] == ["bills", "dead", "bills"]
    assert (called, [event.error for event in events]) == ([7, 9], ["too large"])
    calls.committed(MESSAGES)
    assert calls.records(MESSAGES, CLIENT).events == []


def test_a_refused_record_ends_without_dead_letters_once_its_message_is_known() -> None:
    """The error is the one that names the message."""
    calls = calls_of(bill)
    assert calls.refused(RecordRefused(MESSAGES, "too large")) == 3
    with pytest.raises(RecordRefused, match=r"a record for the message orders\[1\]@8 is refused, .*: too large"):
        calls.refused(RecordRefused(MESSAGES[1:2], "too large"))


def test_a_topic_for_dead_letters_that_does_not_exist_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, and where no broker answers, there is nothing to say."""
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    calls = calls_of(bill, dead="dead")

    def absent(*_: object) -> None:
        raise ValueError("the topic 'dead' does not exist")

    monkeypatch.setattr(calls._topics, "check", absent)
    with pytest.raises(SwitchFatal, match="dead letters have no place to go: the topic 'dead' does not exist"):
        calls.require_letter_topic(nowhere)
    calls_of(bill).require_letter_topic(nowhere)


def test_a_transform_that_gives_no_tuples_fails() -> None:
    """A string is no record, though it could be unpacked."""
    with pytest.raises(TransformFailed, match="gives records, not 'bills'"):
        calls_of(lambda _messages: ["bills"]).records(MESSAGES, CLIENT)
