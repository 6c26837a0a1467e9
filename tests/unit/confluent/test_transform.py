"""How the transform is called, and what happens to messages that it cannot transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Message

from featuregate_confluent import DeadLetter, Record, TransformFailed
from featuregate_confluent.events import DeadLettered
from featuregate_confluent.transform import LONGEST_ERROR, TransformCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from featuregate_confluent.transform import RecordLike

MESSAGES = [Message(topic="orders", partition=1, offset=7 + at, value=b"%d" % at, headers=[]) for at in range(3)]


def bill(messages: Sequence[Message]) -> list[RecordLike]:
    """Raise at the second message."""
    if any(message.value() == b"1" for message in messages):
        raise ValueError("poison " + "\udcff" * 2 * LONGEST_ERROR)
    return [("bills", message.value()) for message in messages]


def test_without_dead_letters_an_error_names_the_batch() -> None:
    """The batch gives no record."""
    calls = TransformCalls(bill, None, lambda _event: None)
    assert calls.records(MESSAGES[:1]) == [("bills", b"0")]
    with pytest.raises(TransformFailed, match=r"ValueError: .* 3 messages from orders\[1\]@7 to orders\[1\]@9"):
        calls.records(MESSAGES)


def test_a_dead_letter_says_where_its_message_was_and_why_it_failed() -> None:
    """The other messages of the batch are transformed one by one. A long error is cut to what a header holds."""
    events: list[object] = []
    first, dead, last = TransformCalls(bill, DeadLetter("dead"), events.append).records(MESSAGES)
    assert (first, last) == (("bills", b"0"), ("bills", b"2"))
    assert isinstance(dead, Record)
    assert (dead.topic, dead.value) == ("dead", b"1")
    headers = dict(dead.headers or [])
    why = headers.pop("featuregate.error")
    assert headers == {"featuregate.topic": "orders", "featuregate.partition": "1", "featuregate.offset": "8"}
    assert isinstance(why, str)
    assert why.startswith("ValueError: poison ??")
    assert len(why) == LONGEST_ERROR
    assert events == [DeadLettered(topic="orders", partition=1, offset=8, error=why)]


def test_a_transform_that_gives_no_tuples_fails() -> None:
    """A string is no record, though it could be unpacked."""
    with pytest.raises(TransformFailed, match="gives records, not 'bills'"):
        TransformCalls(lambda _messages: ["bills"], None, lambda _event: None).records(MESSAGES)  # type: ignore[list-item]
