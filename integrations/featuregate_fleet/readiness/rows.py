"""The rows of a report: findings, how their verdicts add up, and one row in place of many that are alike. Pure.

Findings that are alike but for a client id are one finding, because many ids of one app are generated: Kafka Streams
and Spark put a UUID into each id, Kubernetes the name of a pod, Java a number, and people a host's. The findings are
grouped once each has its verdict: a client that negotiates must not speak for one that does not.
"""

from __future__ import annotations

import enum
import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import KW_ONLY, asdict, dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key")

APP_GATES: Final = "app-gates"
"""The check of the gates that apps report. The page has a table of its own for it."""
AT_ONE_TIME: Final = frozenset(
    {"brokers", "coordinator-records", "feature-levels", "metadata-log", "models", "protocols"}
)
"""The checks of levels and records, which are read at one time and may be others a moment later."""
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


def worst_first(row: Row) -> int:
    """Return what sorts rows so that the worst come first."""
    return -_ORDER.index(row.verdict)


def in_order(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows as a report has them."""
    return tuple(sorted(rows, key=lambda row: (worst_first(row), row.check, row.subject)))


@dataclass(frozen=True, slots=True)
class Row:
    """One finding: what was checked, of whom, on which evidence, and what to do."""

    check: str
    verdict: Verdict
    subject: str
    why: str
    do: str = ""
    _: KW_ONLY
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


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> list[tuple[Key, list[Item]]]:
    """Return items by a key that can be sorted, in the order of the keys."""
    by_key: Callable[[Item], Any] = key
    return [(found, list(same)) for found, same in groupby(sorted(items, key=by_key), key)]


# ---------------------------------------------------------------- one row in place of many

_FEW: Final = 20
"""Clients of one pattern that keep rows of their own: each may be somebody's."""
_MOST_CHARACTERS: Final = 700_000
"""Characters of all findings as JSON: the document has other parts, too."""
_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes names of (apimachinery's rand.String)."""
_GENERATED: Final = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    rf"|(?<=-)(?:{_RANDOM}{{6,10}}-)?{_RANDOM}{{5}}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Fa-f]*\d)[0-9A-Fa-f]{8,}(?![0-9A-Za-z])"
    r"|\d+"
)
"""UUIDs, ends of the names of pods, hashes, and numbers."""
_OF_ONE_CLIENT: Final = frozenset(
    {"subject", "do", "client_id", "count", "first_seen", "last_seen", "hosts", "host_count"}
)
"""The fields in which findings about clients of one app differ."""
_COARSER: Final = (
    attrgetter("check", "verdict", "api", "versions", "app", "software", "principal"),
    attrgetter("check", "verdict", "api", "versions", "app", "software"),
    attrgetter("check", "verdict", "api"),
)
"""What findings have in common that are grouped where the document would be too large, one after the other."""


def pattern_of(client_id: str) -> str:
    """Return a client id with ``*`` in place of each part that looks generated."""
    return _GENERATED.sub("*", client_id)


def group_ids(rows: Iterable[Row], most_characters: int = _MOST_CHARACTERS) -> list[Row]:
    """Return the findings, with one in place of those about many ids of one pattern.

    What would still make too large a document is grouped more and more, except what blocks: somebody must move each of
    those clients.
    """
    found = _grouped(rows, _by_pattern, more_than=_FEW)
    for key in _COARSER:
        for verdict in (Verdict.OK, Verdict.WARN, Verdict.STALE, Verdict.UNKNOWN):
            if sum(len(json.dumps(asdict(row), default=str, indent=2)) for row in found) <= most_characters:
                return found
            others = [row for row in found if row.verdict is not verdict]
            found = others + _grouped((row for row in found if row.verdict is verdict), key, more_than=1)
    return found


def _by_pattern(row: Row) -> Hashable:
    if row.client_id is None:
        return None
    alike = {name: value for name, value in asdict(row).items() if name not in _OF_ONE_CLIENT}
    return pattern_of(row.client_id), *alike.values()


def _grouped(rows: Iterable[Row], key: Callable[[Row], Hashable], *, more_than: int) -> list[Row]:
    groups: defaultdict[Hashable, list[Row]] = defaultdict(list)
    alone: list[Row] = []
    for row in rows:
        its = key(row)
        (alone if its is None else groups[its]).append(row)
    for same in groups.values():
        alone += [_one(same)] if len(same) > more_than else same
    return alone


def _one(same: list[Row]) -> Row:
    first = min(same, key=attrgetter("subject"))
    clients = sum(row.clients for row in same)
    principal = _common(row.principal for row in same)
    # A name in the text of a finding is found by its principal, when it has to be forgotten.
    example = f" (such as {first.subject})" if first.clients == 1 and principal == first.principal else ""
    subject = f"a group of {clients:,} clients{example}"
    hosts = sorted({host for row in same for host in row.hosts})
    whole = len({row.why for row in same}) == 1
    return replace(
        first,
        subject=subject,
        why=first.why if whole else f"Of one of them: {first.why}",
        do=first.do.replace(first.subject, subject),
        client_id=first.client_id if example else None,
        principal=principal,
        software=_common(row.software for row in same),
        versions=tuple(sorted({version for row in same for version in row.versions})),
        clients=clients,
        count=sum(row.count for row in same),
        first_seen=min((row.first_seen for row in same if row.first_seen), default=None),
        last_seen=max((row.last_seen for row in same if row.last_seen), default=None),
        hosts=tuple(hosts[:MOST_HOSTS]),
        host_count=len(hosts) + sum(row.host_count - len(row.hosts) for row in same),  # no less than there are
    )


def _common(texts: Iterable[str | None]) -> str | None:
    found = set(texts)
    return found.pop() if len(found) == 1 else None
