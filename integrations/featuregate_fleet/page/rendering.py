"""The templates of the page: what they may insert, and what verdicts look like."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from featuregate.printable import shown
from featuregate_fleet.readiness.rows import Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import BrokerLog

_MEANINGS: Final = {
    Verdict.BLOCK: "breaks with the move",
    Verdict.UNKNOWN: "evidence is missing",
    Verdict.STALE: "evidence is too old",
    Verdict.WARN: "look at it first",
    Verdict.OK: "nothing found",
}
_SUMMARIES: Final = {
    Verdict.BLOCK: "The move breaks at least one client, group or app.",
    Verdict.UNKNOWN: "No evidence blocks the move, but evidence is missing: the move may be unsafe.",
    Verdict.STALE: "The evidence is too old to say whether the move is safe.",
    Verdict.WARN: "No evidence blocks the move. Look at the warnings first.",
    Verdict.OK: "No evidence blocks the move. The evidence lacks clients that did not connect meanwhile.",
}
_SIGNS: Final = {Verdict.BLOCK: "✕", Verdict.UNKNOWN: "?", Verdict.STALE: "◷", Verdict.WARN: "!", Verdict.OK: "✓"}
"""Each verdict has a sign, because some readers do not see the colour."""
_HOUR: Final = 3600
_MINUTES: Final = 2
"""From there on a time is shown in minutes."""
_LONGEST: Final = 300
"""Characters of one text."""


def _minute(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M}" if when else ""


def _spent(log: BrokerLog) -> str:
    """Return for how long a broker logged: in hours, and of less than an hour in minutes or seconds."""
    seen = (log.last_seen - log.first_seen).total_seconds() if log.hours == 1 else log.hours * _HOUR
    seconds = round(seen if log.covered_seconds is None else log.covered_seconds)
    if seconds >= _HOUR:
        return f"{seconds // _HOUR:,} h"
    return f"{seconds} s" if seconds < _MINUTES * 60 else f"{seconds // 60} min"


def _plain(value: object) -> object:
    """Return what a template inserts: any text without control characters, and cut. The template escapes it."""
    return shown(value, _LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


ENVIRONMENT: Final = Environment(
    loader=PackageLoader("featuregate_fleet.page"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_plain,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters["minute"] = _minute
ENVIRONMENT.filters["spent"] = _spent
ENVIRONMENT.globals |= {"signs": _SIGNS, "meanings": _MEANINGS, "summaries": _SUMMARIES}
