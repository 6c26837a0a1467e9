"""Many answers, one truth: :func:`merge` makes a :class:`View`. Pure; the order of answers never matters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from featuregate.catalog import api_key
from featuregate.view.answers import ApiRange, BrokerAnswer, FrozenMap, SupportedRange, above_one, above_zero
from featuregate.view.json_text import fields_from_json, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from featuregate.roles import BrokerListSource, Role
    from featuregate.view.json_text import ViewFields

__all__ = ["ClusterApiRange", "View", "merge"]

K = TypeVar("K")
R = TypeVar("R", ApiRange, SupportedRange)


class ClusterApiRange(ApiRange):
    """The versions of one API that every broker which answered serves. Equal to the tuple ``(min, max)``."""

    incomplete: bool
    """Whether a known broker did not answer, so that the true range may be smaller or empty."""

    def __new__(cls, min: int, max: int, *, incomplete: bool) -> Self:  # noqa: A002 - ApiRange's names
        """Add the one thing that a broker's own range has not."""
        made = super().__new__(cls, min, max)
        made.incomplete = incomplete
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[int, int], dict[str, bool]]:
        return (self.min, self.max), {"incomplete": self.incomplete}

    def __repr__(self) -> str:
        return f"ClusterApiRange(min={self.min}, max={self.max}, incomplete={self.incomplete})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class View:
    """One immutable merged truth about a cluster. Picklable, and JSON in and out (docs/reference/view-json.md).

    ``==`` compares everything, times too; see :meth:`same_content` for whether something changed.
    """

    cluster_id: str | None
    """None: the cluster has none (before 0.10.1), or no broker was asked for it (a bootstrap broker list)."""
    role: Role = "broker"
    """Whose answers these are. Brokers and controllers are merged apart."""
    epoch: int = -1
    """The order of ``finalized``; -1 where no broker has reported any. In KRaft it rises all the time."""
    finalized: Mapping[str, int] = FrozenMap()
    """Feature to the level that the cluster agreed on. Absence means 0, if ``epoch`` is 0 or higher."""
    finalized_min: Mapping[str, int] = FrozenMap()
    """Feature to the lowest level that the cluster still serves, for the features of which it has deprecated levels
    (KIP-584). Empty where nothing is deprecated, as always in KRaft: see `BrokerAnswer.deprecated_below`."""
    supported: Mapping[str, SupportedRange] = FrozenMap()
    """Feature to the levels that every broker which answered can run."""
    api_ranges: Mapping[int, ApiRange] = FrozenMap()
    """API key to the versions that every broker which answered serves."""
    brokers: tuple[BrokerAnswer, ...] = ()
    """All known brokers, by id and address, those that did not answer included."""
    broker_list: BrokerListSource = "cluster"
    """Where the list of brokers came from."""
    controller_id: int | None = None
    seen_at: float = 0.0
    """Seconds since the Unix epoch, by the clock of this machine."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "finalized", above_zero(self.finalized))
        object.__setattr__(self, "finalized_min", above_one(self.finalized_min, self.finalized))
        object.__setattr__(self, "supported", FrozenMap.of(self.supported))
        object.__setattr__(self, "api_ranges", FrozenMap.of(self.api_ranges))

    def __repr__(self) -> str:
        answered = len(self.brokers) - len(self.missing)
        return (
            f"<View of cluster {self.cluster_id}: {answered} of {len(self.brokers)} {self.role}s, epoch {self.epoch}>"
        )

    @property
    def missing(self) -> tuple[BrokerAnswer, ...]:
        """The known brokers that did not answer."""
        return tuple(broker for broker in self.brokers if not broker.answered)

    @property
    def answering(self) -> tuple[BrokerAnswer, ...]:
        """The known brokers that answered."""
        return tuple(broker for broker in self.brokers if broker.answered)

    @property
    def incomplete(self) -> bool:
        """Whether a known broker did not answer, or none is known at all."""
        return not self.brokers or bool(self.missing)

    @property
    def mixed(self) -> bool:
        """Whether brokers differ in what they support or serve, as they do while a roll is in progress."""
        answering = self.answering
        return len({broker.api_ranges for broker in answering}) > 1 or len({b.supported for b in answering}) > 1

    def level(self, feature: str) -> int | None:
        """Return the finalized level of a feature: 0 where it is absent, None where that is unknown.

        Unknown means that no broker has ever reported an epoch: Kafka before 2.7, or no finalized feature.
        """
        return None if self.epoch < 0 else self.finalized.get(feature, 0)

    def lowest_level(self, feature: str) -> int | None:
        """Return the lowest level of a feature that clients may still use, None where that is unknown.

        1 where no level is deprecated; 0 where the feature is absent, so that no level is served.
        """
        level = self.level(feature)
        return self.finalized_min.get(feature, 1) if level else level

    def feature(self, feature: str) -> SupportedRange | None:
        """Return the levels that every broker which answered can run, None where one of them does not report any.

        A broker that was asked below ApiVersions v4 leaves out features that start at 0.
        """
        return self.supported.get(feature)

    def api(self, api: str | int) -> ClusterApiRange | None:
        """Return the versions of an API that every broker which answered serves.

        None where a broker lacks it, or where ranges do not meet. ``TxnOffsetCommit``, ``TXN_OFFSET_COMMIT`` and 28
        are the same.

        Raises
        ------
        UnknownApi
            No API has this name; the error shows close ones.
        """
        common = self.api_ranges.get(api_key(api))
        return None if common is None else ClusterApiRange(common.min, common.max, incomplete=self.incomplete)

    def same_content(self, other: View) -> bool:
        """Return whether two views have the same content: all but their epochs, times and controller.

        Of a broker that did not answer the kind of its failure counts, not its text, which may hold times too.
        """
        return self is other or _content(self) == _content(other)

    def to_json(self) -> str:
        """Return the view as one line of JSON, by schema version 1."""
        fields: ViewFields = {
            "cluster_id": self.cluster_id,
            "role": self.role,
            "epoch": self.epoch,
            "finalized": self.finalized,
            "finalized_min": self.finalized_min,
            "supported": self.supported,
            "api_ranges": self.api_ranges,
            "brokers": self.brokers,
            "broker_list": self.broker_list,
            "controller_id": self.controller_id,
            "seen_at": self.seen_at,
        }
        return text_of(fields, incomplete=self.incomplete)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        ViewJsonError
            It is no such JSON, or of a newer schema; the error says where.
        """
        return cls(**fields_from_json(text))


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

    - Finalized levels, lowest and highest, are those of the highest epoch, ``previous`` included if it is of the same
      cluster and role. At
      an equal epoch a new answer beats ``previous``, because controllers may change content without a new epoch
      (``kraft.version``); among new ones the later beats the earlier, then the higher node id. A negative epoch never
      enters. Another cluster id starts afresh; no id (Kafka before 0.10.1) is the same as no id only.
    - API ranges and supported ranges are intersections over the brokers that answered. What one of them lacks is
      absent, and so is what has no version in common.
    - Answers of the other role are left out. Of two answers from one node at one address, one counts: that which
      answered, then the later.
    - Brokers that say the same share the objects that hold it, with ``previous`` too, so a view of 1,000 brokers of
      one release holds their 75 API ranges once.

    Parameters
    ----------
    answers
        One for each known broker, silent ones included.
    seen_at
        Seconds since the Unix epoch.
    """
    before = previous if previous is not None and (previous.cluster_id, previous.role) == (cluster_id, role) else None
    brokers = _known(answers, role, before)
    answering = [broker for broker in brokers if broker.answered]
    epoch, finalized, finalized_min = _newest(answering, before)
    return View(
        cluster_id=cluster_id,
        role=role,
        epoch=epoch,
        finalized=finalized,
        finalized_min=finalized_min,
        supported=_supported(answering, before),
        api_ranges=_api_ranges(answering, before),
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
    pool: dict[object, Any] = {}
    for broker in before.brokers if before else ():
        pool |= {said: said for said in (broker.api_ranges, broker.supported, broker.finalized, broker.finalized_min)}
    chosen = sorted(by_place.values(), key=lambda b: (b.node_id is None, b.node_id or 0, b.host, b.port))
    return tuple(_shared(broker, pool) for broker in chosen)


def _preference(answer: BrokerAnswer) -> tuple[bool, float, int, str]:
    """Order answers of one broker. The text breaks ties, so that the order of answers cannot."""
    return answer.answered, answer.answered_at, answer.epoch, repr(answer)


def _shared(broker: BrokerAnswer, pool: dict[object, Any]) -> BrokerAnswer:
    return replace(
        broker,
        api_ranges=pool.setdefault(broker.api_ranges, broker.api_ranges),
        supported=pool.setdefault(broker.supported, broker.supported),
        finalized=pool.setdefault(broker.finalized, broker.finalized),
        finalized_min=pool.setdefault(broker.finalized_min, broker.finalized_min),
    )


def _newest(answering: list[BrokerAnswer], before: View | None) -> tuple[int, Mapping[str, int], Mapping[str, int]]:
    reporting = [broker for broker in answering if broker.epoch >= 0]
    newest = max(reporting, key=_recency, default=None)
    if before is not None and before.epoch >= 0 and (newest is None or newest.epoch < before.epoch):
        return before.epoch, before.finalized, before.finalized_min
    return (newest.epoch, newest.finalized, newest.deprecated_below) if newest else (-1, FrozenMap(), FrozenMap())


def _recency(broker: BrokerAnswer) -> tuple[Any, ...]:
    node_id = -1 if broker.node_id is None else broker.node_id
    return broker.epoch, broker.answered_at, node_id, broker.host, broker.port


def _supported(answering: Iterable[BrokerAnswer], before: View | None) -> Mapping[str, SupportedRange]:
    # Most brokers answer alike, so one stands for all of them; and most polls find what the last one found.
    distinct = {broker.supported: broker for broker in answering}
    if before is not None and distinct.keys() == {broker.supported for broker in before.answering}:
        return before.supported
    return _common(distinct, BrokerAnswer.can_run, SupportedRange)


def _api_ranges(answering: Iterable[BrokerAnswer], before: View | None) -> Mapping[int, ApiRange]:
    distinct = {broker.api_ranges: broker for broker in answering}
    if before is not None and distinct.keys() == {broker.api_ranges for broker in before.answering}:
        return before.api_ranges
    return _common(distinct, BrokerAnswer.serves, ApiRange)


def _common(
    distinct: Mapping[Mapping[K, R], BrokerAnswer], means: Callable[[BrokerAnswer, K], R | None], of: type[R]
) -> FrozenMap[K, R]:
    """Intersect the ranges of all brokers, each by its meaning rather than by its numbers."""
    common: dict[K, R] = {}
    for key in sorted(next(iter(distinct), ())):  # type: ignore[type-var]  # keys are all int, or all str
        ranges = [meant for broker in distinct.values() if (meant := means(broker, key)) is not None]
        if len(ranges) == len(distinct):
            met = of(max(each.min for each in ranges), min(each.max for each in ranges))
            if met.min <= met.max:
                common[key] = met
    return FrozenMap(common)


def _content(view: View) -> tuple[object, ...]:
    return (
        view.cluster_id,
        view.role,
        view.broker_list,
        # Not controller_id: a KRaft broker names any live broker as the controller, another one each time.
        (view.finalized, view.finalized_min) if view.epoch >= 0 else None,
        view.supported,
        view.api_ranges,
        tuple(broker_content(view, broker) for broker in view.brokers),
    )


def broker_content(view: View, broker: BrokerAnswer) -> tuple[object, ...]:
    """Return what counts as content of one answer: no times, and of the epoch only whether there is one.

    Of its finalized levels those count in which it differs from the cluster, so that a level which moves everywhere
    is one change.
    """
    return (
        (broker.node_id, broker.host, broker.port),
        broker.api_ranges,
        broker.supported,
        broker.epoch >= 0,
        lagging(view, broker),
        lagging_min(view, broker),
        broker.asked_version,
        broker.failure and broker.failure.kind,
    )


def lagging(view: View, broker: BrokerAnswer) -> Mapping[str, int]:
    """Return the levels that one broker reports and the cluster does not: it has not learned of the change yet."""
    if broker.epoch < 0 or broker.finalized == view.finalized:
        return {}
    return {
        feature: level
        for feature in sorted({*broker.finalized, *view.finalized})
        if (level := broker.finalized.get(feature, 0)) != view.finalized.get(feature, 0)
    }


def lagging_min(view: View, broker: BrokerAnswer) -> Mapping[str, int]:
    """Return the lowest levels that one broker reports and the cluster does not; 1 deprecates nothing."""
    if broker.epoch < 0 or (said := broker.deprecated_below) == view.finalized_min:
        return {}
    return {
        feature: lowest
        for feature in sorted({*said, *view.finalized_min} & broker.finalized.keys())
        if (lowest := said.get(feature, 1)) != view.finalized_min.get(feature, 1)
    }
