"""Requirements as frozen values, and the handles that spell them in Python: ``Feature``, ``Api``, ``Release``."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from featuregate.catalog import api_key, api_name, captured_releases, features, release_of
from featuregate.errors import RequirementError, UnknownApi

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MAX_LEVEL",
    "And",
    "Api",
    "ApiAtLeast",
    "ApiBetween",
    "Condition",
    "Feature",
    "FeatureAtLeast",
    "Named",
    "Or",
    "Release",
    "Requirement",
    "conditions_in",
    "features_in",
]

MAX_LEVEL: Final = 32767
"""Levels and versions are int16 on the wire."""

_NO_TRUTH: Final = (
    "a requirement has no truth value of its own, a cluster decides it: combine requirements with & and | in "
    "parentheses, never with 'and', 'or', 'not' or a chained comparison; and ask gate.open or evaluate(view, ...)"
)


class Requirement:
    """A predicate over a view. Combine two with ``&`` and ``|``; ``str()`` gives text for :func:`parse`."""

    __slots__ = ()

    def __and__(self, other: Requirement) -> Requirement:
        return And((self, other))

    def __or__(self, other: Requirement) -> Requirement:
        return Or((self, other))

    def __bool__(self) -> NoReturn:
        raise TypeError(_NO_TRUTH)

    @abstractmethod
    def __str__(self) -> str: ...


class Condition(Requirement):
    """A requirement that is not made of others."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FeatureAtLeast(Condition):
    """The finalized level of a feature is ``level`` or higher."""

    feature: str
    level: int

    def __post_init__(self) -> None:
        _check_feature_name(self.feature)
        _check_number(self.level, f"{self.feature}>=", lowest=1, what="a finalized level")

    def __str__(self) -> str:
        # A name that is new to this table is spelled so that it cannot be taken for a misspelling.
        name = self.feature if self.feature in features() else f"feature:{self.feature}"
        return f"{name}>={self.level}"


@dataclass(frozen=True, slots=True)
class ApiAtLeast(Condition):
    """Every known broker serves ``version`` of an API or a newer one.

    The lowest version that a broker serves does not matter here: brokers raise it from release to release (KIP-896),
    and a client that speaks a newer one follows.
    """

    key: int
    version: int

    def __post_init__(self) -> None:
        _check_number(self.key, "api:", lowest=0, what="an API key")
        _check_number(self.version, f"{api_name(self.key)}>=", lowest=0, what="an API version")

    def __str__(self) -> str:
        return f"{api_name(self.key)}>={self.version}"


@dataclass(frozen=True, slots=True)
class ApiBetween(Condition):
    """Some version from ``lowest`` to ``highest`` of an API is served by every known broker."""

    key: int
    lowest: int
    highest: int

    def __post_init__(self) -> None:
        _check_number(self.key, "api:", lowest=0, what="an API key")
        before = f"{api_name(self.key)} in "
        _check_number(self.lowest, before, lowest=0, what="an API version")
        _check_number(self.highest, f"{before}{self.lowest}..", lowest=self.lowest, what="the highest API version")

    def __str__(self) -> str:
        return f"{api_name(self.key)} in {self.lowest}..{self.highest}"


@dataclass(frozen=True, slots=True)
class Release(Condition):
    """Every known broker is of this release of Kafka or a newer one, judged by what it advertises.

    Brokers do not tell their release. Each one's API ranges (and supported ``metadata.version``, where it has one)
    are compared with those of a real broker of that release, see :func:`featuregate.catalog.needed_for`. APIs that a
    broker forwards are limited by the active controller too, so a new broker under an old controller may be judged
    older than it is, never newer.

    ``version`` is two numbers, such as ``"3.9"``, or three before 1.0, such as ``"0.10.0"``; more are cut off.

    Raises
    ------
    RequirementError
        No broker of that release has been captured; the error lists those that have.
    """

    version: str

    def __post_init__(self) -> None:
        if not isinstance(self.version, str):
            raise TypeError(f"a release is written as text, such as Release('3.9'), not {self.version!r}")
        release = release_of(self.version)
        if release not in captured_releases():
            known = ", ".join(captured_releases())
            problem = f"no broker of release {self.version!r} has been captured; known are {known}"
            raise RequirementError(f"release>={self.version}", len("release>="), problem)
        object.__setattr__(self, "version", release)

    def __str__(self) -> str:
        return f"release>={self.version}"


