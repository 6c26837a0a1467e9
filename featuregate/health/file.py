"""The health of a discoverer in a file, for processes that serve no HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.errors import ConfigError
from featuregate.files import local_path, read_file, replace_file
from featuregate.json_values import JsonValue, parse_json

if TYPE_CHECKING:
    import os

    from featuregate.polling.discoverer import Discoverer

_VERSION: Final = 1
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


def _boot() -> str:
    """Return the name of this start of the machine, at which the clock begins again; empty where there is none."""
    try:
        return read_file(local_path("path", _BOOT)).decode().strip()
    except (OSError, ValueError):
        return ""


class WrittenHealth(NamedTuple):
    """What a file says."""

    health: dict[str, Any]
    """As `Discoverer.health` returned it, with the current age."""
    seconds: float
    """Since the file was written."""


def write_health(
    features: Discoverer, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Write the health of a discoverer into a file, whole or not at all.

    The time in it is that of the monotonic clock, which all processes of a machine share and which never jumps: a probe
    runs on the same machine.

    Raises `ConfigError`: the path is a URI.
    Raises `OSError`: the file cannot be written; the one before stays.
    """
    text = json.dumps({"version": _VERSION, "boot": _boot(), "written_at": clock(), "health": features.health()})
    replace_file(local_path("path", path), text)


def read_health(path: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic) -> WrittenHealth:
    """Read what :func:`write_health` wrote.

    Raises `ConfigError`: there is no such file, it is not such a file, or the machine has restarted since.
    """
    file = local_path("health", path)
    try:
        said = parse_json(read_file(file), "health", refuse_halves=False)
        written_at, health = said.field("written_at").seconds(), said.field("health")
        known = said.field("version").integer() == _VERSION and said.value.get("boot", "") in ("", _boot())
        age = health.field("age_seconds").optional(JsonValue.seconds)
        health.field("last_error").optional(JsonValue.text)
    except OSError as error:
        raise ConfigError("health", f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError("health", f"{path} is not what write_health() writes") from error
    seconds = clock() - written_at
    if not known or seconds < 0 or (age is not None and age < 0):
        raise ConfigError("health", f"{path} was written by another release, or before this machine started")
    return WrittenHealth(health.value | {"age_seconds": None if age is None else age + seconds}, seconds)
