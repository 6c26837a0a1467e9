"""Rows of a report as text: one paragraph for each, with every field that says something."""

import textwrap
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import Any

from featuregate_fleet.readiness.rows import Row

FIRST = ("verdict", "check", "subject", "why", "do")


def told(rows: Iterable[Row]) -> str:
    """Return the text of rows, as a test writes it."""
    return "\n".join(["", *map(_paragraph, rows), ""])


def _paragraph(row: Row) -> str:
    rest = [
        f"{field.name}={_value(getattr(row, field.name))}"
        for field in fields(row)
        if field.name not in FIRST and getattr(row, field.name) != field.default
    ]
    text = f"{row.verdict} {row.check}, {row.subject}: {row.why} -> {row.do or '(nothing)'} [{', '.join(rest)}]"
    return textwrap.fill(text, 110, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%d.%H:%M}"
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
