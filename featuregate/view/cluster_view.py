"""What a cluster can do, as one immutable value: the :class:`View`, and how texts name its brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from featuregate.budgets import LONGEST_TEXT, MOST_NAMED
from featuregate.catalog import METADATA_VERSION, api_key
from featuregate.printable import fit, some
from featuregate.values import dataclass, replace
from featuregate.view.answers import (
    ApiRange,
    BrokerAnswer,
    BrokerConfig,
    Failure,
    FrozenMap,
    SupportedRange,
    above_zero,
)

if TYPE_CHECKING:
    from featuregate.roles import BrokerListSource, Role


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
    """One immutable merged truth about a cluster. Picklable, and JSON in and out (docs/reference/views.md).

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
        object.__setattr__(self, "supported", FrozenMap.of(self.supported))
        object.__setattr__(self, "api_ranges", FrozenMap.of(self.api_ranges))
        object.__setattr__(self, "brokers", tuple(self.brokers))

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

    def feature(self, feature: str) -> SupportedRange | None:
        """Return the levels that every broker which answered can run, None where one of them does not report any.

        A broker that was asked below ApiVersions v4 leaves out features that start at 0.
        """
        return self.supported.get(feature)

    def api(self, api: str | int) -> ClusterApiRange | None:
        """Return the versions of an API that every broker which answered serves.

        None where a broker lacks it, or where ranges do not meet. ``TxnOffsetCommit``, ``TXN_OFFSET_COMMIT`` and 28
        are the same.

        Raises `UnknownApi`: no API has this name; the error shows close ones.
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
        from featuregate.view.json_text import text_of  # noqa: PLC0415 - most views stay in their process

        return text_of(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote.

        Raises `ViewJsonError`: it is not such JSON, or of a newer schema; the error says where.
        """
        from featuregate.view.json_text import fields_from_json  # noqa: PLC0415 - see to_json

        return cls(**fields_from_json(text))


def _content(view: View) -> tuple[object, ...]:
    return (
        view.cluster_id,
        view.role,
        view.broker_list,
        # Not controller_id: a KRaft broker names any live broker as the controller, another one each time.
        view.finalized if view.epoch >= 0 else None,
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
        broker.asked_version,
        {name: config.content for name, config in broker.configs.items()},
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


def members(brokers: Sequence[BrokerAnswer]) -> str:
    """Return the ids of brokers in short form, then the addresses of those without an id, as brokers say them."""
    numbers = runs(broker.node_id for broker in brokers if broker.node_id is not None)
    addresses = some((broker.address for broker in brokers if broker.node_id is None), separator=",")
    return ",".join(filter(None, [numbers, addresses]))


def named(brokers: Sequence[BrokerAnswer]) -> str:
    """Return how texts call these brokers: ``broker 2 (b2:9092)``, or ``brokers 1-3,7`` where there are several."""
    return brokers[0].name if len(brokers) == 1 else f"{brokers[0].role}s {members(brokers)}"


def failures(view: View) -> Mapping[Failure, Sequence[BrokerAnswer]]:
    """Return the brokers that did not answer, by their failure."""
    alike: dict[Failure, list[BrokerAnswer]] = {}
    for broker in view.brokers:
        if broker.failure is not None:
            alike.setdefault(broker.failure, []).append(broker)
    return alike


def runs(numbers: Iterable[int]) -> str:
    """Return the short form of a list of integers: 1, 2, 3 and 7 are ``1-3,7``. Of many runs it has the first ones."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found[:MOST_NAMED]]
    left = sum(run[-1] - run[0] + 1 for run in found[MOST_NAMED:])
    return ",".join(texts) + (f" and {left} more" if left else "")


def outside_support(view: View) -> dict[str, list[BrokerAnswer]]:
    """Return the features that are finalized below or above what brokers support, each with these brokers.

    Of a broker that leaves features out of ApiVersions v3 (KAFKA-17011), only the listed features count.
    """
    if view.epoch < 0:
        return {}
    outside = {
        name: [broker for broker in view.answering if not _supports(broker, name, level)]
        for name, level in sorted(view.finalized.items())
    }
    return {name: brokers for name, brokers in outside.items() if brokers}


def _supports(broker: BrokerAnswer, name: str, level: int) -> bool:
    supported = broker.can_run(name)
    return broker.hides_features if supported is None else supported.min <= level <= supported.max


def reports_no_levels(view: View) -> bool:
    """Return whether brokers answered, and none of them finalizes features: Kafka with ZooKeeper, or not Kafka.

    A KRaft broker lists ``metadata.version`` even where it does not know the finalized levels.
    """
    return bool(view.answering) and not any(
        broker.finalized or METADATA_VERSION in broker.supported for broker in view.answering
    )


V = TypeVar("V")


def with_printable_texts(view: View) -> View:
    """Return a view that a relay sent, with the texts that it would have if it came from brokers."""
    return replace(
        view,
        cluster_id=None if view.cluster_id is None else fit(view.cluster_id),
        supported=with_printable_names(view.supported),
        finalized=with_printable_names(view.finalized),
        brokers=tuple(_of_broker(broker) for broker in view.brokers),
    )


def _of_broker(broker: BrokerAnswer) -> BrokerAnswer:
    failure = broker.failure
    return replace(
        broker,
        host=fit(broker.host),
        supported=with_printable_names(broker.supported),
        finalized=with_printable_names(broker.finalized),
        configs=FrozenMap((fit(name), _of_config(config)) for name, config in broker.configs.items()),
        failure=failure and Failure(fit(failure.kind), fit(failure.text)),
    )


def _of_config(config: BrokerConfig) -> BrokerConfig:
    value = None if config.value is None else fit(config.value)
    return config._replace(value=value, problem=fit(config.problem))


def with_printable_names(content: Mapping[str, V]) -> Mapping[str, V]:
    """Escape the names of features; leave out blank ones, which no controller and no requirement takes for a name."""
    if all(name.isprintable() and name.strip() and len(name) <= LONGEST_TEXT for name in content):
        return content
    return FrozenMap((fit(name, LONGEST_TEXT), value) for name, value in content.items() if name.strip())
