"""Findings that are alike but for a client id are one finding: many ids of one app are generated. Pure.

Kafka Streams and Spark put a UUID into each id, Kubernetes the name of a pod, Java a number, and people a host's. The
findings are grouped once each has its verdict: a client that negotiates must not speak for one that does not.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, replace
from typing import Any, Final

from featuregate_fleet.readiness.rows import MOST_HOSTS, Row, Verdict

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


def pattern_of(client_id: str) -> str:
    """Return a client id with ``*`` in place of each part that looks generated."""
    return _GENERATED.sub("*", client_id)


def group_ids(rows: Iterable[Row], most_characters: int = _MOST_CHARACTERS) -> list[Row]:
    """Return the findings, with one in place of those about many ids of one pattern.

    What would still make too large a document is grouped more and more, except what blocks: somebody must move each of
    those clients.
    """
    found = _grouped(rows, _by_pattern, more_than=_FEW)
    size = sum(map(_size, found))
    for key in (_by_principal, _by_software, _by_check):
        for verdict in (Verdict.OK, Verdict.WARN, Verdict.STALE, Verdict.UNKNOWN):
            if size <= most_characters:
                return found
            others = [row for row in found if row.verdict is not verdict]
            found = others + _grouped((row for row in found if row.verdict is verdict), key, more_than=1)
            size = sum(map(_size, found))
    return found


def _by_pattern(row: Row) -> Hashable:
    if row.client_id is None:
        return None
    alike = {name: value for name, value in asdict(row).items() if name not in _OF_ONE_CLIENT}
    return pattern_of(row.client_id), *alike.values()


def _by_principal(row: Row) -> Hashable:
    return row.check, row.verdict, row.api, row.versions, row.app, row.software, row.principal


def _by_software(row: Row) -> Hashable:
    return row.check, row.verdict, row.api, row.versions, row.app, row.software


def _by_check(row: Row) -> Hashable:
    return row.check, row.verdict, row.api


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
    """Return the finding about several clients, with one of them as an example."""
    first = min(same, key=lambda row: row.subject)
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
    """Return the text that all of them are; None if they differ."""
    found = set(texts)
    return found.pop() if len(found) == 1 else None


def _size(row: Row) -> int:
    fields: dict[str, Any] = asdict(row)
    return len(json.dumps(fields, default=str, indent=2))
