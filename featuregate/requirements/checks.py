"""Checks of the names and numbers in requirements: its text must be able to hold them."""

from __future__ import annotations

from typing import Final

from featuregate.catalog import METADATA_VERSION, metadata_level_named
from featuregate.errors import RequirementError

MAX_LEVEL: Final = 32767
"""Levels and versions are int16 in Kafka's protocol."""
_NEVER_IN_A_NAME: Final = " ()&|<>=!:"
_NEVER_IN_A_VALUE: Final = " ()&|<>=!,"


def checked_name(name: object) -> str:
    """Return a feature's name as a plain str, if the text of a requirement can hold it."""
    return _checked_word(name, "a feature's name", _NEVER_IN_A_NAME)


def checked_config_name(name: object) -> str:
    """Return the name of a broker's config as a plain str, if the text of a requirement can hold it."""
    return _checked_word(name, "a config", _NEVER_IN_A_NAME)


def checked_config_value(value: object) -> str:
    """Return one value of a config as a plain str: one element, where the config is a list."""
    return _checked_word(value, "the value of a config", _NEVER_IN_A_VALUE)


def _checked_word(word: object, what: str, never: str) -> str:
    if not isinstance(word, str):
        raise TypeError(f"{what} is a text, not {word!r}")
    if not word or not word.isprintable() or any(character in never for character in word):
        problem = f"{what} has at least one character, each can be printed, and none is a space or one of {never[1:]}"
        raise RequirementError(word, 0, problem)
    return str.__str__(word)  # an enum's member shows its own name instead


def checked_api_key(key: object) -> int:
    """Return the key of an API as a plain int."""
    return checked_number(key, "api:", lowest=0, what="an API key")


def checked_number(number: object, before: str, *, lowest: int, what: str) -> int:
    """Return a number as a plain int; ``before`` is the text in front of it in the requirement."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} is an int, not {number!r}")
    if not lowest <= number <= MAX_LEVEL:
        raise RequirementError(f"{before}{number}", len(before), f"{what} is from {lowest} to {MAX_LEVEL} here")
    return int(number)


def numbered(feature: str, level: int | str) -> int:
    """Return the number of a level, which requirements store and print: ``3.3-IV3`` is 7.

    Only the levels of ``metadata.version`` have names.
    """
    if not isinstance(level, str) or feature != METADATA_VERSION:
        return level  # type: ignore[return-value]  # checked_number refuses any other text
    try:
        return metadata_level_named(level).level
    except LookupError as error:
        before = f"{feature}>="
        raise RequirementError(f"{before}{level}", len(before), str(error.args[0])) from error
