"""Tells a text by its beginning, because a rotation renames a log and may compress it, and a live log grows.

Up to which byte a text is read counts only for a text that has the same bytes before it: two logs may begin alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Final, NamedTuple, TypeVar

from featuregate_fleet.files.opening import GZIP, format_of, inflated, open_log

if TYPE_CHECKING:
    from featuregate_fleet.evidence.paths import LogFile

Answer = TypeVar("Answer")

BEGINNING: Final = 4096
"""Bytes of a text that tell it from others: some lines, of which each has its time."""
TAIL: Final = 1024
"""Bytes before a position that a text must have, so that it was read up to there."""
NAME: Final = r"^(?P<length>\d+):[0-9a-f]{64}$"
"""What `text_id` returns. Names of texts without a time may have a number and a colon, too: the storage gives them."""
_BLOCK: Final = 2**16
_TIME: Final = re.compile(rb"\d\d:\d\d:\d\d|(?<!\d)1\d{9}(?:\d{3}){0,3}(?!\d)")
"""A time of a day, or seconds, milliseconds, microseconds or nanoseconds since 1970."""


WHOLE: Final = " whole"
"""Ends the stamp of a file that was read when nobody wrote it any more, so that its last line is read, too."""


def name_by_path(stamp: str, path: str) -> str:
    """Return what names a text without a time: the inode of its file, or what a storage says of it, and its path."""
    return f"{stamp.removesuffix(WHOLE).rpartition(' ')[2]} {path}"


def moved_file(stamp: str, uri: str) -> tuple[str, str]:
    """Return what only a renamed file keeps: when it was written, and its inode; its name where there are none."""
    whole = stamp.removesuffix(WHOLE)
    match whole.split(" "):
        case [written, _, inode]:
            return written, inode
    return whole, uri


class KnownText(NamedTuple):
    """Up to where a text was read."""

    position: int
    tail: str
    """The hash of what is before that."""
    source: str
    """Its name in the table."""
    failed: bool = False
    """Whether the rest could not be read: the line in which the position is was read by another piece."""

    @property
    def name(self) -> str | None:
        """The name that it keeps, of when less of its beginning was there; None for one without a time.

        What was said of it under that name is mended, and read again, under the same.
        """
        return self.source if re.match(NAME, self.source) else None


class Beginning(NamedTuple):
    """What a file begins with."""

    head: bytes
    """The first bytes of its text, decompressed where that can be: at most `BEGINNING`."""
    packed: bool
    """Whether it is compressed."""
    is_text: bool = True
    """False for one that cannot be opened or is not a text, which its reader says."""


def answer_of(file: LogFile, look: Callable[[IO[bytes]], Answer]) -> Answer | None:
    """Return what a look into a file says; None for one that cannot be read, which its reader says."""
    try:
        with open_log(file) as opened:
            return look(opened)
    except OSError:
        return None


def beginning_of(file: LogFile) -> Beginning:
    """Return what a file begins with."""
    found = answer_of(file, lambda opened: _beginning(opened, file.path))
    return found or Beginning(b"", packed=False, is_text=False)


def _beginning(opened: IO[bytes], path: str) -> Beginning | None:
    found = format_of(opened, path)
    if found == GZIP:
        return Beginning(next(inflated(opened))[:BEGINNING], packed=True)  # its first block has all before a damage
    return None if found else Beginning(opened.read(BEGINNING), packed=False)


def text_id(head: bytes) -> str:
    """Return what names a text that begins so: the length of its beginning, and a hash of that."""
    return f"{len(head)}:{sha256(head).hexdigest()}"


def names_of(head: bytes, by_path: str, lengths: Collection[int]) -> list[str]:
    """Return what may name the text of a file, the longest beginning first; the first one names it from now on.

    A text that grows was named when it was as long as one of some lengths. One without the time of an event may be that
    of any log. It is known by its path and inode alone.
    """
    if not has_time(head):
        return [by_path]
    known = sorted((length for length in lengths if length < len(head)), reverse=True)
    return [text_id(head), *(text_id(head[:length]) for length in known), by_path]


def has_time(head: bytes) -> bool:
    """Return whether a beginning may hold the time of an event, which no other text has."""
    return _TIME.search(head) is not None


def begins_with(opened: IO[bytes], path: str, source: str) -> bool:
    """Return whether an open file begins with the text of a name of `text_id`. It is then at its beginning.

    With any other name, which a text without a time has, it has to be one without a time. Empty: any text will do.
    """
    found = _beginning(opened, path) if source else None
    opened.seek(0)
    named = re.match(NAME, source)
    if found is None:
        return True
    return text_id(found.head[: int(named["length"])]) == source if named else not has_time(found.head)


def tail_hash(before: bytes) -> str:
    """Return a hash of the last bytes before a position."""
    return sha256(before[-TAIL:]).hexdigest()


NOTHING_BEFORE: Final = tail_hash(b"")
"""The hash before the beginning of a text."""


def tail_at(opened: IO[bytes], position: int) -> str:
    """Return that hash of a file of plain text, which is at its beginning afterwards."""
    start = max(0, position - TAIL)
    opened.seek(start)
    found = tail_hash(opened.read(position - start))
    opened.seek(0)
    return found


def read_before(file: LogFile, texts: Sequence[KnownText]) -> KnownText | None:
    """Return up to which byte a file of plain text was read, under any name: where it has what was before that.

    A line that had no end there, and goes on, is read as a whole.
    """

    def furthest(opened: IO[bytes]) -> KnownText | None:
        found = [text for text in texts if text.position <= file.size and tail_at(opened, text.position) == text.tail]
        text = max(found, default=None)
        if text is None or text.failed or text.position == file.size:
            return text
        begin = end_of_lines(opened, 0, text.position)
        return text if begin == text.position else text._replace(position=begin, tail=tail_at(opened, begin))

    return answer_of(file, furthest)


def tail_of(file: LogFile, position: int) -> str | None:
    """Return that hash of a file of plain text; None for one that is gone."""
    return answer_of(file, lambda opened: tail_at(opened, position))


def read_up_to(opened: IO[bytes], known: Collection[KnownText]) -> tuple[KnownText | None, int]:
    """Return which of some texts a compressed one is: the one of the highest position whose tail it has before that.

    Return also from where on it is to be read: a line that had no end there, and goes on, is read as a whole.
    """
    at, last, begin, line, found, goes_on = 0, b"", 0, 0, None, False
    places = {(text.position, text.tail): text for text in sorted(known)}
    wanted = sorted({position for position, _ in places}, reverse=True)
    for block in inflated(opened):
        end, goes_on = at + len(block), goes_on or (found is not None and bool(block))
        while wanted and end >= wanted[-1]:
            inner = wanted.pop() - at
            if text := places.get((at + inner, tail_hash(last + block[:inner]))):
                found, goes_on = text, inner < len(block)
                line = at + cut if (cut := block.rfind(b"\n", 0, inner) + 1) else begin
        if not wanted and (found is None or goes_on):
            break
        begin = at + cut if (cut := block.rfind(b"\n") + 1) else begin
        at, last = end, (last + block)[-TAIL:]
    opened.seek(0)
    return found, line if found is None or (goes_on and not found.failed) else found.position


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
    """Follows a text up to its end and that of its last line, each with the hash of what is before it."""

    def __init__(self) -> None:
        self.lines = self.whole = (0, NOTHING_BEFORE)

    def follow(self, blocks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """Yield the blocks."""
        last = b""
        for block in blocks:
            text, at = last + bytes(block), self.whole[0] - len(last)
            if end := text.rfind(b"\n", len(last)) + 1:
                self.lines = at + end, tail_hash(text[max(0, end - TAIL) : end])
            self.whole = at + len(text), tail_hash(text)
            last = text[-TAIL:]
            yield block
