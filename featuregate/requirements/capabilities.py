"""Capabilities: the API versions of a client (KIP-35).

KIP-35 expects each client to hold "a map of feature to supported ApiVersions", such as
``Feature1 -> {(0, 3, 3), (1, 2, 3)}``. A :class:`Capability` is one row of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from featuregate.catalog import api_key, api_name
from featuregate.errors import RequirementError, UnknownApi
from featuregate.requirements.language import And, ApiBetween, Named, Requirement


@dataclass(frozen=True, slots=True, init=False)
class Capability(Named):
    """The versions of each API that a client supports. Brokers must have a version of every API in common with it.

    Parameters
    ----------
    name
        Its name in texts.
    speaks
        API, by name or key, to the lowest and the highest version of the client.

    Raises
    ------
    RequirementError
        An API is unknown, or a range is empty.
    """

    name: str
    ranges: tuple[ApiBetween, ...]
    """One for each API, by key."""

    def __init__(self, name: str, speaks: Mapping[str | int, tuple[int, int]] | Mapping[str, tuple[int, int]]) -> None:
        if not speaks:
            raise RequirementError(name, 0, f"capability {name!r} names no API, so every cluster would meet it")
        by_key: dict[int, ApiBetween] = {}
        for api, (lowest, highest) in speaks.items():
            try:
                key = api_key(api)
            except UnknownApi as error:
                raise RequirementError(error.name, 0, f"capability {name!r}: {error}") from error
            if key in by_key:
                raise RequirementError(str(api), 0, f"capability {name!r} names {api_name(key)} twice")
            by_key[key] = ApiBetween(key, lowest, highest)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "ranges", tuple(by_key[key] for key in sorted(by_key)))

    @property
    def requirement(self) -> Requirement:
        """Each API within its range."""
        return self.ranges[0] if len(self.ranges) == 1 else And(self.ranges)
