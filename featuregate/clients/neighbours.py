"""Finds what was measured around a release that was not. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from featuregate.catalog.clients import version_numbers

T = TypeVar("T")
_BEFORE: Final = re.compile(
    r"v?\d+(?:\.\d+)*[-._]?(?:a|b|c|m|rc|alpha|beta|dev|pre|preview|snapshot)(?![a-z])", re.ASCII | re.IGNORECASE
)


def neighbours(known: Sequence[T], version: str, version_of: Callable[[T], str]) -> tuple[T, ...]:
    """Return the measured one of this version, or the two around it; empty where it is not between two.

    What came before a release, such as 2.6.1rc1, is not the release.
    """
    wanted = version_numbers(version)
    below = [each for each in known if version_numbers(version_of(each)) < wanted]
    same = [each for each in known if version_numbers(version_of(each)) == wanted]
    above = [each for each in known if version_numbers(version_of(each)) > wanted]
    if _BEFORE.match(version):
        same, above = [], [*same, *above]
    if same:
        return (same[0],)
    return (below[-1], above[0]) if below and above and wanted else ()
