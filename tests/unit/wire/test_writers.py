"""Writers of primitive types: each refuses a value that Kafka cannot encode, before it is sent."""

from collections.abc import Callable

import pytest

from featuregate.errors import LocalWireError
from featuregate.wire.writers import ClassicWriter, FlexibleWriter, Writer

BOTH = pytest.mark.parametrize("kind", [ClassicWriter, FlexibleWriter])


@pytest.mark.parametrize(
    ("write", "bits"),
    [
        (lambda w, v: w.int8(v, "field"), 8),
        (lambda w, v: w.int16(v, "field"), 16),
        (lambda w, v: w.int32(v, "field"), 32),
        (lambda w, v: w.int64(v, "field"), 64),
    ],
)
def test_a_number_that_does_not_fit_is_refused(write: Callable[[Writer, int], None], bits: int) -> None:
    """The writer refuses the number above the highest and the one below the lowest."""
    for value in (2 ** (bits - 1), -(2 ** (bits - 1)) - 1):
        with pytest.raises(LocalWireError, match=rf"^message: field: {value} does not fit into {bits} bits$"):
            write(ClassicWriter("message"), value)


def test_an_unsigned_number_that_does_not_fit_is_refused() -> None:
    """The writer refuses a negative number, too."""
    for value in (-1, 65536):
        with pytest.raises(LocalWireError, match=rf"^message: field: {value} does not fit into 16 bits$"):
            ClassicWriter("message").uint16(value, "field")


@pytest.mark.parametrize(
    "text", ["", "short", "A" * 21, "A" * 23, "A" * 24, "+" * 22, "AAAAAAAAAAAAAAAAAAAAAB", "A" * 21 + "\n", "é" * 22]
)
def test_text_that_is_no_uuid_of_kafka_is_refused(text: str) -> None:
    """Kafka writes the sixteen bytes of a UUID as 22 characters."""
    with pytest.raises(LocalWireError, match="is not 16 bytes in URL-safe base64"):
        ClassicWriter("message").uuid(text, "field")


@BOTH
def test_a_string_longer_than_kafka_allows_is_refused(kind: type[Writer]) -> None:
    """The length of a string counts bytes, not characters."""
    kind("message").string("é" * 16383, "field")
    with pytest.raises(LocalWireError, match=r"^message: field: 32768 bytes, Kafka allows 32767$"):
        kind("message").string("é" * 16384, "field")


@BOTH
def test_text_without_bytes_is_refused(kind: type[Writer]) -> None:
    """UTF-8 has no bytes for a lone surrogate."""
    with pytest.raises(LocalWireError, match=r"^message: field: not text that UTF-8 can carry$"):
        kind("message").string("\ud800", "field")
