"""Which records the coordinators of each release can read, and what an older coordinator loses.

Coordinators keep groups, offsets and transactions as records of internal topics. After a rollback a coordinator reads
records that a newer one wrote. Up to 3.4.0 it stops at the first unknown record type; since KIP-915 it skips such a
record, and ignores unknown tagged fields. KIP-915 does not cover newer versions of values: coordinators stop at them.
The preview of the coordinator of KIP-848, in 3.8 and 3.9, does not check the version, and misreads the bytes.
Transaction coordinators skip such values from 4.3 on.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from featuregate.catalog.load import load
from featuregate.catalog.releases import numbers_of

_ONLY_CONSUMER_PROTOCOL: Final = (4, 0)
"""The first release whose only group coordinator is the one of KIP-848."""
_GENERATIONS: Final = ("classic", "consumer_protocol")
"""Keys of the table: group coordinators without and with KIP-848."""
_TRANSACTIONS: Final = "__transaction_state"
_Kind = Literal["stops", "misreads", "skips"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReading:
    """Which records of one type a coordinator reads."""

    versions: tuple[int, int]
    """The lowest and the highest version of values, inclusive."""
    unknown_version: _Kind
    """What happens to a value of another version, as the ``kind`` of a `Loss`."""
    tagged_fields: frozenset[str]
    """The known tagged fields, with the names of ``featuregate.records.tagged_fields``."""
    early_access: bool
    """Whether version 0 had another schema here than in the release that supports it: neither reads the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What happens to a record that a coordinator does not read completely."""

    kind: Literal["stops", "misreads", "skips", "ignores"]
    """``stops``: the coordinator stops loading the partition, and a group coordinator then has no state of it;
    ``misreads``: it decodes the bytes by another schema, and gets wrong values or stops; ``skips``: it continues
    without the record; ``ignores``: it continues without some fields."""
    why: str
    """The reason, such as ``record type 16 is unknown``."""
    fields: tuple[str, ...] = ()
    """The ignored tagged fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRelease:
    """What the coordinators of one release read."""

    release: str
    """The first release with these coordinators."""
    consumer_protocol: bool
    """Whether the group coordinator is the one of KIP-848; up to 3.9 it has to be enabled."""
    skips_unknown_types: bool
    """Whether it has KIP-915."""
    reads: Mapping[str, Mapping[int, RecordReading]]
    """By topic, then by type of record."""
    read_from: str
    """The source or jar of this row."""

    def loss(
        self, topic: str, record_type: int, version: int | None, tagged_fields: Collection[str] = ()
    ) -> Loss | None:
        """Return what happens to a record when these coordinators load it; None where they read all of it.

        ``version`` is the version of the value, None for a tombstone; ``tagged_fields`` names its tagged fields.
        """
        known = self.reads.get(topic, {}).get(record_type)
        if known is None:
            return self._unknown_type(record_type, version)
        if version is None:
            return None
        if known.early_access:
            return Loss(kind="misreads", why=f"record type {record_type} had another schema in {self.release}")
        lowest, highest = known.versions
        if not lowest <= version <= highest:
            why = f"value version {version} is not one of {lowest} to {highest}"
            return Loss(kind=known.unknown_version, why=why)
        if ignored := tuple(name for name in tagged_fields if name not in known.tagged_fields):
            return Loss(kind="ignores", why=f"tagged fields are unknown: {', '.join(ignored)}", fields=ignored)
        return None

    def _unknown_type(self, record_type: int, version: int | None) -> Loss | None:
        why = f"record type {record_type} is unknown"
        if not self.skips_unknown_types:
            return Loss(kind="stops", why=why)
        return None if version is None else Loss(kind="skips", why=why)


def coordinator_release(release: str, *, consumer_protocol: bool | None = None) -> CoordinatorRelease:
    """Return what the coordinators of a release read; for a release newer than the table, its newest row.

    ``release`` is a version such as ``3.4.1``, since patch releases differ. ``consumer_protocol`` chooses the group
    coordinator where a release has both, as 3.8 and 3.9 do; the default is the default of that release.

    Raises `LookupError`: the release is older than 0.10.0, or has no such coordinator.
    """
    asked = numbers_of(release)
    if consumer_protocol is None:
        consumer_protocol = asked >= _ONLY_CONSUMER_PROTOCOL
    if consumer_protocol or asked < _ONLY_CONSUMER_PROTOCOL:
        for known in reversed(coordinator_releases()):
            if known.consumer_protocol == consumer_protocol and numbers_of(known.release) <= asked:
                return known
    kind = "with the consumer protocol" if consumer_protocol else "of the classic protocol alone"
    raise LookupError(f"Kafka {release} has no known coordinator {kind}")


@functools.cache
def coordinator_releases() -> tuple[CoordinatorRelease, ...]:
    """Return every known row, oldest first; rows of the classic protocol alone come before those of KIP-848."""
    table = load("coordinators")
    return tuple(
        _row(release, table, consumer_protocol=consumer_protocol)
        for consumer_protocol in (False, True)
        for release in sorted(table[_GENERATIONS[consumer_protocol]], key=numbers_of)
    )


def _row(release: str, table: Mapping[str, Any], *, consumer_protocol: bool) -> CoordinatorRelease:
    row = table[_GENERATIONS[consumer_protocol]][release]
    checks = not consumer_protocol or numbers_of(release) >= numbers_of(table["consumer_protocol_checks_versions_from"])
    skips = numbers_of(release) >= numbers_of(table["transactions_skip_unknown_versions_from"])
    of_transactions: _Kind = "skips" if skips else "stops"
    of_others: _Kind = "stops" if checks else "misreads"
    return CoordinatorRelease(
        release=release,
        consumer_protocol=consumer_protocol,
        skips_unknown_types=numbers_of(release) >= numbers_of(table["skips_unknown_types_from"]),
        reads={
            topic: {
                int(number): _reading(entry, of_transactions if topic == _TRANSACTIONS else of_others)
                for number, entry in entries.items()
            }
            for topic, entries in row["reads"].items()
        },
        read_from=row["read_from"],
    )


def _reading(entry: Mapping[str, Any], unknown_version: _Kind) -> RecordReading:
    lowest, highest = entry["versions"]
    return RecordReading(
        versions=(lowest, highest),
        unknown_version=unknown_version,
        tagged_fields=frozenset(entry["tagged"]),
        early_access=entry.get("early_access", False),
    )
