"""A cluster at one moment, and what differs between two of them, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from featuregate.catalog import METADATA_VERSION, level_name
from featuregate.printable import shown
from featuregate.view.names import runs
from featuregate_relay.timeline.releases import release_of, release_title

if TYPE_CHECKING:
    from featuregate import Gate, View
    from featuregate.view.answers import BrokerAnswer

T = TypeVar("T")

TimelineKind = Literal["cluster", "level", "release", "broker", "gate"]
KINDS: Final[tuple[TimelineKind, ...]] = ("cluster", "level", "release", "broker", "gate")
_MOST_BROKERS: Final = 2000
_MOST_LEVELS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the timeline follows of a cluster."""

    cluster_id: str
    epoch: int
    levels: Mapping[str, int]
    releases: Mapping[str, str]
    """By id or address of the broker; of one that is away, the last that was known."""
    away: frozenset[str]
    """Brokers that do not answer."""
    gates: Mapping[str, bool]
    reachable: bool
    """Whether any broker answers."""


@dataclass(frozen=True, slots=True)
class Change:
    """One sentence on what has changed."""

    kind: TimelineKind
    text: str


def moment_of(view: View, gates: Iterable[Gate], before: Moment | None, *, reachable: bool) -> Moment:
    """Return the moment of a view. What was known before is kept of a broker that does not answer."""
    kept = before.releases if before is not None and before.cluster_id == (view.cluster_id or "") else {}
    known = {_name(broker): broker for broker in view.brokers[:_MOST_BROKERS]}
    return Moment(
        cluster_id=shown(view.cluster_id or ""),
        epoch=view.epoch,
        levels={shown(name): level for name, level in sorted(view.finalized.items())[:_MOST_LEVELS]},
        releases={name: release_of(one) if one.answered else kept.get(name, "") for name, one in known.items()},
        away=frozenset(name for name, one in known.items() if not one.answered),
        gates={gate.name: gate.open for gate in gates},
        reachable=reachable,
    )


def _name(broker: BrokerAnswer) -> str:
    return shown(broker.address) if broker.node_id is None else str(broker.node_id)


def moved(shared: Moment, before: Moment | None, after: Moment) -> Moment:
    """Return a moment that replicas share, with what one of them has seen change from one of its own to the next.

    The replica may have missed changes that others have written since, and may see a change after another replica.
    """
    if before is None or not before.cluster_id == after.cluster_id == shared.cluster_id:
        return after
    behind = before.epoch <= after.epoch < shared.epoch  # brokers that lag have answered this replica
    return Moment(
        cluster_id=shared.cluster_id,
        epoch=shared.epoch if behind else after.epoch,
        levels=shared.levels if behind else _moved(shared.levels, before.levels, after.levels),
        releases=_moved(shared.releases, before.releases, after.releases),
        away=(shared.away | (after.away - before.away)) - (before.away - after.away),
        gates=_moved(shared.gates, before.gates, after.gates),
        reachable=shared.reachable if before.reachable == after.reachable else after.reachable,
    )


def _moved(shared: Mapping[str, T], before: Mapping[str, T], after: Mapping[str, T]) -> Mapping[str, T]:
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return {name: value for name, value in {**shared, **changed}.items() if name in after or name not in before}


def changes(before: Moment | None, after: Moment) -> Iterator[Change]:
    """Yield what differs. A new epoch alone is not a change."""
    if before is None or before.cluster_id != after.cluster_id:
        yield Change("cluster", _first(before, after))
    else:
        yield from _reachable(before, after)
        yield from _levels(before.levels, after.levels)
        yield from _brokers(before, after)
    yield from _gates({} if before is None else before.gates, after.gates)


def _first(before: Moment | None, after: Moment) -> str:
    releases = {name: release_title(release) for name, release in after.releases.items()}
    brokers = "; ".join(f"{names}: {release}" for names, release in _together(releases))
    said = f"cluster {after.cluster_id or 'without an id'}: {brokers or 'no broker'}"
    return said if before is None else f"another cluster (was {before.cluster_id or 'without an id'}): {said}"


def _reachable(before: Moment, after: Moment) -> Iterator[Change]:
    if before.reachable != after.reachable:
        yield Change("cluster", "brokers answer again" if after.reachable else "no broker answers")


def _levels(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Change]:
    for feature in sorted({*before, *after}):
        was, level = before.get(feature, 0), after.get(feature, 0)
        if was != level:
            text = f"{feature} is finalized at {_level(feature, level)} (was {_level(feature, was)})"
            yield Change("level", text)


def _brokers(before: Moment, after: Moment) -> Iterator[Change]:
    came = {name: release for name, release in after.releases.items() if name not in before.releases}
    for names, release in _together(came):
        yield Change("broker", f"new: {names}, {release_title(release)}")
    for names, _ in _together(dict.fromkeys(before.releases.keys() - after.releases.keys(), "")):
        yield Change("broker", f"gone: {names}")
    stayed = after.releases.keys() & before.releases.keys()
    moved = {
        name: f"{release_title(after.releases[name])} (was {before.releases[name] or 'unknown'})"
        for name in stayed
        if after.releases[name] != before.releases[name]
    }
    for names, release in _together(moved):
        yield Change("release", f"{names}: {release}")
    for names, _ in _together(dict.fromkeys((after.away - before.away) & stayed, "")):
        yield Change("broker", f"no answer: {names}")
    for names, _ in _together(dict.fromkeys(((before.away - after.away) & stayed) - moved.keys(), "")):
        yield Change("broker", f"answers again: {names}")


def _gates(before: Mapping[str, bool], after: Mapping[str, bool]) -> Iterator[Change]:
    for name, is_open in after.items():
        if before.get(name, False) != is_open:
            yield Change("gate", f"gate {name} is {'open' if is_open else 'closed'}")


def _together(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each fact with the brokers of which it is true."""
    alike: dict[str, list[str]] = {}
    for name, fact in facts.items():
        alike.setdefault(fact, []).append(name)
    for fact, names in alike.items():
        numbers = runs(int(name) for name in names if name.isdecimal())
        others = sorted(name for name in names if not name.isdecimal())
        listed = ", ".join([numbers, *others] if numbers else others)
        yield f"{'broker' if len(names) == 1 else 'brokers'} {listed}", fact


def _level(feature: str, level: int) -> str:
    return level_name(feature, level) if level and feature == METADATA_VERSION else str(level)
