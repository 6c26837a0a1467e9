"""Finds what was measured around a release that was not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from featuregate.catalog.clients import version_numbers

T = TypeVar("T")


def neighbours(known: Sequence[T], version: str, version_of: Callable[[T], str]) -> tuple[T, ...]:
    """Return the measured one of this version, or the two around it; empty where it is not between two."""
    wanted = version_numbers(version)
    same = [each for each in known if version_numbers(version_of(each)) == wanted]
    below = [each for each in known if version_numbers(version_of(each)) < wanted]
    above = [each for each in known if version_numbers(version_of(each)) > wanted]
    if same:
        return (same[0],)
    return (below[-1], above[0]) if below and above and wanted else ()
