"""Requirements as frozen values. Python code makes them with ``Feature`` and ``Api``, text with `parse`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NoReturn, assert_never

from featuregate.catalog import api_name, captured_releases, features, release_of
from featuregate.errors import RequirementError
from featuregate.values import dataclass

MAX_LEVEL: Final = 32767
"""Levels and versions are int16 in Kafka's protocol."""
MAX_DEPTH: Final = 50
"""The most parentheses that the text of a requirement may nest."""

NO_TRUTH: Final = (
    "a requirement has no truth value of its own, a cluster decides it: combine requirements with & and | in "
    "parentheses, never with 'and', 'or', 'not' or a chained comparison; and ask gate.open or evaluate(view, ...)"
)
_NEVER_IN_A_NAME: Final = " ()&|<>=!:"
_NEVER_IN_A_VALUE: Final = " ()&|<>=!,"
"""The value of a config may have a colon, and is one element where the config is a list."""
_FEWEST: Final = 2
_set: Final = object.__setattr__


class Requirement(ABC):
    """A predicate over a view. Combine two with ``&`` and ``|``; ``str()`` returns text for :func:`parse`."""

    __slots__ = ()

    def __and__(self, other: Requirement) -> Requirement:
        return And((self, other))

    def __or__(self, other: Requirement) -> Requirement:
        return Or((self, other))

    def __bool__(self) -> NoReturn:
        raise TypeError(NO_TRUTH)

    @abstractmethod
    def __str__(self) -> str: ...


class Condition(Requirement):
    """A requirement without parts."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FeatureAtLeast(Condition):
    """The finalized level of a feature is ``level`` or higher."""

    feature: str
    level: int

    def __post_init__(self) -> None:
        _set(self, "feature", checked_word(self.feature, "a feature's name"))
        _set(self, "level", checked_number(self.level, f"{self.feature}>=", lowest=1, what="a finalized level"))

    def __str__(self) -> str:
        return f"{_spelled(self.feature)}>={self.level}"


@dataclass(frozen=True, slots=True)
class ApiAtLeast(Condition):
    """Every known broker serves ``version`` of an API or a newer one.

    The lowest version of a broker does not matter: brokers raise it from release to release (KIP-896), and a client
    with a newer version follows.
    """

    key: int
    version: int

    def __post_init__(self) -> None:
        _set(self, "key", checked_number(self.key, "api:", lowest=0, what="an API key"))
        before = f"{api_name(self.key)}>="
        _set(self, "version", checked_number(self.version, before, lowest=0, what="an API version"))

    def __str__(self) -> str:
        return f"{api_name(self.key)}>={self.version}"


@dataclass(frozen=True, slots=True)
class ApiBetween(Condition):
    """Some version from ``lowest`` to ``highest`` of an API is served by every known broker."""

    key: int
    lowest: int
    highest: int

    def __post_init__(self) -> None:
        _set(self, "key", checked_number(self.key, "api:", lowest=0, what="an API key"))
        before = f"{api_name(self.key)} in "
        lowest = checked_number(self.lowest, before, lowest=0, what="an API version")
        highest = checked_number(self.highest, f"{before}{lowest}..", lowest=lowest, what="the highest API version")
        _set(self, "lowest", lowest)
        _set(self, "highest", highest)

    def __str__(self) -> str:
        return f"{api_name(self.key)} in {self.lowest}..{self.highest}"


@dataclass(frozen=True, slots=True)
class ConfigHas(Condition):
    """The config ``name`` of every known broker is ``value``, or a list that contains it.

    A broker tells its configs only to a client with DESCRIBE_CONFIGS on the cluster; without that right the condition
    is unknown, and opens nothing. A broker that has no such config does not meet it, but for a config that Kafka has
    removed: there it asks for nothing.
    """

    name: str
    value: str

    def __post_init__(self) -> None:
        _set(self, "name", checked_word(self.name, "a config"))
        _set(self, "value", checked_word(self.value, "the value of a config", _NEVER_IN_A_VALUE))

    def __str__(self) -> str:
        return f"config:{self.name} has {self.value}"


@dataclass(frozen=True, slots=True)
class Release(Condition):
    """Every known broker has this release of Kafka or a newer one, judged by what it advertises.

    Brokers do not report their release. The API ranges of each (and supported ``metadata.version``, where it has one)
    are compared with those of a real broker of that release, see :func:`featuregate.catalog.needed_for`. APIs that a
    broker forwards are limited by the active controller too, so a new broker under an old controller may count
    as older than it is, never as newer.

    ``version`` is two numbers, such as ``"3.9"``, or three before 1.0, such as ``"0.10.0"``; further numbers are
    dropped.

    Raises `RequirementError`: no broker of that release has been captured; the error lists those that have.
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
        _set(self, "version", release)

    def __str__(self) -> str:
        return f"release>={self.version}"


