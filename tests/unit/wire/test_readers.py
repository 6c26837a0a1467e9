"""Readers of primitive types: each keeps one contract, and none trusts a length."""

import contextlib
import struct
import tracemalloc
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import RemoteWireError
from featuregate.wire.readers import MOST_ELEMENTS, MOST_TAGS, ClassicReader, FlexibleReader, Reader
from featuregate.wire.writers import ClassicWriter, FlexibleWriter, Writer

Read: TypeAlias = "Callable[[Reader], object]"
KINDS = [ClassicReader, FlexibleReader]
BOTH = pytest.mark.parametrize("kind", KINDS)


TYPES: dict[str, tuple[type[Reader], Read, list[tuple[str, object]]]] = {
    "int8": (FlexibleReader, lambda r: r.int8("field"), [("00", 0), ("7f", 127), ("80", -128), ("ff", -1)]),
    "int16": (
        FlexibleReader,
        lambda r: r.int16("field"),
        [("0000", 0), ("7fff", 32767), ("8000", -32768), ("0102", 258)],
    ),
    "uint16": (
        FlexibleReader,
        lambda r: r.uint16("field"),
        [("0000", 0), ("7fff", 32767), ("8000", 32768), ("ffff", 65535)],
    ),
    "uuid": (
        FlexibleReader,
        lambda r: r.uuid("field"),
        [
            ("00" * 16, "AAAAAAAAAAAAAAAAAAAAAA"),
            ("ff" * 16, "_____________________w"),
            ("fb" * 16, "-_v7-_v7-_v7-_v7-_v7-w"),
        ],
    ),
    "int32": (
        FlexibleReader,
        lambda r: r.int32("field"),
        [("00000000", 0), ("7fffffff", 2**31 - 1), ("80000000", -(2**31)), ("01020304", 16909060)],
    ),
    "int64": (
        FlexibleReader,
        lambda r: r.int64("field"),
        [("00" * 8, 0), ("7f" + "ff" * 7, 2**63 - 1), ("ff" * 8, -1)],
    ),
    "boolean": (
        FlexibleReader,
        lambda r: r.boolean("field"),
        [("00", False), ("01", True), ("02", True), ("ff", True)],
    ),
    "uvarint": (
        FlexibleReader,
        lambda r: r.uvarint("field"),
        [
            ("00", 0),
            ("7f", 127),
            ("8001", 128),
            ("ac02", 300),
            ("8000", 0),
            ("ffffffff0f", 2**32 - 1),
            ("8080808001", 2**28),
        ],
    ),
    "classic string": (
        ClassicReader,
        lambda r: r.string("field"),
        [("0000", ""), ("000161", "a"), ("0002c3a9", "é"), ("0005" + "6b61666b61", "kafka")],
    ),
    "compact string": (
        FlexibleReader,
        lambda r: r.string("field"),
        [("01", ""), ("0261", "a"), ("03c3a9", "é"), ("c901" + "61" * 200, "a" * 200)],
    ),
    "classic nullable string": (
        ClassicReader,
        lambda r: r.nullable_string("field"),
        [("ffff", None), ("0000", ""), ("000161", "a")],
    ),
    "compact nullable string": (
        FlexibleReader,
        lambda r: r.nullable_string("field"),
        [("00", None), ("01", ""), ("0261", "a")],
    ),
    "classic octets": (ClassicReader, lambda r: r.octets("field"), [("00000000", b""), ("00000002ff00", b"\xff\x00")]),
    "compact octets": (FlexibleReader, lambda r: r.octets("field"), [("01", b""), ("03ff00", b"\xff\x00")]),
    "classic nullable count": (
        ClassicReader,
        lambda r: r.nullable_count("field", 1),
        [("ffffffff", None), ("00000000", 0)],
    ),
    "compact nullable count": (FlexibleReader, lambda r: r.nullable_count("field", 1), [("00", None), ("01", 0)]),
}
"""The reader, how it reads a value, and pairs of hex and value."""

OF_EACH_TYPE = pytest.mark.parametrize(("kind", "read", "examples"), TYPES.values(), ids=TYPES)


@OF_EACH_TYPE
def test_a_value_is_read_where_it_lies(kind: type[Reader], read: Read, examples: list[tuple[str, object]]) -> None:
    """The reader begins at the offset that it is given, and leaves the bytes of the next field."""
    for text, value in examples:
        data = bytes.fromhex(text)
        reader = kind(b"\xee\xee" + data + b"\xff\xff", "message", 2)
        assert read(reader) == value
        assert reader.at == 2 + len(data)


