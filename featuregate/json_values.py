"""Read JSON documents with checks: each value has its type, and an error names the place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from featuregate.budgets import MOST_JSON_VALUES
from featuregate.printable import shown

T = TypeVar("T")
S = TypeVar("S", bound=str)

_PAIR: Final = 2
_SURROGATE: Final = "\\ud"
"""How JSON begins to escape a surrogate, and some other characters."""
_LONGEST: Final = 60
_DEPTH: Final = 6


class JsonError(ValueError):
    """A document is not as expected: ``problem`` at ``where``, such as ``view.brokers[0].port``."""

    def __init__(self, where: str, problem: str) -> None:
        where = shown(where)  # the names in it are a peer's
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


def parse_json(text: str | bytes, name: str, *, refuse_halves: bool = True) -> JsonValue:
    """Parse a document, which errors call ``name``.

    Raises `JsonError`: it is not JSON, nested too deeply, larger than is believed, or has half a character: no text
    with one can be encoded, so that whatever keeps or sends it would fail later. A caller that checks each text itself,
    and can say where it stands, passes ``refuse_halves=False``.
    """
    import json  # noqa: PLC0415 - only at the first use

    try:
        if isinstance(text, bytes | bytearray):
            text = text.decode(json.detect_encoding(text))
        _check_size(text)
        if not text.isascii():
            text.encode()
        value = json.loads(text, parse_constant=_no_constant)
        if refuse_halves and _SURROGATE in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        problem = "this is not JSON: it has bytes, or half a surrogate pair, that are not characters of Unicode"
        raise JsonError(name, problem) from None
    except (ValueError, RecursionError) as error:
        raise JsonError(name, f"this is not JSON: {error}") from error
    return JsonValue(name, value)


def _check_size(text: str) -> None:
    """Refuse a document that would take far more memory than its bytes."""
    values = text.count(",") + text.count("[") + text.count("{")
    if values > MOST_JSON_VALUES:
        raise ValueError(f"it has {values} values, more than the {MOST_JSON_VALUES} that are believed")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def check_schema(document: JsonValue, *, newest: int) -> None:
    """Raise `JsonError` if the ``schema_version`` of a document is newer than the newest that can be read."""
    version = document.field("schema_version")
    if version.integer() > newest:
        problem = f"{version.value} is newer than {newest}, the newest that this featuregate reads: upgrade featuregate"
        raise JsonError(version.where, problem)


class JsonValue:
    """A parsed value, and its place in the document."""

    __slots__ = ("value", "where")

    def __init__(self, where: str, value: Any) -> None:
        self.where = where
        self.value = value

    def wrong(self, expected: str) -> JsonError:
        """Make the error for a value of another type."""
        said = _start_of(self.value)
        return JsonError(
            self.where, f"expected {expected}, not {said if len(said) <= _LONGEST else said[:_LONGEST] + '...'}"
        )

    def of_type(self, kind: type[T], expected: str) -> T:
        """Return the value if it is of exactly this type: JSON's true is not a number."""
        if type(self.value) is not kind:
            raise self.wrong(expected)
        return self.value

    def field(self, name: str) -> JsonValue:
        """Step into an object."""
        fields = self.of_type(dict, "an object")
        where = f"{self.where}.{name}"
        if name not in fields:
            raise JsonError(where, "this is missing")
        return JsonValue(where, fields[name])

    def fields(self) -> dict[str, JsonValue]:
        """Return all of an object."""
        return {
            name: JsonValue(f"{self.where}.{name}", value) for name, value in self.of_type(dict, "an object").items()
        }

    def items(self) -> list[JsonValue]:
        """Return all of an array."""
        return [JsonValue(f"{self.where}[{at}]", value) for at, value in enumerate(self.of_type(list, "an array"))]

    def integer(self, bits: int = 64) -> int:
        """Return an integer of ``bits`` bits, its sign included: Kafka's protocol has none of more than 64."""
        number = self.of_type(int, "an integer")
        if number.bit_length() >= bits and number != -(2 ** (bits - 1)):
            raise self.wrong(f"an integer of {bits} bits")
        return number

    def text(self) -> str:
        """Return a string."""
        return self.of_type(str, "a string")

    def seconds(self) -> float:
        """Return a finite number, whole or not: ``json`` parses 1e999, and Spark NaN."""
        number = self.value if type(self.value) is int else self.of_type(float, "a number")
        if not abs(number) <= sys.float_info.max:  # NaN is neither
            raise self.wrong("a finite number")
        return number

    def integers(self) -> dict[str, int]:
        """Return all of an object of integers."""
        return {name: value.integer() for name, value in self.fields().items()}

    def one_of(self, *allowed: S) -> S:
        """Return a string out of these."""
        for text in allowed:
            if text == self.value:
                return text
        raise self.wrong(" or ".join(map(repr, allowed)))

    def optional(self, read: Callable[[JsonValue], T]) -> T | None:
        """Return None for null."""
        return None if self.value is None else read(self)

    def pair(self) -> tuple[int, int]:
        """Return an array of two levels, which have 16 bits."""
        lowest, highest = self.items() if type(self.value) is list and len(self.value) == _PAIR else (self, self)
        if lowest is self:
            raise self.wrong("the lowest and the highest level")
        return lowest.integer(16), highest.integer(16)


def _start_of(value: Any) -> str:
    """Return a value as Python shows it; of a large one the beginning alone is made."""
    from reprlib import Repr  # noqa: PLC0415 - only errors need it

    if isinstance(value, str):
        return repr(value[: _LONGEST + 1])
    short = Repr()
    short.maxlevel, short.maxstring = _DEPTH, _LONGEST
    short.maxlist = short.maxdict = _LONGEST
    return short.repr(value)
