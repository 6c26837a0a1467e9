"""One broker's answer, or why there is none, as a value; and the only way from a message to it.

What a broker says is kept as it says it, lies included, so that people can read it. Judging is done by
:meth:`BrokerAnswer.serves` and :meth:`BrokerAnswer.can_run`: a range that no version satisfies, such as (5, 2) or
(-3, -1), serves nothing, and a negative minimum counts as 0. So a lie can keep something closed, and opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from featuregate.values import dataclass

K = TypeVar("K")
V = TypeVar("V")


if TYPE_CHECKING:
    from featuregate.roles import Role

_PRODUCE: Final = 0
_FETCH: Final = 1
_PRODUCE_TRUE_MIN: Final = 3
_FETCH_MIN_SINCE_KIP_896: Final = 4
_ALL_SUPPORTED_FROM: Final = 4
_FEATURES_FROM: Final = 3


class FrozenMap(Mapping[K, V]):
    """An immutable mapping. Hashable and picklable, unlike ``types.MappingProxyType``; equal to a dict."""

    __slots__ = ("_content", "_hash")

    def __init__(self, content: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._content: dict[K, V] = dict(content)
        self._hash: int | None = None

    @classmethod
    def of(cls, content: Mapping[K, V]) -> FrozenMap[K, V]:
        """Freeze a mapping, or return it as it is if it is frozen already."""
        return content if isinstance(content, FrozenMap) else cls(content)

    def __getitem__(self, key: K) -> V:
        return self._content[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return self is other or self._content == other._content
        return self._content == other if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._content.items()))
        return self._hash

    def __repr__(self) -> str:
        return repr(self._content)

    def __reduce__(self) -> tuple[type[FrozenMap[K, V]], tuple[dict[K, V]]]:
        # Not the hash: that of a string is another one in each process.
        return FrozenMap, (self._content,)


class ApiRange(NamedTuple):
    """The lowest and the highest version of one API at one broker, both included."""

    min: int
    max: int


class SupportedRange(NamedTuple):
    """The lowest and the highest level of one feature that a broker can run, both included."""

    min: int
    max: int


class BrokerConfig(NamedTuple):
    """One config of a broker, of which a requirement depends."""

    value: str | None
    """None: unknown, for example without DESCRIBE_CONFIGS on the cluster."""
    problem: str = ""
    """Why it is unknown."""
    exists: bool = True
    """False: the broker showed its configs, and has none of this name."""

    @property
    def content(self) -> tuple[str | None, bool]:
        """All but the text of the problem, which may differ from one look to the next."""
        return self.value, self.exists


class Failure(NamedTuple):
    """Why a broker gave no usable answer."""

    kind: str
    """For programs: the name of our error (``TimedOut``), Kafka's name of its error code (``REBOOTSTRAP_REQUIRED``),
    or ``Unlisted`` for a broker that the cluster does not list any more."""
    text: str
    """For people, without the address of the broker. It may differ from one look to the next while the kind stays."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BrokerAnswer:
    """The answer of one broker to ApiVersions, or why there is none. A silent broker is data, not an exception."""

    node_id: int | None
    """None where only the address is known: in a bootstrap broker list."""
    host: str
    port: int
    role: Role = "broker"
    api_ranges: Mapping[int, ApiRange] = FrozenMap()
    """By API key, as the broker reports it. Brokers that report the same share one object once they are merged."""
    supported: Mapping[str, SupportedRange] = FrozenMap()
    """By feature name, as the broker reports it."""
    finalized: Mapping[str, int] = FrozenMap()
    """By feature name, the highest finalized level (``MaxVersionLevel``, all that Kafka's own client keeps), above 0.
    Means nothing while ``epoch`` is negative."""
    configs: Mapping[str, BrokerConfig] = FrozenMap()
    """The configs for which the broker was asked, because a requirement depends on them."""
    epoch: int = -1
    """The order of ``finalized``; -1 for unknown."""
    asked_version: int | None = None
    """The version of ApiVersions that was answered. Below 3 there are no features; 3 hides supported features whose
    minimum is 0 (KAFKA-17011)."""
    answered_at: float = 0.0
    """Seconds since the Unix epoch, by the clock of this machine."""
    failure: Failure | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "api_ranges", FrozenMap.of(self.api_ranges))
        object.__setattr__(self, "supported", FrozenMap.of(self.supported))
        object.__setattr__(self, "finalized", above_zero(self.finalized))
        object.__setattr__(self, "configs", FrozenMap.of(self.configs))

    def __repr__(self) -> str:
        named = self.role if self.node_id is None else f"{self.role} {self.node_id}"
        if self.failure is not None:
            said = f"no answer: {self.failure.kind}: {self.failure.text}"
        else:
            said = f"{len(self.api_ranges)} APIs, {len(self.supported)} features, epoch {self.epoch}"
        return f"<{named} at {self.host}:{self.port}: {said}>"

    @property
    def answered(self) -> bool:
        """Whether there is an answer to judge."""
        return self.failure is None

    @property
    def address(self) -> str:
        """``host:port``, with brackets around an IPv6 literal."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """How texts call it: ``broker 2 (b2:9092)``, or ``broker b2:9092`` where its id is not known."""
        return f"{self.role} {self.address}" if self.node_id is None else f"{self.role} {self.node_id} ({self.address})"

    @property
    def hides_features(self) -> bool:
        """Whether a feature may be supported though ``supported`` lacks it: the broker was asked below version 4."""
        return self.asked_version is not None and _FEATURES_FROM <= self.asked_version < _ALL_SUPPORTED_FROM

    def serves(self, key: int) -> ApiRange | None:
        """Return the versions of an API that this broker really serves, None if there is none; see `served`."""
        return served(self.api_ranges, key)

    def can_run(self, feature: str) -> SupportedRange | None:
        """Return the levels of a feature that this broker can run, None if it does not report any."""
        said = self.supported.get(feature)
        if said is None or said.max < max(said.min, 0):
            return None
        return SupportedRange(max(said.min, 0), said.max)


def above_zero(finalized: Mapping[str, int]) -> FrozenMap[str, int]:
    """Leave out finalized levels of 0 and below, which mean the same as absence (Kafka never sends 0)."""
    if isinstance(finalized, FrozenMap) and all(level > 0 for level in finalized.values()):
        return finalized
    return FrozenMap((feature, level) for feature, level in finalized.items() if level > 0)


def unlisted(broker: BrokerAnswer, *, seconds: float) -> BrokerAnswer:
    """Say that a broker that was known is not listed any more, for ``seconds`` so far: a silent one from then on."""
    since = f"for {seconds:.0f} s" if seconds >= 1 else "any more"
    return BrokerAnswer(
        node_id=broker.node_id,
        host=broker.host,
        port=broker.port,
        role=broker.role,
        answered_at=broker.answered_at,
        failure=Failure("Unlisted", f"not listed by the cluster {since}; it may come back"),
    )


def served(api_ranges: Mapping[int, ApiRange], key: int) -> ApiRange | None:
    """Return the versions of an API that a broker with these ranges really serves, None if there is none.

    A broker of Kafka 4.0 or newer advertises Produce from 0, for the sake of old librdkafka, and rejects what is below
    3 (KAFKA-18659). It is recognised by its Fetch, which the same release cut to 4 and newer (KIP-896) and which it
    advertises as it is.
    """
    said = api_ranges.get(key)
    if said is None:
        return None
    lowest = max(said.min, 0)
    if key == _PRODUCE and (fetch := api_ranges.get(_FETCH)) and fetch.min >= _FETCH_MIN_SINCE_KIP_896:
        lowest = max(lowest, _PRODUCE_TRUE_MIN)
    return ApiRange(lowest, said.max) if lowest <= said.max else None
