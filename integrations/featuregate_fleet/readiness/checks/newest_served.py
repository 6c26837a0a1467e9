"""Whether a client used the newest version that brokers serve: then it may have newer ones. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import ServedApis, WithoutOldVersions

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, Usage


@dataclass(frozen=True, slots=True)
class NewestServed:
    """The newest version of each API that brokers serve, as they answered or as releases have it."""

    told: Mapping[int, int]
    """The lowest of what brokers answered, by API."""
    possible: Mapping[int, frozenset[int]]
    """Without an answer: what any release serves, of the API that is to be dropped."""
    seen: Mapping[int, int]
    """The newest version that any client used."""
    of_nodes: frozenset[Usage]
    """A broker sends no newer version than it serves."""

    @classmethod
    def of(cls, evidence: Evidence, completed: Iterable[Usage], apis: ServedApis) -> Self:
        """Return what the evidence says before a move."""
        told: dict[int, int] = {}
        for broker in evidence.view.answering if evidence.view else ():
            for key, versions in broker.api_ranges.items():
                told[key] = min(versions.max, told.get(key, versions.max))
        possible: dict[int, frozenset[int]] = {}
        if isinstance(apis, WithoutOldVersions) and evidence.view is None:
            key = apis.api_key
            possible[key] = frozenset(release.apis[key][1] for release in captured().values() if key in release.apis)
        seen: defaultdict[int, int] = defaultdict(int)
        for usage in completed:
            seen[usage.api_key] = max(usage.version, seen[usage.api_key])
        return cls(told, possible, seen, frozenset(evidence.node_usage))

    def may_be(self, usage: Usage) -> bool:
        """Return whether this version may be the newest one that a broker serves."""
        key, version = usage.api_key, usage.version
        if usage in self.of_nodes:
            return False
        if key in self.told:
            return version >= self.told[key]
        return version == self.seen[key] and version in self.possible.get(key, ())
