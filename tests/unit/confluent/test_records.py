"""What is a record, and what no client or broker would take for one; what dead letters carry."""

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from featuregate_confluent import Record, SwitchFatal
from featuregate_confluent.errors import RecordRefused
from featuregate_confluent.events import DeadLettered
from featuregate_confluent.records import LONGEST_ERROR, DeadLetters, check_record

SURROGATE = "\udcff"


@pytest.mark.parametrize(
    "record",
    [
        ("bills",),
        ("bills", b"value"),
        ("bills", "välue", None),
        ("bills", None, "key", 3),
        ("a" * 249, memoryview(b"value"), b"key", -1, 1_795_719_550_449),
        Record("bills", b"value", headers=[("a", b"1"), ("b", "ü"), ("c", None), ("", b"")]),
        Record("bills", b"value", headers={"a": b"1"}),
        Record("bills", partition=2**31 - 1, timestamp=2**63 - 1, headers={}),
    ],
)
def test_what_the_client_takes_is_a_record(record: tuple[Any, ...]) -> None:
    """A plain tuple may end after any value."""
    check_record(record)


RECORD: Any = Record
REFUSED = (
    "bills",
    ["bills", b"v"],
    (),
    ("bills", b"v", None, -1, 0, None, None),
    (None, b"v"),
    (b"bills", b"v"),
    ("bills", {"a": 1}, None),
    ("bills", 1),
    ("bills", bytearray(b"v")),
    ("bills", memoryview(bytearray(b"v"))),
    ("bills", b"v", 7),
    ("bills", b"v", None, "1"),
    ("bills", b"v", None, None),
    RECORD("bills", timestamp=1.5),
    RECORD("bills", headers="a=b"),
    RECORD("bills", headers=(("a", b"b"),)),
    RECORD("bills", headers=[["a", b"b"]]),
    RECORD("bills", headers=[("a", b"b", b"c")]),
    RECORD("bills", headers=[("a", 1)]),
    RECORD("bills", headers={"a": bytearray(b"1")}),
    RECORD("bills", headers=[(1, b"a")]),
    ("", b"v"),
    ("bad topic!", b"v"),
    ("..", b"v"),
    ("bills\n", b"v"),
    ("a" * 250, b"v"),
    (SURROGATE, b"v"),
    ("bills", SURROGATE),
    ("bills", b"v", SURROGATE),
    ("bills", b"v", None, -2),
    ("bills", b"v", None, 2**31),
    RECORD("bills", timestamp=-5),
    RECORD("bills", timestamp=2**63),
    RECORD("bills", headers=[(SURROGATE, b"a")]),
    RECORD("bills", headers=[("a", SURROGATE)]),
    RECORD("bills", headers=[("a\0", b"a")]),
)
"""The client would raise in the middle of the transaction, report a bad topic with the commit, or end the process."""


def test_all_that_is_no_record_is_named_as_kept() -> None:
    kept, told = Path(__file__).with_name("records.txt"), list[str]()
    for record in REFUSED:
        with pytest.raises((TypeError, ValueError)) as refused:
            check_record(record)
        shown = re.sub(r" at 0x\w+", "", repr(record))
        told.append(f"{shown}\n  {refused.type.__name__}: {refused.value}")
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


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
