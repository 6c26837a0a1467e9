"""What the coordinators of each release can read of their own topics, and so what an older one would lose.

Coordinators keep groups, offsets and transactions as records of internal topics. One that is rolled back meets what
newer ones wrote. Up to 3.4.0 it stops at the first type of record that it does not know; since KIP-915 it skips that
record and goes on, and it ignores tagged fields that it does not know. KIP-915 has nothing for newer versions of
values: coordinators stop at them, and the preview of the one of KIP-848, in 3.8 and 3.9, does not even look at the
number, and reads the bytes as if it were one that it knows. Only those of transactions skip them, from 4.3 on.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from featuregate.catalog.load import load

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["Coordinator", "Loss", "RecordReading", "coordinator", "coordinators"]

_ONLY_CONSUMER_PROTOCOL: Final = (4, 0)
"""The first release whose only group coordinator is the one of KIP-848."""
_GENERATIONS: Final = ("classic", "consumer_protocol")
"""Where the table has coordinators, without and with KIP-848."""
_TRANSACTIONS: Final = "__transaction_state"
_Kind = Literal["stops", "misreads", "skips"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReading:
    """How much a coordinator reads of one type of record."""

    versions: tuple[int, int]
    """The lowest and the highest version of values, inclusive."""
    unknown_version: _Kind
    """What becomes of a value of another version, as the ``kind`` of a `Loss`."""
    tagged: frozenset[str]
    """The tagged fields that it knows, as ``featuregate.records.tagged_fields`` names them."""
    early_access: bool
    """Whether version 0 had another layout there than in the release that supports it: then neither reads the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What becomes of a record that a coordinator does not read whole."""

    kind: Literal["stops", "misreads", "skips", "ignores"]
    """``stops``: it loads the partition no further, and a group coordinator then has nothing of it; ``misreads``: it
    takes the bytes for another layout, which gives wrong values or stops it; ``skips``: it goes on without the record;
    ``ignores``: it goes on without some fields of it."""
    why: str
    """In words, such as ``record type 16 is unknown``."""
    fields: tuple[str, ...] = ()
    """The tagged fields that are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """What the coordinators of a release read."""

    release: str
    """The first release that they are in."""
    consumer_protocol: bool
    """Whether the group coordinator is the one of KIP-848; up to 3.9 that has to be switched on."""
    skips_unknown_types: bool
    """Whether it has KIP-915."""
    reads: Mapping[str, Mapping[int, RecordReading]]
    """By topic, then by type of record."""
    read_from: str
    """Which source or jar says so."""

    def loss(self, topic: str, record_type: int, version: int | None, tagged: Collection[str] = ()) -> Loss | None:
        """Say what becomes of a record when these coordinators load it; None where they read it whole.

        ``version`` is that of the value, None for a tombstone; ``tagged`` names the tagged fields that it has.
        """
        known = self.reads.get(topic, {}).get(record_type)
        if known is None:
            return self._unknown_type(record_type, version)
        if version is None:
            return None
        if known.early_access:
            return Loss(kind="misreads", why=f"record type {record_type} had another layout in {self.release}")
        lowest, highest = known.versions
        if not lowest <= version <= highest:
            why = f"value version {version} is not one of {lowest} to {highest}"
            return Loss(kind=known.unknown_version, why=why)
        if ignored := tuple(name for name in tagged if name not in known.tagged):
            return Loss(kind="ignores", why=f"tagged fields are unknown: {', '.join(ignored)}", fields=ignored)
        return None

    def _unknown_type(self, record_type: int, version: int | None) -> Loss | None:
        why = f"record type {record_type} is unknown"
        if not self.skips_unknown_types:
            return Loss(kind="stops", why=why)
        return None if version is None else Loss(kind="skips", why=why)


def coordinator(release: str, *, consumer_protocol: bool | None = None) -> Coordinator:
    """Give what the coordinators of a release read; of a release newer than the table, what the newest in it do.

    ``release`` is a version such as ``3.4.1``, which tells more than ``3.4`` here. ``consumer_protocol`` chooses the
    group coordinator where a release has both, as 3.8 and 3.9 do; by default it is the one that runs by default there.

    Raises
    ------
    LookupError
        The release is older than 0.10.0, or has no such coordinator.
    """
    asked = _numbers(release)
    if consumer_protocol is None:
        consumer_protocol = asked >= _ONLY_CONSUMER_PROTOCOL
    if consumer_protocol or asked < _ONLY_CONSUMER_PROTOCOL:
        for known in reversed(coordinators()):
            if known.consumer_protocol == consumer_protocol and _numbers(known.release) <= asked:
                return known
    kind = "with the consumer protocol" if consumer_protocol else "of the classic protocol alone"
    raise LookupError(f"no coordinator {kind} is known of Kafka {release}")


@functools.cache
def coordinators() -> tuple[Coordinator, ...]:
    """Return all that are known, oldest first; those of the classic protocol alone go before those of KIP-848."""
    table = load("coordinators")
    return tuple(
        _coordinator(release, table, consumer_protocol=consumer_protocol)
        for consumer_protocol in (False, True)
        for release in sorted(table[_GENERATIONS[consumer_protocol]], key=_numbers)
    )


def _coordinator(release: str, table: Mapping[str, Any], *, consumer_protocol: bool) -> Coordinator:
    row = table[_GENERATIONS[consumer_protocol]][release]
    checks = not consumer_protocol or _numbers(release) >= _numbers(table["consumer_protocol_checks_versions_from"])
    skips = _numbers(release) >= _numbers(table["transactions_skip_unknown_versions_from"])
    of_transactions: _Kind = "skips" if skips else "stops"
    of_others: _Kind = "stops" if checks else "misreads"
    return Coordinator(
        release=release,
        consumer_protocol=consumer_protocol,
        skips_unknown_types=_numbers(release) >= _numbers(table["skips_unknown_types_from"]),
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
        tagged=frozenset(entry["tagged"]),
        early_access=entry.get("early_access", False),
    )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
