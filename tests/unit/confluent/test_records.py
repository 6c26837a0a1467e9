"""What is a record, and what no client or broker would take for one."""

import re
from pathlib import Path
from typing import Any

import pytest

from featuregate_confluent import Record
from featuregate_confluent.records import check_record

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
