"""What a configuration file may reach: nothing that runs or is secret, unless the operator allows it elsewhere.

``FEATUREGATE_CONFIG_ALLOWS`` has, with commas between, modules of Python and packages of Java, variables of the
environment as ``env:NAME`` or ``env:PREFIX*``, and folders as absolute paths. Properties that an app gives in its code
are not restricted. Kafka has the same rule since CVE-2023-25194 and CVE-2024-31141:
``org.apache.kafka.automatic.config.providers`` and lists of what is allowed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from featuregate.config.keys import SPELLINGS, plain_name
from featuregate.errors import ConfigError

ALLOWS: Final = "FEATUREGATE_CONFIG_ALLOWS"
_ENV: Final = "env:"


class NotAllowed(ConfigError):
    """A file names what the operator does not allow it."""


class TextOfFile(str):
    """A value of a file: it may name code, variables and other files only where the operator allows them."""

    __slots__ = ()


class InertText(TextOfFile):
    """A value of a file that is only looked at: nothing that it names is run or read."""

    __slots__ = ()


def from_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Mark the texts of a file."""
    return {name: TextOfFile(value) if type(value) is str else value for name, value in values.items()}


def inert(properties: Mapping[str, str]) -> dict[str, str]:
    """Mark the texts of a file as ones that are only looked at."""
    return {name: InertText(value) if isinstance(value, TextOfFile) else value for name, value in properties.items()}


def reaching(properties: Mapping[str, str]) -> list[str]:
    """Return the names of the properties of a file that are read, and name code, variables or files with secrets."""
    return sorted(
        name
        for name, value in properties.items()
        if isinstance(value, TextOfFile)
        and plain_name(name) in SPELLINGS
        and ("${" in value or value.lstrip().lower().startswith("file:") or name.endswith("oauth_cb"))
    )


def require_code(key: str, value: object, name: str) -> None:
    """Return if the text may name this module of Python or class of Java. Raises `ConfigError`."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        raise ConfigError(key, f"names {_shown(name)} of Python's standard library, which gives no tokens")
    if isinstance(value, TextOfFile) and not any(name == each or name.startswith(f"{each}.") for each in _entries()):
        raise _refused(key, f"code, {_shown(name)}", _shown(name))


def require_variable(key: str, value: object, name: str) -> None:
    """Return if the text may name this variable of the environment. Raises `ConfigError`."""
    patterns = [entry.removeprefix(_ENV) for entry in _entries() if entry.startswith(_ENV)]
    allowed = any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in patterns)
    if isinstance(value, TextOfFile) and not allowed:
        raise _refused(key, f"the variable {_shown(name)} of the environment", f"{_ENV}{_shown(name)}")


def require_path(key: str, value: object, path: str) -> None:
    """Return if the text may name this file of secrets. Links count as what they lead to. Raises `ConfigError`."""
    if not isinstance(value, TextOfFile):
        return
    real = os.path.realpath(path)
    folders = [os.path.realpath(entry).rstrip("/") + "/" for entry in _entries() if "/" in entry or "\\" in entry]
    if not any(real.startswith(folder) for folder in folders):
        raise _refused(key, "another file", "its folder")


def _entries() -> list[str]:
    return [entry for part in os.environ.get(ALLOWS, "").split(",") if (entry := part.strip())]


def _shown(name: str) -> str:
    """Return a name; a text of another form may be a secret in the wrong place."""
    return name if re.fullmatch(r"[A-Za-z_][\w.\-]{0,99}", name, re.ASCII) else "NAME"


def _refused(key: str, what: str, entry: str) -> NotAllowed:
    return NotAllowed(
        key,
        f"is from a file and names {what}, which a file may only where this machine's operator allows it: add {entry} "
        f"to {ALLOWS} in the environment if you trust the file",
    )