@OF_EACH_TYPE
def test_an_incomplete_value_is_refused(kind: type[Reader], read: Read, examples: list[tuple[str, object]]) -> None:
    """At each byte that is missing; the error names field and offset. No byte behind the reader's end is used."""
    for text, _ in examples:
        data = bytes.fromhex(text)
        for size in range(len(data)):
            with pytest.raises(RemoteWireError, match=r"^message: field at byte \d+: ") as caught:
                read(kind(data[:size], "message"))
            assert caught.value.offset <= size
        with pytest.raises(RemoteWireError):
            read(kind(data, "message", 0, len(data) - 1))


def refuses(reader: Reader, read: Read, problem: str, offset: int) -> None:
    """Assert that a read raises, for this reason and at this place."""
    with pytest.raises(RemoteWireError) as caught:
        read(reader)
    assert (caught.value.problem, caught.value.offset) == (problem, offset)


@pytest.mark.parametrize(
    ("hex_", "read"),
    [
        ("fffe", lambda r: r.string("field")),
        ("8000", lambda r: r.nullable_string("field")),
        ("fffffffe", lambda r: r.octets("field")),
    ],
)
def test_a_negative_length_is_refused(hex_: str, read: Read) -> None:
    """Only the length -1 has a meaning, and that is null."""
    data = bytes.fromhex(hex_)
    size = int.from_bytes(data, "big", signed=True)
    refuses(ClassicReader(data, "message"), read, f"negative length {size}", 0)


def test_a_negative_count_is_refused() -> None:
    """An array cannot have less than no elements."""
    data = bytes.fromhex("fffffffe")
    refuses(ClassicReader(data, "message"), lambda r: r.count("field", 1), "negative count -2", 0)


@BOTH
@pytest.mark.parametrize(
    "read", [lambda r: r.string("field"), lambda r: r.octets("field"), lambda r: r.count("field", 1)]
)
def test_null_is_refused_where_it_must_not_be(kind: type[Reader], read: Read) -> None:
    """Null has a length of its own, and the reader of a field without null refuses it."""
    data = b"\x00" if kind is FlexibleReader else b"\xff\xff\xff\xff"
    refuses(kind(data, "message"), read, "null, which it must not be", 0)


@pytest.mark.parametrize(
    ("kind", "hex_"), [(ClassicReader, "0003 61ff62"), (FlexibleReader, "04 61ff62"), (FlexibleReader, "04 61c328")]
)
def test_text_that_is_not_utf_8_is_refused_at_the_byte(kind: type[Reader], hex_: str) -> None:
    """The error has the offset of the first wrong byte."""
    data = bytes.fromhex(hex_)
    refuses(kind(data, "message"), lambda r: r.string("field"), "not UTF-8", len(data) - 2)


@pytest.mark.parametrize("hex_", ["ffffffff1f", "808080801000", "ffffffffff0f", "8080808080808001"])
def test_a_varint_of_more_than_32_bits_is_refused(hex_: str) -> None:
    """The reader refuses a sixth byte, and any bit above the 32nd."""
    refuses(
        FlexibleReader(bytes.fromhex(hex_), "message"), lambda r: r.uvarint("field"), "varint of more than 32 bits", 0
    )


@BOTH
def test_a_count_of_elements_that_cannot_fit_is_refused(kind: type[Reader]) -> None:
    """The reader compares the count with the bytes that are left, before any loop or allocation."""
    data = (b"\x0b" if kind is FlexibleReader else b"\x00\x00\x00\x0a") + bytes(19)
    refuses(kind(data, "message"), lambda r: r.count("field", 2), "10 elements cannot fit into 19 bytes", 0)


