"""What is a record, and what no client or broker would take for one."""

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


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ("bills", "a transform gives records, not 'bills'"),
        (["bills", b"v"], "a transform gives records"),
        ((), "a record has 1 to 6 values, topic first, not 0"),
        (("bills", b"v", None, -1, 0, None, None), "a record has 1 to 6 values, topic first, not 7"),
        ((None, b"v"), "the topic of a record is a str, not a NoneType"),
        ((b"bills", b"v"), "the topic of a record is a str, not a bytes"),
        (("bills", {"a": 1}, None), "the value of a record for 'bills' is bytes, str or None, not a dict"),
        (("bills", 1), "the value of a record for 'bills' is bytes, str or None, not a int"),
        (("bills", bytearray(b"v")), "the value of a record for 'bills' is bytes, str or None, not a bytearray"),
        (("bills", memoryview(bytearray(b"v"))), "the value of a record for 'bills' is bytes"),
        (("bills", b"v", 7), "the key of a record for 'bills' is bytes, str or None, not a int"),
        (("bills", b"v", None, "1"), "the partition of a record for 'bills' is an int, not a str: '1'"),
        (("bills", b"v", None, None), "the partition of a record for 'bills' is an int, not a NoneType"),
        (Record("bills", timestamp=1.5), "the timestamp of a record for 'bills' is an int, not a float"),  # type: ignore[arg-type]
        (Record("bills", headers="a=b"), "the headers of a record for 'bills' are a list or a dict, not a str"),  # type: ignore[arg-type]
        (Record("bills", headers=(("a", b"b"),)), "the headers of a record for 'bills' are a list or a dict"),  # type: ignore[arg-type]
        (Record("bills", headers=[["a", b"b"]]), "a header of a record for 'bills' is a tuple of name and value"),  # type: ignore[list-item]
        (Record("bills", headers=[("a", b"b", b"c")]), "a header of a record for 'bills' is a tuple of name and value"),  # type: ignore[list-item]
        (
            Record("bills", headers=[("a", 1)]),
            "the header 'a' of a record for 'bills' is bytes, str or None, not a int",
        ),  # type: ignore[list-item]
        (Record("bills", headers={"a": bytearray(b"1")}), "the header 'a' of a record for 'bills' is bytes"),  # type: ignore[dict-item]
        (Record("bills", headers=[(1, b"a")]), "the name of a header for 'bills' is a str, not a int: 1"),  # type: ignore[list-item]
    ],
)
def test_a_part_of_another_type_is_named(record: object, named: str) -> None:
    """The client would raise in the middle of the transaction, or send what is no header."""
    with pytest.raises(TypeError) as refused:
        check_record(record)
    assert str(refused.value).startswith(named)


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (("", b"v"), "no topic can have the name ''"),
        (("bad topic!", b"v"), "no topic can have the name 'bad topic!'"),
        (("..", b"v"), "no topic can have the name '..'"),
        (("bills\n", b"v"), r"no topic can have the name 'bills\n'"),
        (("a" * 250, b"v"), "no topic can have the name 'aaa"),
        ((SURROGATE, b"v"), "no topic can have the name"),
        (("bills", SURROGATE), "the value of a record for 'bills' cannot be encoded"),
        (("bills", b"v", SURROGATE), "the key of a record for 'bills' cannot be encoded"),
        (("bills", b"v", None, -2), "the partition of a record for 'bills' is between -1 and 2147483647, not -2"),
        (("bills", b"v", None, 2**31), "the partition of a record for 'bills' is between"),
        (Record("bills", timestamp=-5), "the timestamp of a record for 'bills' is between 0 and"),
        (Record("bills", timestamp=2**63), "the timestamp of a record for 'bills' is between 0 and"),
        (
            Record("bills", headers=[(SURROGATE, b"a")]),
            "the name of a header of a record for 'bills' cannot be encoded",
        ),
        (Record("bills", headers=[("a", SURROGATE)]), "the header 'a' of a record for 'bills' cannot be encoded"),
        (Record("bills", headers=[("a\0", b"a")]), "the name of a header for 'bills' has a null character"),
    ],
)
def test_a_value_that_nobody_takes_is_named(record: object, named: str) -> None:
    """A header name with a surrogate would end the process, and a bad topic would be reported with the commit."""
    with pytest.raises(ValueError, match=r".") as refused:
        check_record(record)
    assert str(refused.value).startswith(named)
