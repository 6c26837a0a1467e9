"""Dead letters: what they carry, and what is left out where the whole message is too large."""

import pytest
from confluent_kafka import Message

from featuregate_confluent import Record, SwitchFatal
from featuregate_confluent.dead_letters import LONGEST_ERROR, DeadLetters
from featuregate_confluent.errors import RecordRefused
from featuregate_confluent.events import DeadLettered

MESSAGE = Message(topic="orders", partition=1, offset=8, value=b"value", key=b"key", headers=[("from", b"shop")])
WHERE = [("featuregate.topic", "orders"), ("featuregate.partition", "1"), ("featuregate.offset", "8")]
TOO_LARGE = RecordRefused([MESSAGE], "MSG_SIZE_TOO_LARGE")


def test_a_dead_letter_is_the_message_with_headers_that_say_why_and_from_where() -> None:
    """A long error is cut, and what cannot be encoded is replaced."""
    letter, event = DeadLetters("dead").write(MESSAGE, "ValueError: poison " + "\udcff" * 2 * LONGEST_ERROR)
    assert (letter.topic, letter.value, letter.key, letter.partition) == ("dead", b"value", b"key", -1)
    assert isinstance(letter.headers, list)
    first, (name, error), *where = letter.headers
    assert (first, name, where) == (("from", b"shop"), "featuregate.error", WHERE)
    assert isinstance(error, str)
    assert (error[:21], len(error)) == ("ValueError: poison ??", LONGEST_ERROR)
    assert event == DeadLettered(topic="orders", partition=1, offset=8, error=error)


def test_a_message_of_which_a_record_was_refused_needs_a_dead_letter_until_that_is_committed() -> None:
    """The error is that of the record, and not what the transform says the next time."""
    letters = DeadLetters("dead")
    assert not letters.need([MESSAGE])
    letters.refuse(MESSAGE, TOO_LARGE)
    assert letters.need([MESSAGE])
    assert letters.write(MESSAGE, "")[0].headers == [
        ("from", b"shop"),
        ("featuregate.error", "MSG_SIZE_TOO_LARGE"),
        *WHERE,
    ]
    letters.committed([MESSAGE])
    assert not letters.need([MESSAGE])


def test_a_dead_letter_that_is_too_large_goes_without_its_value_and_keeps_its_error() -> None:
    """Key and headers stay, because they are small."""
    letters = DeadLetters("dead")
    letters.write(MESSAGE, "ValueError: poison")
    letters.refuse(MESSAGE, TOO_LARGE)
    letter, event = letters.write(MESSAGE, "")
    assert letter == Record(
        "dead",
        None,
        b"key",
        headers=[
            ("from", b"shop"),
            ("featuregate.left_out", "value (5 bytes)"),
            ("featuregate.error", "ValueError: poison"),
            *WHERE,
        ],
    )
    assert event.error == "ValueError: poison"


@pytest.mark.parametrize(("key", "headers"), [(b"k" * 20_000, {}), (b"k", [("h", b"h" * 20_000)])])
def test_a_large_key_and_large_headers_are_left_out_as_well(key: bytes, headers: object) -> None:
    """They may be what is too large."""
    large = Message(topic="orders", partition=1, offset=8, key=key, headers=headers)  # type: ignore[arg-type]
    letters = DeadLetters("dead")
    letters.write(large, "ValueError: poison")
    letters.refuse(large, TOO_LARGE)
    letter, _ = letters.write(large, "")
    assert (letter.value, letter.key) == (None, None)
    assert letter.headers == [
        ("featuregate.left_out", "value (0 bytes), key and headers"),
        ("featuregate.error", "ValueError: poison"),
        *WHERE,
    ]


def test_a_topic_that_refuses_even_that_stops() -> None:
    """Another attempt would be refused as well."""
    letters = DeadLetters("dead")
    letters.refuse(MESSAGE, TOO_LARGE)
    letters.refuse(MESSAGE, TOO_LARGE)
    with pytest.raises(SwitchFatal, match=r"'dead' refuses the dead letter of the message orders\[1\]@8, without its"):
        letters.refuse(MESSAGE, TOO_LARGE)


def test_a_dead_letter_of_an_earlier_round_says_nothing_of_the_record_that_is_refused_now() -> None:
    """The transform has succeeded this time: the dead letter of its message may be whole."""
    letters = DeadLetters("dead")
    letters.write(MESSAGE, "ValueError: poison")
    letters.begin()
    letters.refuse(MESSAGE, TOO_LARGE)
    letter, _ = letters.write(MESSAGE, "")
    assert letter.value == b"value"