@dataclass(frozen=True, slots=True)
class And(Requirement):
    """All of them hold. An ``And`` inside is taken apart, so that ``(a & b) & c`` equals ``a & (b & c)``."""

    parts: tuple[Requirement, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_flat(self.parts, And)))

    def __str__(self) -> str:
        return " & ".join(f"({part})" if _is(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Requirement):
    """One of them holds at least. An ``Or`` inside is taken apart."""

    parts: tuple[Requirement, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_flat(self.parts, Or)))

    def __str__(self) -> str:
        return " | ".join(f"({part})" if _is(part, And) else str(part) for part in self.parts)


class Named(Requirement):
    """A requirement that has a name of its own: a preset, a capability. Its text is that of what it stands for."""

    __slots__ = ()

    name: str

    @property
    @abstractmethod
    def requirement(self) -> Requirement:
        """What the name stands for."""

    def __str__(self) -> str:
        return str(self.requirement)


class _Handle:
    """What stands left of a comparison. It is no requirement yet."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # a handle is never a key, and == on it is refused

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("brokers are never asked for exactly one level: write >= instead of == or !=")

    def __bool__(self) -> NoReturn:
        raise TypeError(_NO_TRUTH)

    def __and__(self, other: object) -> NoReturn:
        raise TypeError("& and | bind tighter than >=: put parentheses around each comparison")

    __rand__ = __or__ = __ror__ = __and__


class Feature(_Handle):
    """A finalized feature, by its name: ``Feature("transaction.version") >= 2``.

    Any name will do, because clusters may have features that are newer than our table.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        _check_feature_name(name)
        self.name = name

    def __repr__(self) -> str:
        return f"Feature({self.name!r})"

    def __ge__(self, level: int) -> Requirement:
        return FeatureAtLeast(self.name, level)


class Api(_Handle):
    """A Kafka API, by name or key: ``Api("TxnOffsetCommit") >= 3``, ``Api("Fetch").between(4, 11)``.

    Raises
    ------
    RequirementError
        No API has this name; the error shows close ones.
    """

    __slots__ = ("key",)

    def __init__(self, api: str | int) -> None:
        try:
            self.key = api_key(api)
        except UnknownApi as error:
            raise RequirementError(error.name, 0, str(error)) from error
        _check_number(self.key, "api:", lowest=0, what="an API key")

    def __repr__(self) -> str:
        return f"Api({api_name(self.key)!r})"

    def __ge__(self, version: int) -> Requirement:
        return ApiAtLeast(self.key, version)

    def between(self, lowest: int, highest: int) -> Requirement:
        """Require that some version from ``lowest`` to ``highest``, which a client speaks, is served everywhere."""
        return ApiBetween(self.key, lowest, highest)


def conditions_in(requirement: Requirement) -> Iterator[Condition]:
    """Yield each condition that a requirement is made of, in the order of its text."""
    if isinstance(requirement, And | Or):
        for part in requirement.parts:
            yield from conditions_in(part)
    elif isinstance(requirement, Named):
        yield from conditions_in(requirement.requirement)
    elif isinstance(requirement, Condition):
        yield requirement


def features_in(requirement: Requirement) -> tuple[str, ...]:
    """Return the names of the features that a requirement asks for, each once, in the order of its text."""
    named = (part.feature for part in conditions_in(requirement) if isinstance(part, FeatureAtLeast))
    return tuple(dict.fromkeys(named))


def _flat(parts: Iterable[object], kind: type[And | Or]) -> Iterator[Requirement]:
    for part in parts:
        if not isinstance(part, Requirement):
            raise TypeError(f"{part!r} is no requirement yet: compare it with >= and put parentheses around that")
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def _is(part: Requirement, kind: type[And | Or]) -> bool:
    """Say whether a part, seen through its name, is such a combination."""
    while isinstance(part, Named):
        part = part.requirement
    return isinstance(part, kind)


def _check_feature_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a feature is named by text, not by {name!r}")
    if not name or any(character.isspace() or character in "()&|<>=:" for character in name):
        raise RequirementError(name, 0, "a feature's name has at least one character, and no space or any of ()&|<>=:")


def _check_number(number: object, before: str, *, lowest: int, what: str) -> None:
    """Check a number that stands behind ``before`` in the text of the requirement."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} is an int, not {number!r}")
    if not lowest <= number <= MAX_LEVEL:
        raise RequirementError(f"{before}{number}", len(before), f"{what} is from {lowest} to {MAX_LEVEL} here")
