"""Small parts of the page: text from the network, tables, times and verdicts as HTML. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


_LONGEST: Final = 300
_SIGNS: Final = {Verdict.BLOCK: "✕", Verdict.UNKNOWN: "?", Verdict.STALE: "◷", Verdict.WARN: "!", Verdict.OK: "✓"}
"""Each verdict has a sign, because some readers do not see the colour."""


def plain(text: str | None) -> str:
    """Return text from the network for HTML: without control characters, cut to 300 characters, and escaped."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text or "")
    return escape(shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…")


def table(head: Iterable[str], rows: Sequence[str], what: str, most: int) -> str:
    """Return a table, whose rows stand below each other on a phone. A head with ``#`` is that of numbers."""
    cells = "".join(
        f'<th scope="col" class="number">{name[1:]}</th>' if name.startswith("#") else f'<th scope="col">{name}</th>'
        for name in head
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows[:most])
    whole = f'<table class="stack">\n<thead><tr>{cells}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'
    return whole + left_out(len(rows) - most, what)


def left_out(more: int, what: str) -> str:
    """Say how much is not shown; nothing where all is."""
    return (
        f'\n<p class="soft">{more:,} more {what} are left out here; --output json has them all.</p>' if more > 0 else ""
    )


def listed(texts: Iterable[str]) -> str:
    """Return one text as it is, and more of them as a list."""
    items = [plain(text) for text in texts]
    return items[0] if len(items) == 1 else f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def marked(verdict: Verdict) -> str:
    """Return a verdict with its sign."""
    return f'<span class="verdict {verdict}"><span aria-hidden="true">{_SIGNS[verdict]}</span> {verdict}</span>'


def strong(text: str) -> str:
    """Return text in bold."""
    return f"<strong>{plain(text)}</strong>"


def latest(rows: Iterable[Row]) -> str:
    """Return when the newest of some rows was seen."""
    return minute(max((row.last_seen for row in rows if row.last_seen), default=None))


def minute(when: datetime | None) -> str:
    """Return a time in minutes; empty without one."""
    return f"{when:%Y-%m-%d %H:%M}" if when else ""
