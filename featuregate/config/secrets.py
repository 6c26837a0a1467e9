"""A text that shows itself to nobody who did not ask for it."""

from __future__ import annotations

__all__ = ["Secret"]


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