@BOTH
@pytest.mark.parametrize("read", [lambda r: r.octets("f"), lambda r: r.count("f", 1), lambda r: r.string("f")])
def test_invariant_7_a_huge_length_allocates_nothing(kind: type[Reader], read: Read) -> None:
    """The reader refuses a length of two gigabytes within a few kilobytes of memory."""
    data = b"\xff\xff\xff\xff\x07" if kind is FlexibleReader else b"\x7f\xff\xff\xff"
    tracemalloc.start()
    try:
        with pytest.raises(RemoteWireError):
            read(kind(data, "message"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_tagged_fields_come_as_readers_of_their_own_bytes() -> None:
    """Each reader has its part of the buffer only, and counts offsets from the start of the message."""
    reader = FlexibleReader(bytes.fromhex("02 00 02 0102 05 00") + b"rest", "message")
    tagged = reader.tagged()
    assert reader.at == 7
    assert list(tagged) == [0, 5]
    assert tagged[0].int16("a") == 258
    refuses(tagged[0], lambda r: r.int8("a"), "wanted 1 byte, 0 left", 5)


def test_classic_versions_have_no_tags() -> None:
    """The reader of a classic version reads no byte for tags."""
    reader = ClassicReader(b"\x01\x02", "message")
    assert reader.tags() == {}
    assert reader.at == 0


@pytest.mark.parametrize(
    ("hex_", "problem", "offset"),
    [
        ("02 0100 0100", "tag 1 after tag 1: tags ascend and never repeat", 3),
        ("02 0500 0100", "tag 1 after tag 5: tags ascend and never repeat", 3),
        ("01", "wanted 1 byte, 0 left", 1),
        ("01 00", "wanted 1 byte, 0 left", 2),
        ("01 00 05 0102", "wanted 5 bytes, 2 left", 3),
        ("ffffffff0f 00", "more than the 16384 tagged fields that are believed of one message", 5),
    ],
)
def test_tags_that_do_not_parse_are_refused(hex_: str, problem: str, offset: int) -> None:
    """The reader refuses tags that are repeated, unsorted or cut, and a count of billions."""
    refuses(FlexibleReader(bytes.fromhex(hex_), "message"), lambda r: r.tags(), problem, offset)


def test_bytes_behind_the_end_are_refused() -> None:
    """A message must use all of its frame."""
    reader = ClassicReader(b"\x01\x02\x03", "message")
    reader.int8("field")
    refuses(reader, lambda r: r.finish(), "2 bytes left over", 1)


def test_what_is_left_can_be_taken_as_it_is() -> None:
    """Afterwards the reader has no bytes left."""
    reader = ClassicReader(b"\x01\x02\x03", "message")
    reader.int8("field")
    assert reader.rest() == b"\x02\x03"
    reader.finish()


@given(value=st.integers(0, 2**32 - 1))
def test_each_varint_comes_back(value: int) -> None:
    """The reader reads what the writer writes."""
    writer = FlexibleWriter("message")
    writer.uvarint(value)
    reader = FlexibleReader(bytes(writer.out), "message")
    assert reader.uvarint("field") == value
    reader.finish()


@given(
    kinds=st.sampled_from([(ClassicReader, ClassicWriter), (FlexibleReader, FlexibleWriter)]),
    values=st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=300)),
)
def test_each_string_comes_back(kinds: tuple[type[Reader], type[Writer]], values: list[str | None]) -> None:
    """A string may be null, empty, or text of any script."""
    writer = kinds[1]("message")
    for value in values:
        writer.nullable_string(value, "field")
    reader = kinds[0](bytes(writer.out), "message")
    assert [reader.nullable_string("field") for _ in values] == values
    reader.finish()


@given(
    data=st.binary(max_size=64),
    operations=st.lists(st.sampled_from("1248vsnbatu"), max_size=12),
    kind=st.sampled_from(KINDS),
)
def test_a_reader_gives_a_value_or_raises_our_error(data: bytes, operations: list[str], kind: type[Reader]) -> None:
    """The reader raises no other exception, whatever the bytes and the order of reads."""
    reader = kind(data, "message")
    reads: dict[str, Callable[[], object]] = {
        "1": lambda: reader.int8("f"),
        "2": lambda: reader.int16("f"),
        "4": lambda: reader.int32("f"),
        "8": lambda: reader.int64("f"),
        "v": lambda: reader.uvarint("f"),
        "s": lambda: reader.string("f"),
        "n": lambda: reader.nullable_string("f"),
        "b": lambda: reader.octets("f"),
        "a": lambda: reader.count("f", 1),
        "t": reader.tags,
        "u": lambda: reader.boolean("f"),
    }
    for operation in operations:
        with contextlib.suppress(RemoteWireError):
            reads[operation]()
    assert 0 <= reader.at <= len(data)


def test_the_examples_are_those_of_struct() -> None:
    """Numbers are big-endian, as everywhere in Kafka."""
    assert ClassicReader(struct.pack(">q", -5), "message").int64("field") == -5


def test_invariant_7_a_message_of_nothing_but_tags_is_refused() -> None:
    """A tag of two bytes takes a hundred in memory, so a message has a limit for all of its tags."""
    many = MOST_TAGS // 2 + 1
    tags = b"".join(uvarint(tag) + b"\0" for tag in range(many))
    struct_of_tags = uvarint(many) + tags
    reader = FlexibleReader(struct_of_tags * 2, "message")
    assert len(reader.tagged()) == many
    with pytest.raises(RemoteWireError, match="more than the 16384 tagged fields"):
        reader.tagged()


def test_invariant_7_an_array_of_more_elements_than_anybody_has_is_refused() -> None:
    """The reader refuses the array, although its elements would fit into the bytes."""
    reader = FlexibleReader(uvarint(MOST_ELEMENTS + 2) + b"\0" * (MOST_ELEMENTS + 1), "message")
    with pytest.raises(RemoteWireError, match="65537 elements, more than the 65536"):
        reader.count("things", 1)


def uvarint(value: int) -> bytes:
    """Write an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
