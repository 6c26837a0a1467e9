"""Read TOML whose keys are not too deep: the standard library takes the square of the parts of a key. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from featuregate.budgets import MOST_KEY_PARTS, MOST_TOML_CHARACTERS

_TEXT: Final = r'"(?:[^"\\\n]|\\.)*+"' + r"|'[^'\n]*+'"
_PART: Final = rf"(?:[\w-]++|{_TEXT})"
_TOKEN: Final = re.compile(
    rf"(?P<deep>{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_KEY_PARTS},}}+)|{_TEXT}|\\.|#.*+|[\w-]++"
)
"""A key that is too deep, or what is not part of one; a backslash and what follows it, so that no quote that it escapes
begins a text that runs to the end of the line in vain."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a document. Raises `ValueError`: it is not TOML, is nested too deeply, or is larger than is believed."""
    import tomllib  # noqa: PLC0415 - few apps have such a file

    if len(text) > MOST_TOML_CHARACTERS:
        raise ValueError(f"it has more than {MOST_TOML_CHARACTERS:,} characters")
    for found in _TOKEN.finditer(text):
        if found["deep"]:
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(f"a key in line {line} has more than {MOST_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