@dataclass(frozen=True, slots=True)
class And(Requirement):
    """All parts hold. A nested ``And`` is flattened, so that ``(a & b) & c`` equals ``a & (b & c)``.

    Raises `RequirementError`: there are fewer than two parts, or the parts nest deeper than `MAX_DEPTH`.
    """

    parts: tuple[Requirement, ...]

    def __post_init__(self) -> None:
        _set(self, "parts", _parts(self.parts, And))

    def __str__(self) -> str:
        return " & ".join(f"({part})" if _is(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Requirement):
    """At least one part holds. A nested ``Or`` is flattened.

    Raises `RequirementError`: there are fewer than two parts, or the parts nest deeper than `MAX_DEPTH`.
    """

    parts: tuple[Requirement, ...]

    def __post_init__(self) -> None:
        _set(self, "parts", _parts(self.parts, Or))

    def __str__(self) -> str:
        return " | ".join(f"({part})" if _is(part, And) else str(part) for part in self.parts)


class Named(Requirement):
    """A requirement with a name: a preset. Its text is that of the requirement that it names."""

    __slots__ = ()

    name: str

    @property
    @abstractmethod
    def requirement(self) -> Requirement:
        """The requirement that has this name."""

    def __str__(self) -> str:
        return str(self.requirement)


AnyCondition = FeatureAtLeast | ApiAtLeast | ApiBetween | ConfigHas | Release
AnyRequirement = And | Or | Named | AnyCondition
"""All kinds. Each ``match`` over them ends with ``assert_never``, so that mypy finds each that lacks a new one."""


def kind_of(requirement: Requirement) -> AnyRequirement:
    """Return the same requirement, to match its kind.

    Raises `TypeError`: it is none, or of a class that the language does not have.
    """
    if not isinstance(requirement, AnyRequirement):
        raise TypeError(f"{requirement!r} is not a requirement")
    return requirement


def conditions_in(requirement: Requirement) -> Iterator[AnyCondition]:
    """Yield each condition of a requirement, in the order of its text."""
    kind = kind_of(requirement)
    match kind:
        case And(parts) | Or(parts):
            for part in parts:
                yield from conditions_in(part)
        case Named():
            yield from conditions_in(kind.requirement)
        case FeatureAtLeast() | ApiAtLeast() | ApiBetween() | ConfigHas() | Release():
            yield kind
        case _:
            assert_never(kind)


class Subject(NamedTuple):
    """What a condition asks brokers about. A release is compared with many APIs, and names none."""

    feature: str | None = None
    api: int | None = None
    config: str | None = None


def subject_of(condition: AnyCondition) -> Subject:
    """Return what a condition is about."""
    match condition:
        case FeatureAtLeast(feature):
            return Subject(feature=feature)
        case ApiAtLeast(key) | ApiBetween(key):
            return Subject(api=key)
        case ConfigHas(name):
            return Subject(config=name)
        case Release():
            return Subject()
        case _:
            assert_never(condition)


def configs_in(requirement: Requirement) -> tuple[str, ...]:
    """Return the names of the brokers' configs that a requirement asks for, each once, in the order of its text."""
    named = (subject_of(part).config for part in conditions_in(requirement))
    return tuple(dict.fromkeys(name for name in named if name is not None))


def features_in(requirement: Requirement) -> tuple[str, ...]:
    """Return the names of the features that a requirement asks for, each once, in the order of its text."""
    named = (subject_of(part).feature for part in conditions_in(requirement))
    return tuple(dict.fromkeys(name for name in named if name is not None))


def checked_word(word: object, what: str, never: str = _NEVER_IN_A_NAME) -> str:
    """Return a name or a value as a plain str, if the text of a requirement can hold it."""
    if not isinstance(word, str):
        raise TypeError(f"{what} is a text, not {word!r}")
    if not word or not word.isprintable() or any(character in never for character in word):
        problem = f"{what} has at least one character, each can be printed, and none is a space or one of {never[1:]}"
        raise RequirementError(word, 0, problem)
    return str.__str__(word)  # an enum's member shows its own name instead


def checked_number(number: object, before: str, *, lowest: int, what: str) -> int:
    """Return a number as a plain int; ``before`` is the text in front of it in the requirement."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} is an int, not {number!r}")
    if not lowest <= number <= MAX_LEVEL:
        raise RequirementError(f"{before}{number}", len(before), f"{what} is from {lowest} to {MAX_LEVEL} here")
    return int(number)


def _spelled(feature: str) -> str:
    """Return the text of a name; an unknown name gets a prefix that distinguishes it from a misspelling."""
    return feature if feature in features() else f"feature:{feature}"


def _parts(parts: Iterable[object], kind: type[And | Or]) -> tuple[Requirement, ...]:
    """Flatten parts of the same kind, and refuse parts whose text would not parse as an equal requirement."""
    flat = tuple(_flat(parts, kind))
    if len(flat) < _FEWEST:
        instead = "give at least two parts" if not flat else "use its one part instead"
        text = f"{kind.__name__}({flat[0] if flat else '()'})"
        raise RequirementError(text, 0, f"{kind.__name__} combines at least two requirements: {instead}")
    if max(map(_depth, flat)) > MAX_DEPTH:
        raise RequirementError(kind.__name__, 0, f"this requirement nests parentheses deeper than {MAX_DEPTH}")
    return flat


def _flat(parts: Iterable[object], kind: type[And | Or]) -> Iterator[Requirement]:
    for part in parts:
        if not isinstance(part, Requirement):
            raise TypeError(f"{part!r} is not a requirement yet: compare it with >= and put parentheses around that")
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def _depth(part: Requirement) -> int:
    """Return the depth of parentheses in the text of a part, including those around it."""
    part = _behind_names(part)
    return 1 + max(map(_depth, part.parts)) if isinstance(part, And | Or) else 0


def _is(part: Requirement, kind: type[And | Or]) -> bool:
    """Return whether a part, without its name, is such a combination."""
    return isinstance(_behind_names(part), kind)


def _behind_names(part: Requirement) -> Requirement:
    while isinstance(part, Named):
        part = part.requirement
    return part
