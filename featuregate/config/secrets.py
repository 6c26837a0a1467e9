"""Secrets that no representation shows, and the rule for text that an error may show."""

from __future__ import annotations

from typing import Final

from featuregate.patterns import pattern

_PATH: Final = pattern(r"(?=[/.~])[\w./~+ -]{1,200}|[\w./~+ -]{1,180}\.\w{1,12}")
_DOUBLE_SLASH: Final = "//"


def is_path(text: str) -> bool:
    """Return whether a text has the form of a path, so that an error may show it.

    A path begins at a folder or ends in a suffix, and has only letters, digits and a few signs. A URL with a password,
    a key without PEM marks and a bare password do not have this form.
    """
    return _PATH.fullmatch(text) is not None and _DOUBLE_SLASH not in text


class Secret:
    """A password, a token or a key: ``repr``, ``str`` and formatting give ``<secret>``, and JSON refuses it.

    Pickling keeps the text, because another process needs it to use the `Settings`.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; call this at the last moment, and do not store the result."""
        return self._text

    def __repr__(self) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
