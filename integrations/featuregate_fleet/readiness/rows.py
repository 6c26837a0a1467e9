"""The rows of a report, and how their verdicts add up. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from featuregate_fleet.readiness.known_checks import CHECKS

APP_GATES: Final = "app-gates"
"""The check of the gates that apps report. The page has a table of its own for it."""


AT_ONE_TIME: Final = frozenset(check.name for check in CHECKS if check.at_one_time)


MOST_HOSTS: Final = 5
"""The addresses that a row names."""


class Verdict(enum.StrEnum):
    """Whether a move is safe, from the best to the worst."""

    OK = "ok"
    WARN = "warn"
    STALE = "stale"
    """The evidence is too old."""
    UNKNOWN = "unknown"
    """There is no evidence."""
    BLOCK = "block"


_ORDER = tuple(Verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict; without any, unknown."""
    return max(verdicts, key=_ORDER.index, default=Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finding: what was checked, of whom, on which evidence, and what to do."""

    check: str
    verdict: Verdict
    subject: str
    why: str
    do: str = ""
    client_id: str | None = None
    principal: str | None = None
    software: str | None = None
    app: str | None = None
    """The name under which it reports its gates."""
    api: str | None = None
    versions: tuple[int, ...] = ()
    """The versions that the finding is about, ascending."""
    stop_serving_release: str | None = None
    """The first release that does not serve the oldest of these any more, where the move goes to it or past it."""
    clients: int = 1
    """The clients that the finding is about: more than one where their ids are alike."""
    count: int = 0
    """The requests, records or reports that the finding is about."""
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    hosts: tuple[str, ...] = ()
    """The addresses from which the requests came, as brokers see them: `MOST_HOSTS` at most, hashed as principals."""
    host_count: int = 0
    """The number of these addresses; 0 if no line names one."""

    @property
    def said(self) -> str:
        """Why, from where, and as of when where the finding rests on what the cluster itself said at one time."""
        parts = [self.why, self.from_hosts]
        if self.check in AT_ONE_TIME and self.last_seen is not None:
            parts.append(f"As of {self.last_seen:%Y-%m-%d %H:%M} UTC.")
        return " ".join(filter(None, parts))

    @property
    def from_hosts(self) -> str:
        """The addresses as a sentence; empty for a client that the move does not break, or that its address names."""
        if self.verdict is Verdict.OK or not self.hosts or self.hosts[0] in self.subject:
            return ""
        more = self.host_count - len(self.hosts)
        return f"Seen from {', '.join(self.hosts)}{f' and {more} more' if more else ''}."
