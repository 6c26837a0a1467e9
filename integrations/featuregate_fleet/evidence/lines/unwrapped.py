"""The text of a log event without what is around it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from featuregate_fleet.evidence.lines.layouts import Layout
    from featuregate_fleet.evidence.lines.times import LineTime

_LEVEL: Final = re.compile(r"(?<![\w.-])(TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)(?![\w.-])", re.ASCII)
_LEVEL_OF_ANY_CASE: Final = re.compile(_LEVEL.pattern, re.ASCII | re.IGNORECASE)


class Unwrapped(NamedTuple):
    """The text of a log event as the broker wrote it, and what its envelopes say."""

    text: str
    time: LineTime | None = None
    """The time of the innermost envelope that has one."""
    level: str | None = None
    stream: str | None = None
    """Which lines a runtime may have split; None where it splits none."""
    ends: bool | None = True
    """Whether the line ends here; None where the envelope does not say it."""
    lost: bool = False
    """Whether the event is not to be understood: its text is missing, or holds another request, too."""
    layout: Layout | None = None
    """How times are written, where the operator says it."""


def last_level(text: str) -> str | None:
    """Return the last level in a text; None without any."""
    found = _LEVEL.findall(text) or _LEVEL_OF_ANY_CASE.findall(text)
    return str(found[-1]).upper().removesuffix("ING") if found else None
