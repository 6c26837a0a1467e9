"""The gates that would close if all brokers were rolled back to an older release. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from featuregate import Gate, View, evaluate
from featuregate.admin.no_return import oldest_release
from featuregate.catalog import captured, captured_releases
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.merging import merge
from featuregate_relay.timeline.releases import release_of

_MOST_RELEASES: Final = 15


class Closing(NamedTuple):
    """A gate that is open, and the newest older release with which its requirement is not met."""

    gate: str
    latched: bool
    """Whether the gate stays open nevertheless: it is sticky."""
    release: str
    """Empty: no release that is known, and that would start, closes it."""
    why: str


class BrokerRollback(NamedTuple):
    """What a rollback of the brokers does."""

    closings: tuple[Closing, ...]
    oldest: str
    """The oldest release that starts with the finalized levels, lowered as far as they go.

    Empty: any that is known does, or it is not known.
    """


def rollback_of(view: View, gates: Iterable[Gate]) -> BrokerRollback:
    """Return what a rollback does to each gate whose requirement is met now. Levels go down as far as they can.

    A release is represented by a real broker of it: see `featuregate.catalog.captured`.
    """
    oldest = oldest_release(view.finalized)
    if oldest is None:  # a level is newer than the table, so that it is not known what starts
        return BrokerRollback((), "")
    older = [(release, after) for release, after in _older(view) if not _is_before(release, oldest)]
    known = any(_is_before(release, oldest) for release in _releases_below(view))
    found = tuple(_closing(gate, older) for gate in gates if gate.decision.verdict == "open") if older else ()
    return BrokerRollback(found, oldest if known else "")


def _is_before(release: str, other: str) -> bool:
    return captured_releases().index(release) < captured_releases().index(other)


def _releases_below(view: View) -> tuple[str, ...]:
    """Return the releases below the newest one of the cluster, newest first."""
    releases = captured_releases()
    newest = max((releases.index(found) for each in view.answering if (found := release_of(each))), default=0)
    return releases[max(newest - _MOST_RELEASES, 0) : newest][::-1]


def _older(view: View) -> Iterator[tuple[str, View]]:
    """Yield older releases, newest first, each with the view after a rollback."""
    for release in _releases_below(view):
        facts = captured()[release]
        levels = {
            name: min(level, facts.features[name][1])
            for name, level in view.finalized.items()
            if name in facts.features
        }
        answer = BrokerAnswer(
            node_id=None,
            host="",
            port=0,
            api_ranges={key: ApiRange(*ends) for key, ends in facts.apis.items()},
            supported={name: SupportedRange(*ends) for name, ends in facts.features.items()},
            finalized=levels,
            epoch=view.epoch if facts.features else -1,
        )
        yield release, merge([answer], cluster_id=view.cluster_id, seen_at=view.seen_at)


def _closing(gate: Gate, older: Iterable[tuple[str, View]]) -> Closing:
    latched = gate.policy == "sticky"
    for release, view in older:
        decision = evaluate(view, gate.requirement)
        if not decision.open:
            worst = decision.sorted_reasons[0]
            return Closing(gate.name, latched, release, worst.condition)
    return Closing(gate.name, latched, "", "")
