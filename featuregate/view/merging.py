"""Merge the answers of brokers into one view. Pure; the order of the answers never matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from featuregate.values import fields, replace
from featuregate.view.answers import ApiRange, BrokerAnswer, FrozenMap, SupportedRange
from featuregate.view.cluster_view import View

if TYPE_CHECKING:
    from featuregate.roles import BrokerListSource, Role

K = TypeVar("K")
R = TypeVar("R", ApiRange, SupportedRange)


def merge(
    answers: Iterable[BrokerAnswer],
    *,
    cluster_id: str | None,
    controller_id: int | None = None,
    broker_list: BrokerListSource = "cluster",
    role: Role = "broker",
    previous: View | None = None,
    seen_at: float,
) -> View:
    """Merge the answers of all known brokers of a cluster, in any order, with the view before.

    - Finalized levels are those of the highest epoch, ``previous`` included if it is of the same
      cluster and role. At an equal epoch a new answer beats ``previous``, because controllers may change content
      without a new epoch (``kraft.version``); among new ones the later beats the earlier, then the higher node id. A
      negative epoch never enters. Another cluster id starts afresh; no id (Kafka before 0.10.1) equals no id only.
    - API ranges and supported ranges are intersections over the brokers that answered. What one of them lacks is
      absent, and so is what has no version in common.
    - Answers of the other role are left out. Of two answers from one node at one address, one counts: that which
      answered, then the later.
    - Brokers that answer alike share the objects that hold their answers, with ``previous`` too, so a view of 1,000
      brokers of one release holds their 75 API ranges once.

    ``answers`` has one for each known broker, silent ones included. ``seen_at``: seconds since the Unix epoch.
    """
    before = previous if previous is not None and (previous.cluster_id, previous.role) == (cluster_id, role) else None
    brokers = _known(answers, role, before)
    answering = [broker for broker in brokers if broker.answered]
    epoch, finalized = _newest(answering, before)
    return View(
        cluster_id=cluster_id,
        role=role,
        epoch=epoch,
        finalized=finalized,
        supported=_common(answering, before, "supported", BrokerAnswer.can_run, SupportedRange),
        api_ranges=_common(answering, before, "api_ranges", BrokerAnswer.serves, ApiRange),
        brokers=brokers,
        broker_list=broker_list,
        controller_id=controller_id,
        seen_at=seen_at,
    )


def _known(answers: Iterable[BrokerAnswer], role: Role, before: View | None) -> tuple[BrokerAnswer, ...]:
    """Take one answer for each broker, sorted, and let equal content be one object."""
    by_place: dict[tuple[int | None, str, int], BrokerAnswer] = {}
    for answer in answers:
        if answer.role == role:
            place = answer.node_id, answer.host, answer.port
            other = by_place.setdefault(place, answer)
            by_place[place] = other if other is answer else max(other, answer, key=_preference)
    pool = {said: said for broker in (before.brokers if before else ()) for said in _shareable(broker).values()}
    chosen = sorted(by_place.values(), key=lambda b: (b.node_id is None, b.node_id or 0, b.host, b.port))
    return tuple(_shared(broker, pool) for broker in chosen)


def _preference(answer: BrokerAnswer) -> tuple[bool, float, int, str]:
    """Order answers of one broker. The text of all fields breaks ties, so that the order of answers cannot."""
    text = repr([getattr(answer, field.name) for field in fields(answer)])
    return answer.answered, answer.answered_at, answer.epoch, text


def _shared(broker: BrokerAnswer, pool: dict[object, Any]) -> BrokerAnswer:
    return replace(broker, **{name: pool.setdefault(said, said) for name, said in _shareable(broker).items()})


def _shareable(broker: BrokerAnswer) -> dict[str, Any]:
    return {name: getattr(broker, name) for name in ("api_ranges", "supported", "finalized", "configs")}


def _newest(answering: list[BrokerAnswer], before: View | None) -> tuple[int, Mapping[str, int]]:
    reporting = [broker for broker in answering if broker.epoch >= 0]
    newest = max(reporting, key=_recency, default=None)
    if before is not None and before.epoch >= 0 and (newest is None or newest.epoch < before.epoch):
        return before.epoch, before.finalized
    return (newest.epoch, newest.finalized) if newest else (-1, FrozenMap())


def _recency(broker: BrokerAnswer) -> tuple[Any, ...]:
    node_id = -1 if broker.node_id is None else broker.node_id
    return broker.epoch, broker.answered_at, node_id, broker.host, broker.port


def _common(
    answering: Iterable[BrokerAnswer],
    before: View | None,
    field: str,
    means: Callable[[BrokerAnswer, K], R | None],
    of: type[R],
) -> Mapping[K, R]:
    """Intersect the ranges of all brokers, each by its meaning rather than by its numbers."""
    said: Callable[[BrokerAnswer | View], Mapping[K, R]] = attrgetter(field)
    # Most brokers answer alike, so one stands for all of them; and most polls find what the last one found.
    distinct = {said(broker): broker for broker in answering}
    if before is not None and distinct.keys() == set(map(said, before.answering)):
        return said(before)
    common: dict[K, R] = {}
    for key in sorted(next(iter(distinct), ())):  # type: ignore[type-var]  # keys are all int, or all str
        ranges = [meant for broker in distinct.values() if (meant := means(broker, key)) is not None]
        if len(ranges) == len(distinct):
            met = of(max(each.min for each in ranges), min(each.max for each in ranges))
            if met.min <= met.max:
                common[key] = met
    return FrozenMap(common)
