"""Read a ``.properties`` file."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Final

from featuregate.budgets import MOST_PROPERTIES_BYTES
from featuregate.config.foreign_files import appearance, has_known_names
from featuregate.config.from_files import from_file
from featuregate.config.secrets import is_path
from featuregate.errors import ConfigError
from featuregate.files import local_path, read_file

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS: Final = frozenset(range(0x20)) - frozenset(b"\t\n\v\f\r")
"""Control characters that no text has."""
_LINE_END: Final = re.compile(r"\r\n?|\n")
_BLANKS: Final = " \t\f"
_PATH_WITH_ESCAPES: Final = re.compile(
    r"^([\w.]{1,80}\.(?:location|keytab))[ \t\f]*+[=:]?+(?:\\[\\:=#! u]|[^\\\n])*+\\", re.MULTILINE
)
"""A path with a single backslash, as people of Windows write it: an escape, which leaves the backslash out."""


def read_properties(path: str | os.PathLike[str], *, of_client: bool = True) -> dict[str, str]:
    r"""Read a ``.properties`` file as Java does, in UTF-8, and in Latin-1 where the file is not UTF-8.

    Java reads every file in Latin-1, and takes a byte order mark for a part of the first name. A file in ASCII with
    escapes such as ``\u00fc`` means the same to both. The values remember that they are from a file:
    `featuregate.config.from_files` says what they may reach.

    Raises `ConfigError` where the file cannot be read, or, ``of_client``, where it has no property of Kafka's clients.
    """
    import javaproperties  # noqa: PLC0415

    named = repr(str(path)) if is_path(str(path)) else "the file"
    file = local_path("config", path)
    try:
        text = _decoded(read_file(file, MOST_PROPERTIES_BYTES))
        lines = _on_one_line_each(text)
        values = from_file(javaproperties.loads(lines))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except _NoTextError as error:
        problem = str(error)
    except ValueError:  # javaproperties' only one, which repeats what stands there
        problem = "is no .properties file: it has the escape \\u without four hexadecimal digits"
    else:
        if not of_client or not values or has_known_names(values):
            _check_paths(lines, values)
            return values
        problem = f"has no property of Kafka's clients: {appearance(text, values)}"
    # Raised here, because both errors hold text of the file, and would be the context of this one.
    raise ConfigError("config", f"{named} {problem}")


class _NoTextError(Exception):
    """The file is not text in UTF-8 or Latin-1."""


def _check_paths(lines: str, values: Mapping[str, str]) -> None:
    for name in _PATH_WITH_ESCAPES.findall(lines):
        if not _is_there(values.get(name, "")):
            problem = "there is no such file: a backslash begins an escape in a .properties file, so write / or two"
            raise ConfigError(name, problem)


def _is_there(path: str) -> bool:
    from pathlib import Path  # noqa: PLC0415 - of paths with escapes alone

    try:
        return Path(path).exists()
    except OSError:  # a name that is too long for the system
        return False


def _decoded(content: bytes) -> str:
    if content.startswith(_UTF_16):
        raise _NoTextError("is in UTF-16, which Java does not read either: save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if _CONTROLS & set(content):
            raise _NoTextError(f"is not text in UTF-8 or Latin-1: see byte {error.start}") from None
        return content.decode("latin-1")


def _on_one_line_each(text: str) -> str:
    """Put lines that continue one another on one line, without comments: the library takes the square of such lines."""
    lines: list[str] = []
    parts: list[str] = []
    for line in _LINE_END.split(text):
        part = line.lstrip(_BLANKS)
        if not parts and part.startswith(("#", "!")):
            continue
        continues = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        parts.append(part[:-1] if continues else part)
        if not continues:
            lines.append(_no_comment("".join(parts)))
            parts.clear()
    return "\n".join([*lines, _no_comment("".join(parts))])


def _no_comment(line: str) -> str:
    """Keep the name of a property that begins with ``#`` behind a line that continues."""
    return f"\\{line}" if line.startswith(("#", "!")) else line
