"""Tells a text by its beginning, because a rotation renames a log and may compress it, and a live log grows.

Up to which byte a text is read counts only for a text that has the same bytes before it: two logs may begin alike.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.files.formats import GZIP, format_of, inflated
from featuregate_fleet.files.opening import open_log

if TYPE_CHECKING:
    from featuregate_fleet.evidence.paths import LogFile

BEGINNING: Final = 4096
"""Bytes of a text that tell it from others: some lines, of which each has its time."""
TAIL: Final = 1024
"""Bytes before a position that a text must have, so that it was read up to there."""
NAME: Final = r"^(?P<length>\d+):[0-9a-f]{64}$"
"""What `text_id` returns. Names of texts without a time may have a number and a colon, too: the storage gives them."""
_BLOCK: Final = 2**16
_TIME: Final = re.compile(rb"\d\d:\d\d:\d\d|(?<!\d)1\d{9}(?:\d{3}){0,3}(?!\d)")
"""A time of a day, or seconds, milliseconds, microseconds or nanoseconds since 1970."""


class KnownText(NamedTuple):
    """Up to where a text was read."""

    position: int
    tail: str
    """The hash of what is before that."""
    source: str
    """Its name in the table."""


def name_of(known: KnownText | None, otherwise: str | None) -> str | None:
    """Return the name of a text that may be known: it keeps the one that it had when less of its beginning was there.

    What was said of it under that name is mended, and read again, under the same.
    """
    return known.source if known and known.position and re.match(NAME, known.source) else otherwise


class Beginning(NamedTuple):
    """What a file begins with."""

    head: bytes
    """The first bytes of its text, decompressed where that can be: at most `BEGINNING`."""
    packed: bool
    """Whether it is compressed."""


def beginning_of(file: LogFile) -> Beginning | None:
    """Return what a file begins with; None for one that cannot be opened or is not a text, which its reader says."""
    try:
        with open_log(file) as opened:
            found = format_of(opened, file.path)
            if found == GZIP:
                return Beginning(_up_to_damage(inflated(opened)), packed=True)
            return None if found else Beginning(opened.read(BEGINNING), packed=False)
    except OSError:
        return None


def _up_to_damage(blocks: Iterator[bytes]) -> bytes:
    """Return the first bytes of a text; fewer where it is damaged."""
    head = b""
    with suppress(OSError, EOFError, zlib.error):
        for block in blocks:
            head += block
            if len(head) >= BEGINNING:
                break
    return head[:BEGINNING]


def text_id(head: bytes) -> str:
    """Return what names a text that begins so: the length of its beginning, and a hash of that."""
    return f"{len(head)}:{sha256(head).hexdigest()}"


def ids_of(head: bytes, lengths: Iterable[int]) -> list[str]:
    """Return what named a text that begins so when it was as long as one of some lengths, the longest first."""
    known = sorted({length for length in lengths if length < len(head)}, reverse=True)
    return [text_id(head), *(text_id(head[:length]) for length in known)]


def has_time(head: bytes) -> bool:
    """Return whether a beginning may hold the time of an event, which no other text has."""
    return _TIME.search(head) is not None


def begins_with(opened: IO[bytes], path: str, source: str) -> bool:
    """Return whether an open file begins with the text of a name of `text_id`. It is then at its beginning.

    With any other name, which a text without a time has, it has to be one without a time. Empty: any text will do.
    """
    found = format_of(opened, path)
    if not source or found not in {None, GZIP}:
        return True
    named = re.match(NAME, source)
    wanted = int(named["length"]) if named else BEGINNING
    head = (_up_to_damage(inflated(opened)) if found == GZIP else opened.read(wanted))[:wanted]
    opened.seek(0)
    return text_id(head) == source if named else not has_time(head)


def tail_hash(before: bytes) -> str:
    """Return a hash of the last bytes before a position."""
    return sha256(before[-TAIL:]).hexdigest()


def tail_at(opened: IO[bytes], position: int) -> str:
    """Return that hash of a file of plain text, which is at its beginning afterwards."""
    start = max(0, position - TAIL)
    opened.seek(start)
    found = tail_hash(opened.read(position - start))
    opened.seek(0)
    return found


def tail_of(file: LogFile, position: int) -> str | None:
    """Return that hash of a file of plain text; None for one that is gone."""
    try:
        with open_log(file) as opened:
            return tail_at(opened, position)
    except OSError:
        return None


def read_up_to(opened: IO[bytes], known: Collection[KnownText]) -> KnownText | None:
    """Return which of some texts a compressed one is: the one of the highest position whose tail it has before that."""
    at, last, found = 0, b"", None
    places = {(text.position, text.tail): text for text in sorted(known)}
    wanted = sorted({position for position, _ in places}, reverse=True)
    for block in inflated(opened):
        while wanted and at + len(block) >= wanted[-1]:
            position = wanted.pop()
            found = places.get((position, tail_hash(last + block[: position - at])), found)
        if not wanted:
            break
        at += len(block)
        last = (last + block)[-TAIL:]
    opened.seek(0)
    return found


def end_of_lines(opened: IO[bytes], start: int, size: int) -> int:
    """Return where the last line that has an end ends, in the plain text from a byte to another one."""
    end = size
    while end > start:
        begin = max(start, end - _BLOCK)
        opened.seek(begin)
        if (found := opened.read(end - begin).rfind(b"\n")) >= 0:
            return begin + found + 1
        end = begin
    return start


class EndOfText:
    """Follows the blocks of a text, and knows where its last line that has an end ends, and what is before that."""

    def __init__(self) -> None:
        self.position = 0
        self._before = b""
        self._begun = b""
        self._at = 0

    def follow(self, blocks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """Yield the blocks."""
        for block in blocks:
            end = bytes(block).rfind(b"\n") + 1
            if end:
                self._before = (self._before + self._begun + bytes(block[max(0, end - TAIL) : end]))[-TAIL:]
                self.position, self._begun = self._at + end, b""
            self._begun = (self._begun + bytes(block[max(end, len(block) - TAIL) :]))[-TAIL:]
            self._at += len(block)
            yield block

    @property
    def tail(self) -> str:
        """The hash of what is before the position."""
        return tail_hash(self._before)
