"""Handles, the left side of a comparison: ``Feature("group.version") >= 1``, ``Api("Fetch").between(4, 11)``."""

from __future__ import annotations

from typing import NoReturn

from featuregate.catalog import METADATA_VERSION, api_key, api_name, metadata_level_named
from featuregate.errors import RequirementError, UnknownApi
from featuregate.requirements.language import (
    NO_TRUTH,
    ApiAtLeast,
    ApiBetween,
    ConfigHas,
    FeatureAtLeast,
    Requirement,
    checked_number,
    checked_word,
)


class _Handle:
    """The left side of a comparison, which is not a requirement yet."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # a handle is never a key, and == on it is refused

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a requirement is never one exact level: write >= instead of == or !=")

    def __bool__(self) -> NoReturn:
        raise TypeError(NO_TRUTH)

    def __and__(self, other: object) -> NoReturn:
        raise TypeError("& and | bind tighter than >=: put parentheses around each comparison")

    __rand__ = __or__ = __ror__ = __and__


class Feature(_Handle):
    """A finalized feature, by its name: ``Feature("transaction.version") >= 2``.

    Any name is accepted, because clusters may have newer features than the catalog. A level of
    ``metadata.version`` may be given by its name, ``Feature("metadata.version") >= "3.3-IV3"``. The requirement holds
    and prints its number, ``metadata.version>=7``, so that a latch does not depend on the spelling.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = checked_word(name, "a feature's name")

    def __repr__(self) -> str:
        return f"Feature({self.name!r})"

    def __ge__(self, level: int | str) -> Requirement:
        return FeatureAtLeast(self.name, _numbered(self.name, level))


class Config(_Handle):
    """A config of brokers: ``Config("group.coordinator.rebalance.protocols").has("consumer")``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = checked_word(name, "a config")

    def __repr__(self) -> str:
        return f"Config({self.name!r})"

    def has(self, value: str) -> Requirement:
        """Require that the config of every broker is this value, or a list that contains it."""
        return ConfigHas(self.name, value)


class Api(_Handle):
    """A Kafka API, by name or key: ``Api("TxnOffsetCommit") >= 3``, ``Api("Fetch").between(4, 11)``.

    Raises `RequirementError`: no API has this name; the error lists similar names.
    """

    __slots__ = ("key",)

    def __init__(self, api: str | int) -> None:
        try:
            self.key = checked_number(api_key(api), "api:", lowest=0, what="an API key")
        except UnknownApi as error:
            raise RequirementError(error.name, 0, str(error)) from error

    def __repr__(self) -> str:
        return f"Api({api_name(self.key)!r})"

    def __ge__(self, version: int) -> Requirement:
        return ApiAtLeast(self.key, version)

    def between(self, lowest: int, highest: int) -> Requirement:
        """Require that every broker serves some version from ``lowest`` to ``highest``, the range of a client."""
        return ApiBetween(self.key, lowest, highest)


def _numbered(feature: str, level: int | str) -> int:
    """Return the number of a level, which requirements hold: ``3.3-IV3`` is 7. Only ``metadata.version`` has names."""
    if not isinstance(level, str) or feature != METADATA_VERSION:
        return level  # type: ignore[return-value]  # checked_number refuses any other text
    try:
        return metadata_level_named(level).level
    except LookupError as error:
        before = f"{feature}>="
        raise RequirementError(f"{before}{level}", len(before), str(error.args[0])) from error
