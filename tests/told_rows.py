"""Rows of a report as text: one paragraph for each, with every field that says something."""

import re
import textwrap
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from featuregate_fleet.readiness.rows import Row

TRANSCRIPT = Path(__file__).parent / "data" / "readiness_rows.txt"
BY_METRICS = TRANSCRIPT.with_name("metrics_rows.txt")
FIRST = ("verdict", "check", "subject", "why", "do")


def told(rows: Iterable[Row]) -> str:
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


def said(name: str) -> str:
    """Return a part of the transcript of all that checks say: what operators read, word for word."""
    return _transcript()[name]


@cache
def _transcript() -> dict[str, str]:
    text = TRANSCRIPT.read_text() + BY_METRICS.read_text()
    _, *parts = re.split("^# (.+): .*\n", text, flags=re.MULTILINE)
    return {name: f"\n{text.strip()}\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}
