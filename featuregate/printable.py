"""Make text from outside fit for an error, one line of a log, a decision and health.

Errors, loggers (`featuregate.logs`), decisions and health pass every text through `fit`, wherever it comes from. Doors
that know a peer's text cut it shorter with `shown`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar, cast

from featuregate.budgets import LONGEST_SAID, LONGEST_TEXT, MOST_NAMED
from featuregate.patterns import pattern

T = TypeVar("T")
_WORD: Final = pattern(r"\S+")
_DUMP_BEGINS: Final = "Request(processor="
_DUMP: Final = pattern(r"(?:Request )?Request\(processor=.*\)(?= )")
_SCHEME_END: Final = pattern(r"(?<=[a-z0-9+.\-])(?<!file):(?:/{1,2}|\\\\)", re.IGNORECASE)


def printable(text: str) -> str:
    """Escape line breaks and control characters: a peer's text must not steer a terminal, or forge a line of a log.

    Of a URI with a user part, only the scheme and what follows the last ``@`` are left.
    """
    text = without_users(text)
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def without_users(text: str) -> str:
    """Leave out what stands before the last ``@`` of each URI: names, passwords and keys, which may hold any sign."""
    return _WORD.sub(_without_user, text) if "@" in text and (":/" in text or ":\\\\" in text) else text


def _without_user(found: re.Match[str]) -> str:
    word = found[0]
    scheme, at = _SCHEME_END.search(word), word.rfind("@")
    return word if scheme is None or scheme.end() > at else word[: scheme.end()] + word[at + 1 :]


def without_dump(text: str) -> str:
    """Leave out the fields of ``Request(processor=0, ...)``, some 400 characters, by which Kafka names a request."""
    return _DUMP.sub("Request", text) if _DUMP_BEGINS in text else text


def fit(text: str, longest: int = LONGEST_SAID) -> str:
    """Escape control characters, and cut what is longer. A text that was fit stays as it is."""
    text = without_users(text)  # before the cut, which might leave a part of a password
    if len(text) <= longest and text.isprintable():
        return text
    start = printable(text[:longest])
    if len(text) <= longest and len(start) <= longest:
        return start
    note = f"... (of {len(text)} characters)"
    return start[: longest - len(note)] + note


def harmless(value: T) -> T:
    """Make each text fit in a value as JSON has them: texts, lists, tuples and mappings, and what they hold."""
    return cast("T", _harmless(value))


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return fit(value)
    if type(value) in (list, tuple):
        return type(value)(map(_harmless, value))
    if type(value) is dict:
        return {_harmless(name): _harmless(each) for name, each in value.items()}
    return value


def shown(text: str, longest: int = LONGEST_TEXT) -> str:
    """Cut a long text, and replace control characters, which a terminal would obey."""
    text = without_dump(without_users(text))
    start = "".join(character if character.isprintable() else "?" for character in text[:longest])
    return start + ("..." if len(text) > longest else "")


def as_unicode(text: str) -> str:
    """Escape what UTF-8 cannot carry: texts of the environment, of arguments and of paths may have any bytes."""
    return text.encode(errors="backslashreplace").decode()


def some(names: Iterable[str], at_most: int = MOST_NAMED, separator: str = ", ") -> str:
    """Join the first of many names, and say how many more there are."""
    every = list(names)
    more = len(every) - at_most
    return separator.join(every) if more <= 0 else f"{separator.join(every[:at_most])} and {more} more"
