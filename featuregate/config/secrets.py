"""Secrets that no representation shows, text that an error may show, and the error for credentials that are missing."""

from __future__ import annotations

from typing import Final

from featuregate.errors import ConfigError
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


class MissingCredentials(ConfigError):
    """No usable credentials; an app that lists every broker needs none.

    ``listing`` is the setting that says so, in the spelling of the place that prints the error: an argument, an option,
    or a key of a file. None where there is no such setting.
    """

    def __init__(self, key: str, missing: str, listing: str | None = 'broker_list="bootstrap"') -> None:
        way_out = (
            f", or set {listing} if the bootstrap list names every broker: then featuregate sends only ApiVersions, "
            "which brokers answer before authentication"
        )
        super().__init__(key, missing + (way_out if listing else ""))
        self.args = (key, missing, listing)
        self._missing = missing

    def beside(self, more: str) -> MissingCredentials:
        """Return the same error with more of the reason."""
        return MissingCredentials(self.key, self._missing + more, self.args[2])

    def with_listing(self, listing: str | None) -> MissingCredentials:
        """Return the same error in the words of another place."""
        return MissingCredentials(self.key, self._missing, listing)


def in_words_of(error: ConfigError, listing: str | None) -> ConfigError:
    """Return the error in the words of a place, where its advice differs between places."""
    return error.with_listing(listing) if isinstance(error, MissingCredentials) else error
