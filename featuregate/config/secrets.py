"""A text that shows itself to nobody who did not ask for it, and which text an error may show."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["Secret", "is_path"]

_PATH: Final = re.compile(r"(?=[/.~])[\w./~+ -]{1,200}|[\w./~+ -]{1,180}\.\w{1,12}")
_DOUBLE_SLASH: Final = "//"


def is_path(text: str) -> bool:
    """Say whether a text has the form of a path, so that an error may show it.

    A URL with a password in it, a key without its PEM marks or a bare password have another: a path begins at a
    folder or ends in a suffix, and has no more than letters, digits and a few signs.
    """
    return _PATH.fullmatch(text) is not None and _DOUBLE_SLASH not in text


class Secret:
    """A password, a token or a key: ``repr``, ``str`` and formatting give ``<secret>``, and JSON refuses it.

    Pickling keeps the text, since Settings that are sent to another process would be of no use without it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Give the text itself; call this at the last moment, and keep the result nowhere."""
        return self._text

    def __repr__(self) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
