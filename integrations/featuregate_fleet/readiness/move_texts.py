"""Moves as people write them. Each function raises ValueError with what is wrong. Pure."""

from __future__ import annotations

import re
from typing import Final

from featuregate.catalog import CapturedRelease, api_key, captured, captured_as, features, level_named
from featuregate.errors import UnknownApi
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, ToRelease

_DROP: Final = re.compile(r"([A-Za-z_]+|api:[0-9]+)<([0-9]{1,5})")
_VERSION: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5})*")
_HIGHEST: Final = 2**15 - 1


def to(text: str) -> ToRelease:
    """Return the move to a release, such as 4.2."""
    return ToRelease(_release(text))


def downgrade(text: str) -> DowngradeTo:
    """Return the move back to an older release."""
    return DowngradeTo(_release(text), text)


def finalize(text: str) -> Finalize:
    """Return the move to a finalized level, such as ``transaction.version=2``."""
    return Finalize(*_level(text))


def deprecate(text: str) -> Deprecate:
    """Return the move to brokers that support neither a level nor lower ones."""
    return Deprecate(*_level(text))


def drop(text: str) -> DropApi:
    """Return the move to brokers without old versions of an API, such as ``Fetch<12``."""
    match = _DROP.fullmatch(text)
    key = match[1].partition(":")[2] if match else ""
    if not match or int(match[2]) > _HIGHEST or int(key or 0) > _HIGHEST:
        raise ValueError(f"{text!r} is not an API with a version: write 'Fetch<12', in quotes")
    if not int(match[2]):
        raise ValueError(f"{text!r} drops nothing: versions begin at 0")
    try:
        return DropApi(api_key(match[1]), int(match[2]))
    except UnknownApi as error:
        raise ValueError(str(error)) from None


def _release(text: str) -> CapturedRelease:
    found = captured_as(text) if _VERSION.fullmatch(text) else None
    if found is None:
        raise ValueError(f"{text!r} is none of the known releases: {', '.join(captured())}")
    return found


def _level(text: str) -> tuple[str, int]:
    feature, _, level = text.partition("=")
    if feature not in features():
        raise ValueError(f"{feature!r} is none of the known features: {', '.join(features())}")
    named = level_named(level) if feature == "metadata.version" and not level.isdecimal() else None
    if named:
        return feature, named.level
    if not re.fullmatch(r"[0-9]{1,5}", level) or int(level) > _HIGHEST:
        raise ValueError(f"{text!r} is not a feature with a level: write {feature}=1")
    return feature, int(level)
