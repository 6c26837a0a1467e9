"""The gates that would close if all brokers were rolled back to an older release. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate import evaluate
from featuregate.catalog import captured, captured_releases
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.merging import merge
from featuregate_relay.timeline.releases import release_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from featuregate import Gate, View

_MOST_RELEASES: Final = 15


class Closing(NamedTuple):
    """A gate that is open, and the newest older release with which its requirement is not met."""

    gate: str
    latched: bool
    """Whether the gate stays open nevertheless: it is sticky."""
    release: str
    """Empty: no release that is known closes it."""
    why: str


def closings(view: View, gates: Iterable[Gate]) -> list[Closing]:
    """Return what a rollback does to each gate whose requirement is met now. Finalized levels go down as far as needed.

    A release is represented by a real broker of it: see `featuregate.catalog.captured`.
    """
    older = list(_older(view))
    return [_closing(gate, older) for gate in gates if older and gate.decision.verdict == "open"]


def _older(view: View) -> Iterator[tuple[str, View]]:
    """Yield the releases below the newest one of the cluster, newest first, each with the view after a rollback."""
    releases = captured_releases()
    newest = max((releases.index(found) for each in view.answering if (found := release_of(each))), default=0)
    for release in releases[max(newest - _MOST_RELEASES, 0) : newest][::-1]:
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
