"""The checks of finalized levels (KIP-584, KIP-778, KIP-1022), by the rules of the controllers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from featuregate.admin.no_return import WHAT_TO_DO, in_log
from featuregate.admin.prediction import ClusterState, Prediction, predict
from featuregate.admin.updates import Update
from featuregate.catalog import METADATA_VERSION, CapturedRelease, effects_of, level_name
from featuregate_fleet.readiness.checks.record_checks import gaps_in_records, members_of
from featuregate_fleet.readiness.evidence import Evidence, LevelAt
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.readiness.moves import Deprecate, Finalize

_PROTOCOLS: Final = {"group.version": "consumer", "share.version": "share", "streams.version": "streams"}
"""What brokers serve only where a feature is at 1 or higher."""
_OLDEST_WITH_ZOOKEEPER: Final = 1
"""The oldest metadata.version that releases support which run with ZooKeeper, too; from 4.0 on none does (KIP-833)."""
_ASK_AGAIN: Final = "Run 'featuregate fleet run' with --bootstrap-server again."
_ASK_NOW: Final = "Give --bootstrap-server to 'featuregate readiness', which asks them now."
_SNAPSHOTS_BY: Final = timedelta(days=1)
"""Until then nodes have written a snapshot by themselves: metadata.log.max.snapshot.interval.ms, an hour by default."""
PREDICTIONS: Final = "feature-levels"
"""The check of what the controller would say."""


def brokers(view: View, oldest: datetime) -> Iterator[Row]:
    """Check that all brokers answered when the cluster was asked last, and that this is not too long ago."""
    if _asked_at(view) < oldest:
        why = "Its brokers were asked for their levels too long ago: an operator may have raised some since then."
        yield _row(view, Verdict.STALE, "the cluster", why, _ASK_NOW, check="brokers")
    for broker in view.missing:
        why = f"It did not answer: {broker.failure.text if broker.failure else 'nothing is known of it'}."
        do = "Run 'featuregate fleet run' with --bootstrap-server again when it is back."
        yield _row(view, Verdict.UNKNOWN, broker.name, why, do, check="brokers")


def finalized_levels(view: View, target: CapturedRelease) -> Iterator[Row]:
    """Check that brokers of a release can run at the finalized levels: otherwise they do not start (KIP-778)."""
    oldest = target.features.get(METADATA_VERSION, (0, 0))[0]
    kraft_alone = oldest > _OLDEST_WITH_ZOOKEEPER
    if kraft_alone and any(METADATA_VERSION not in broker.supported for broker in view.answering):
        why = (
            f"It runs with ZooKeeper, because not all brokers support {METADATA_VERSION}; Kafka {target.release} runs "
            "with KRaft alone."
        )
        do = (
            "Before, migrate the cluster to KRaft with a release that runs with both, such as 3.9 (KIP-866), and "
            f"finalize {METADATA_VERSION} {_named(METADATA_VERSION, oldest)} or higher there."
        )
        yield _row(view, Verdict.BLOCK, "the cluster", why, do)
        return
    if view.epoch < 0:
        if kraft_alone or view.api("UpdateFeatures"):
            yield _row(view, Verdict.UNKNOWN, "the cluster", "No broker reports finalized levels.", _ASK_AGAIN)
        return
    needed = {METADATA_VERSION: 0} if kraft_alone else {}
    for feature, level in sorted((needed | dict(view.finalized)).items()):
        lowest, highest = target.features.get(feature, (0, 0))
        if lowest <= level <= highest:
            why = f"Kafka {target.release} supports {_span(feature, lowest, highest)}."
            yield _row(view, Verdict.OK, _change(feature, level), why)
        else:
            yield _unsupported(view, target, feature, level)


def logged_levels(evidence: Evidence, view: View, target: CapturedRelease) -> Iterator[Row]:
    """Check whether a level that was lowered may be in the metadata log still: older controllers do not start with it.

    The rule is that of :mod:`featuregate.admin.no_return`.
    """
    for feature in sorted({one.feature for one in evidence.levels}):
        lowest, highest = target.features.get(feature, (0, 0))
        # A run whose brokers report no levels does not show that one was lowered.
        known = (one for one in evidence.levels if one.feature == feature and one.level is not None)
        levels = (*sorted(known, key=attrgetter("at")), LevelAt(feature, view.level(feature), _asked_at(view)))
        lowered = [(before, after) for before, after in pairwise(levels) if (before.level or 0) > highest]
        if not lowered or not lowest <= (view.level(feature) or 0) <= highest:
            continue
        before, after = lowered[-1]
        subject, controller = _change(feature, before.level or 0), f"a controller of Kafka {target.release}"
        why = f"It was lowered before {after.at:%Y-%m-%d %H:%M} UTC, and {in_log(controller)}."
        do = f"{WHAT_TO_DO[0].upper()}{WHAT_TO_DO[1:]}."
        verdict = Verdict.UNKNOWN if _asked_at(view) - after.at < _SNAPSHOTS_BY else Verdict.WARN
        yield _row(view, verdict, subject, why, do, check="metadata-log")


def _unsupported(view: View, target: CapturedRelease, feature: str, level: int) -> Row:
    lowest, highest = target.features.get(feature, (0, 0))
    needed = highest if level > highest else lowest
    said = _predicted(view, feature, needed)
    verb, gain = ("downgrade", "loses nothing") if needed < level else ("upgrade", "is accepted")
    change, wait = _change(feature, needed), f" Then {WHAT_TO_DO}." if needed < level else ""
    before = f"Before, run 'featuregate {verb} --feature {feature}={needed}'"
    if said.judgement == "accepted":
        do = f"{before}, which {gain}.{wait}"
    elif said.text == ClusterState.of(view, None).unasked:
        do = f"{before}; 'featuregate plan --controllers' says whether controllers accept it.{wait}"
    elif said.judgement == "refused":
        do = f"There is no way: the controller refuses {change}. {said.text}"
    else:
        do = f"It is not known whether the controller accepts {change}: {said.text}."
    span = f"no {feature}" if (lowest, highest) == (0, 0) else _span(feature, lowest, highest)
    why = f"Kafka {target.release} supports {span}, and its brokers do not start with another level."
    return _row(view, Verdict.BLOCK, _change(feature, level), why, do)


def finalize(evidence: Evidence, view: View, move: Finalize, oldest: datetime) -> Iterator[Row]:
    """Check whether the controller accepts a level, and whether that takes a protocol from members of groups."""
    current = view.level(move.feature)
    subject = _change(move.feature, move.level)
    if current == move.level:
        yield _row(view, Verdict.OK, subject, "It is finalized already.")
        return
    said = _predicted(view, move.feature, move.level)
    if said.judgement == "accepted":
        yield _row(view, Verdict.OK, subject, f"The controller accepts it, from {_named(move.feature, current)}.")
    elif said.judgement == "refused":
        why = f"The controller refuses it: {said.text}"
        yield _row(view, Verdict.BLOCK, subject, why, "Do first what it asks for.")
    elif said.text == ClusterState.of(view, None).unasked:
        why = (
            f"Brokers can run it, from {_named(move.feature, current)}. Controllers were not asked: one may refuse it."
        )
        yield _row(view, Verdict.WARN, subject, why, "Ask them: 'featuregate plan --controllers'.")
    else:
        yield _row(view, Verdict.UNKNOWN, subject, f"{said.text}.", "Ask the controller: 'featuregate plan'.")
    if changed := sorted({each.name for each in effects_of(move.feature, current or 0, move.level)}):
        why = f"It changes {' and '.join(changed)}, and lowering it again does not restore that."
        yield _row(view, Verdict.WARN, subject, why, "See the values of brokers and topics: 'featuregate plan'.")
    protocol = _PROTOCOLS.get(move.feature)
    if move.level == 0 and protocol:
        yield from gaps_in_records(evidence, oldest)
        yield from members_of(evidence, protocol, move.target)


def deprecate(view: View, move: Deprecate) -> Iterator[Row]:
    """Check that the cluster itself runs above the level that is not supported any more."""
    current = view.level(move.feature)
    subject = _change(move.feature, move.level)
    if current is None:
        yield _row(view, Verdict.UNKNOWN, subject, "No broker reports finalized levels.")
    elif current <= move.level:
        why = f"The cluster runs at {_named(move.feature, current)}."
        yield _row(view, Verdict.BLOCK, subject, why, "Finalize a higher level first: ask --finalize.")
    else:
        yield _row(view, Verdict.OK, subject, f"The cluster runs at {_named(move.feature, current)}.")


def no_levels() -> Row:
    """Return the row of a move that cannot be judged without the finalized levels."""
    why, do = "The tables have no finalized levels.", "Run 'featuregate fleet run' with --bootstrap-server."
    return Row(PREDICTIONS, Verdict.UNKNOWN, "the cluster", why, do)


def _predicted(view: View, feature: str, level: int) -> Prediction:
    lowers = level < (view.level(feature) or 0)
    update = Update(feature, level, "safe_downgrade" if lowers or not level else "upgrade")
    return predict([update], ClusterState.of(view, None))[0]


def _row(view: View, verdict: Verdict, subject: str, why: str, do: str = "", *, check: str = PREDICTIONS) -> Row:
    return Row(check, verdict, subject, why, do, last_seen=_asked_at(view))


def _asked_at(view: View) -> datetime:
    return datetime.fromtimestamp(view.seen_at, UTC)


def _change(feature: str, level: int) -> str:
    return f"{feature}={_named(feature, level)}"


def _span(feature: str, lowest: int, highest: int) -> str:
    return f"{_named(feature, lowest)} to {_named(feature, highest)}"


def _named(feature: str, level: int | None) -> str:
    if level is None:
        return "a level that is not known"
    return level_name(feature, level) if level else "0"
