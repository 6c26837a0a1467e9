"""API versions that a client must not use, by its configuration (KIP-35, item 6).

Kafka's documentation may forbid a version that a broker advertises. Brokers do not report that, so KIP-35 leaves it to
the client, "to the best knowledge of the client at the time of development (or alternatively by
configuration)".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from featuregate.catalog import API_NAMES, api_key, api_name, close_to
from featuregate.errors import ConfigError, UnknownApi
from featuregate.patterns import pattern

_NEWEST: Final = 2**15 - 1
"""The newest version there can be: versions and API keys are INT16."""
_VERSIONS: Final = pattern(r"(?P<lowest>[0-9]{1,5})\s*+(?P<dash>-\s*+(?P<highest>[0-9]{1,5})?)?")


class ExcludedApis(NamedTuple):
    """API versions that a client must not use. ``str()`` returns a text that :func:`excluded_apis` reads."""

    ranges: tuple[tuple[int, int, int], ...] = ()
    """API key, lowest and highest version, both included; by key and version."""

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __str__(self) -> str:
        return ",".join(_spelled(key, lowest, highest) for key, lowest, highest in self.ranges)

    def newest(self, key: int, lowest: int, highest: int) -> int | None:
        """Return the highest version from ``lowest`` to ``highest`` of an API that may be used, else None."""
        version = highest
        for _, first, last in reversed(self._of(key)):
            if first <= version <= last:
                version = first - 1
        return version if version >= lowest else None

    def why(self, key: int, lowest: int, highest: int) -> str:
        """Return a text that names the excluded versions from ``lowest`` to ``highest``."""
        found = [(max(first, lowest), min(last, highest)) for _, first, last in self._of(key)]
        met = [str(first) if first == last else f"{first} to {last}" for first, last in found if first <= last]
        if len(met) == 1 and " " not in met[0]:
            return f"version {met[0]} is excluded by configuration"
        return f"versions {' and '.join(met)} are excluded by configuration"

    def _of(self, key: int) -> list[tuple[int, int, int]]:
        return [excluded for excluded in self.ranges if excluded[0] == key]


NOTHING_EXCLUDED: Final = ExcludedApis()


def excluded_apis(text: object, *, key: str = "exclude_apis") -> ExcludedApis:
    """Parse excluded API versions, such as ``Produce=9-11,Fetch``.

    Commas separate the parts. ``Produce=9-11`` excludes versions 9, 10 and 11, ``Produce=9`` version 9 alone,
    ``Produce=9-`` version 9 and all newer ones, and ``Fetch`` every version. APIs are spelled as in requirements.

    Raises `ConfigError`: the value is not text, names an unknown API, or has a wrong range of versions.

    Parameters
    ----------
    text
        The text; None and an empty one exclude nothing.
    key
        The name of the option or property, for errors.
    """
    if isinstance(text, ExcludedApis):
        return text
    if text is None:
        return NOTHING_EXCLUDED
    if not isinstance(text, str):
        raise ConfigError(key, f"must be a text such as Produce=9-11,Fetch, not a {type(text).__name__}")
    parts = [stripped for part in text.split(",") if (stripped := part.strip())]
    return ExcludedApis(_merged(_read(key, f"part {at} of {len(parts)}", part) for at, part in enumerate(parts, 1)))


def _read(key: str, place: str, part: str) -> tuple[int, int, int]:
    name, equals, versions = (each.strip() for each in part.partition("="))
    found = _VERSIONS.fullmatch(versions if equals else "0-")
    if not name or found is None:
        raise ConfigError(key, f"{place} is none of: API, API=9, API=9-11, API=9-")
    api = _key(name)
    if api is None:
        close = close_to(name, API_NAMES.values())
        hint = f": did you mean {' or '.join(close)}?" if close else ""
        raise ConfigError(key, f"{place} names no known API{hint}")
    lowest, highest = int(found["lowest"] or 0), _NEWEST
    if found["lowest"] and (found["highest"] or not found["dash"]):
        highest = int(found["highest"] or lowest)
    if not (api <= _NEWEST and lowest <= highest <= _NEWEST):
        raise ConfigError(key, f"{place} has numbers that are not an API and a range of versions from 0 to {_NEWEST}")
    return api, lowest, highest


def _key(api: str) -> int | None:
    """Return the key of an API; None for an unknown name, so that no chained error repeats it."""
    try:
        return api_key(api)
    except UnknownApi:
        return None


def _merged(ranges: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Sort ranges and join those that touch, so that equal exclusions compare equal."""
    merged: list[tuple[int, int, int]] = []
    for key, lowest, highest in sorted(ranges):
        if merged and merged[-1][0] == key and lowest <= merged[-1][2] + 1:
            before = merged.pop()
            merged.append((key, before[1], max(before[2], highest)))
        else:
            merged.append((key, lowest, highest))
    return tuple(merged)


def _spelled(key: int, lowest: int, highest: int) -> str:
    if highest == _NEWEST:
        return api_name(key) if lowest == 0 else f"{api_name(key)}={lowest}-"
    return f"{api_name(key)}={lowest}" if lowest == highest else f"{api_name(key)}={lowest}-{highest}"
