"""Which flags a view and its gates have, and what each is worth: in an app as over a relay. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import API_NAMES, METADATA_VERSION, api_name, captured_releases, close_to, features, level_name
from featuregate.gating.decisions import evaluate
from featuregate.requirements import Release
from featuregate.view.releases import releases_of_brokers

if TYPE_CHECKING:
    from featuregate import Decision, View

LEVEL: Final = "level."
RELEASE: Final = "release"
SUPPORTED: Final = "supported."
API: Final = "api."
PREFIXES: Final = (LEVEL, RELEASE, SUPPORTED, API)
"""What the keys of a view's flags begin with. A gate has another name, so that it hides none of them."""

FlagValue = bool | int | str | dict[str, int | bool]


class Flag(NamedTuple):
    """What one flag is worth, and why."""

    type: type[bool | int | str | dict[str, int | bool]]
    value: FlagValue | None
    """None: there is no value, and the app uses the default of its code."""
    variant: str
    why: str


NO_FLAGS: Final[Mapping[str, Flag]] = MappingProxyType({})


@lru_cache(maxsize=100)
def no_flag(key: str, known: tuple[str, ...]) -> str:
    """Say that there is no such flag, and which ones are spelt almost like it. An app asks again and again."""
    close = " or ".join(close_to(key, known))
    return f"there is no flag {key!r}{f': did you mean {close}?' if close else ''}"


def gate_flag(decision: Decision) -> Flag:
    """Return whether a gate is open. An unknown decision is false: it opens nothing, whatever the app's default is."""
    return Flag(bool, decision.open, "open" if decision.open else decision.verdict, decision.summary)


def view_flags(view: View) -> Mapping[str, Flag]:
    """Return the flags of a view, by key.

    ===================== ======= ==========================================================================
    key                   type    value
    ===================== ======= ==========================================================================
    level.<feature>       int     the finalized level, 0 where the feature is absent
    release               str     the newest release whose APIs and levels every known broker serves
    release.<feature>     str     what the finalized level is called, such as 4.2-IV1 for metadata.version
    supported.<feature>   object  ``min`` and ``max`` of the levels that every broker which answered can run
    api.<API>             object  ``min`` and ``max`` of the versions that every broker which answered serves, and
                                  whether the range is ``incomplete``
    ===================== ======= ==========================================================================
    """
    return MappingProxyType(dict(_flags(view)))


def _flags(view: View) -> Iterator[tuple[str, Flag]]:
    known = sorted({*features(), *view.supported, *view.finalized})
    for feature in known:
        yield LEVEL + feature, _level(view, feature)
        yield SUPPORTED + feature, _supported(view, feature)
    yield RELEASE, _release(view)
    yield f"{RELEASE}.{METADATA_VERSION}", _metadata_release(view)
    for key in sorted({*API_NAMES, *view.api_ranges}):
        yield API + api_name(key), _api(view, key)


def _level(view: View, feature: str) -> Flag:
    level = view.level(feature)
    if level is None:
        return Flag(int, None, "unknown", "no broker has reported finalized levels")
    return Flag(int, level, str(level), "finalized" if level else "not finalized")


def _metadata_release(view: View) -> Flag:
    level = view.level(METADATA_VERSION)
    if not level:
        return Flag(str, None, "unknown", f"{METADATA_VERSION} is not finalized")
    name = level_name(METADATA_VERSION, level)
    return Flag(str, name, name, f"{METADATA_VERSION} is finalized at {level}")


def _release(view: View) -> Flag:
    release = next(iter(releases_of_brokers(view)), captured_releases()[0])
    decision = evaluate(view, Release(release))
    if decision.open:
        return Flag(str, release, release, f"every broker serves what {release} needs")
    why = f"no broker serves what {release} needs" if decision.verdict == "closed" else decision.summary
    return Flag(str, None, "unknown", why)


def _supported(view: View, feature: str) -> Flag:
    found = view.feature(feature)
    if found is None:
        return Flag(dict, None, "absent", f"not every {view.role} supports {feature}")
    value = {"min": found.min, "max": found.max}
    return Flag(dict, value, f"{found.min}..{found.max}", f"every {view.role} that answers can run these")


def _api(view: View, key: int) -> Flag:
    found = view.api(key)
    if found is None:
        return Flag(dict, None, "absent", f"not every {view.role} serves {api_name(key)}")
    value = {"min": found.min, "max": found.max, "incomplete": found.incomplete}
    variant = f"{found.min}..{found.max}{', incomplete' if found.incomplete else ''}"
    return Flag(dict, value, variant, f"every {view.role} that answers serves these")
