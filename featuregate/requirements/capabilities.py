"""Capabilities: the API versions of a client, in code or from TOML (KIP-35).

KIP-35 expects each client to hold "a map of feature to supported ApiVersions", such as
``Feature1 -> {(0, 3, 3), (1, 2, 3)}``. A :class:`Capability` is one row of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from featuregate.catalog import api_key, api_name
from featuregate.errors import ConfigError, RequirementError, UnknownApi
from featuregate.files import read_file
from featuregate.requirements.language import And, ApiBetween, Named, Requirement
from featuregate.toml_values import parse_toml

if TYPE_CHECKING:
    from pathlib import Path


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


def capabilities_from_toml(source: str | Path) -> Mapping[str, Capability]:
    """Read capabilities from TOML: one table each, API name or key to ``[lowest, highest]``.

    .. code-block:: toml

        ["exactly once"]
        TxnOffsetCommit = [3, 5]
        OffsetFetch = [7, 9]

    Parameters
    ----------
    source
        A path, or the text itself.

    Raises
    ------
    ConfigError
        The text is not TOML, or a value is wrong; the error names the key.
    OSError
        The file cannot be read.
    """
    try:
        tables = parse_toml(source if isinstance(source, str) else read_file(source).decode())
    except ValueError as error:  # of the encoding, or of TOML, which says the line
        place = "capabilities" if isinstance(source, str) else str(source)
        raise ConfigError(place, f"not TOML: {error}") from error
    return {name: _capability(name, table) for name, table in tables.items()}


def _capability(name: str, table: object) -> Capability:
    if not isinstance(table, dict) or not table:
        raise ConfigError(name, "a capability is a table with an API on each line, such as Fetch = [4, 11]")
    speaks = {_toml_api(api): _toml_range(f"{name}.{api}", said) for api, said in table.items()}
    try:
        return Capability(name, speaks)
    except RequirementError as error:
        raise ConfigError(name, error.problem) from error


def _toml_api(api: str) -> str | int:
    """Return the key of an API as a number: keys of TOML are text."""
    return int(api) if api.isascii() and api.isdigit() else api


def _toml_range(key: str, said: Any) -> tuple[int, int]:
    numbers = said if isinstance(said, list) else []
    match numbers:
        case [int(lowest), int(highest)] if not any(isinstance(number, bool) for number in numbers):
            return lowest, highest
    raise ConfigError(key, f"expected the lowest and the highest version, such as [4, 11], not {said!r}")
