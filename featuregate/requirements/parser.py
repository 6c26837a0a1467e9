"""Parse the text of requirements.

.. code-block:: text

    requirement = all, { "|", all } ;
    all         = one, { "&", one } ;
    one         = "(", requirement, ")" | condition ;

`docs/requirement_forms.py` has the forms of a condition.

A bare name is a preset, an API (in any case, with or without underscores) or a known feature (spelled exactly). An
unknown name is an error, because a misspelt feature would keep a gate closed for ever. Write ``feature:NAME`` and
``api:KEY`` for a name or a key that is newer than the catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from featuregate.catalog import API_NAMES, METADATA_VERSION, api_key, close_to, features
from featuregate.errors import RequirementError, UnknownApi
from featuregate.patterns import pattern
from featuregate.requirements import presets
from featuregate.requirements.handles import Api, Config, Feature
from featuregate.requirements.language import MAX_DEPTH, And, Or, Release, Requirement

T = TypeVar("T")

_TOKEN: Final = pattern(r">=|&&?|\|\|?|[()]|[<>=!]+|[^\s()&|<>=!]+")
_RANGE: Final = pattern(r"([0-9]{1,9})\.\.([0-9]{1,9})")
_NUMBER: Final = pattern(r"-?[0-9]{1,9}")
_NAME: Final = pattern(r"[0-9]+[.]")
"""Start of the name of a level, such as ``3.3-IV3``."""
_RELEASE: Final = pattern(r"[0-9]+\.[0-9]+(\.[0-9]+)*")
_CONFIG: Final = "config:"
_SPELLED: Final = {"&&": "&", "and": "&", "AND": "&", "||": "|", "or": "|", "OR": "|"}


class _Token(NamedTuple):
    text: str
    at: int


def parse(text: str) -> Requirement:
    """Read a requirement from text, such as ``kip447`` or ``group.version>=1 & ConsumerGroupHeartbeat>=0``.

    ``&`` binds tighter than ``|``. The name of a preset parses as the preset. The text of any requirement parses as an
    equal one; the text of a preset parses as the requirement that it names.

    Raises `RequirementError`: the text does not parse; the error has the position, and a note with the text and a caret
    below it.
    """
    if not isinstance(text, str):
        raise TypeError(f"a requirement is parsed from text, not from {text!r}")
    try:
        return _Parser(text).whole()
    except RequirementError as error:
        error.add_note(f"{error.text}\n{' ' * error.position}^")
        raise


def as_requirement(requirement: Requirement | str) -> Requirement:
    """Return a requirement as it is, and parse one that is text.

    Raises `RequirementError`: the text does not parse.
    Raises `TypeError`: it is neither a requirement nor a text.
    """
    if isinstance(requirement, str):
        return parse(requirement)
    if not isinstance(requirement, Requirement):
        raise TypeError(
            f"{requirement!r} is not a requirement: give one such as Feature('group.version') >= 1, or a text"
        )
    return requirement


class _Parser:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [_Token(match[0], match.start()) for match in _TOKEN.finditer(text)]
        self.next = 0
        self.depth = 0

    def whole(self) -> Requirement:
        """Read all of the text."""
        requirement = self.any()
        if (left := self.peek()).text:
            self.fail(left, f"expected & or |, not {left.text!r}{self.instead(left)}")
        return requirement

    def any(self) -> Requirement:
        """Read requirements with ``|`` between them."""
        parts = self.parts("|", self.all)
        return parts[0] if len(parts) == 1 else Or(parts)

    def all(self) -> Requirement:
        """Read requirements with ``&`` between them."""
        parts = self.parts("&", self.one)
        return parts[0] if len(parts) == 1 else And(parts)

    def parts(self, between: str, read: Callable[[], Requirement]) -> tuple[Requirement, ...]:
        """Read one or more, separated by the sign."""
        parts = [read()]
        while self.peek().text == between:
            self.take()
            parts.append(read())
        return tuple(parts)

    def one(self) -> Requirement:
        """Read a condition, or a requirement in parentheses."""
        token = self.take()
        if token.text != "(":
            return self.condition(token)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(token, f"parentheses are nested deeper than {MAX_DEPTH}")
        requirement = self.any()
        self.expect(")")
        self.depth -= 1
        return requirement

    def condition(self, name: _Token) -> Requirement:
        """Read a condition whose name has just been taken."""
        if not name.text:
            self.fail(name, "expected a condition, but the text ends")
        if name.text[0] in "()&|<>=!":
            self.fail(name, f"expected a preset, a feature, an API or release, not {name.text!r}")
        if name.text == "release":
            self.expect(">=")
            return self.release(name)
        if (preset := presets.by_name(name.text)) is not None:
            return preset
        if name.text.startswith(_CONFIG):
            return self.config(name)
        handle = self.handle(name)
        if isinstance(handle, Api) and self.peek().text == "in":
            self.take()
            return self.between(handle, name)
        self.expect(">=")
        return self.level(handle, handle.__ge__)

    def config(self, name: _Token) -> Requirement:
        """Read what follows the name of a config."""
        handle = self.build(lambda: Config(name.text.removeprefix(_CONFIG)), name)
        self.expect("has")
        value = self.take()
        if not value.text:
            self.fail(value, f"expected a value, such as {name.text} has consumer")
        return self.build(lambda: handle.has(value.text), value)

    def level(self, handle: Feature | Api, make: Callable[[Any], Requirement]) -> Requirement:
        """Read the level or version at the end of a condition."""
        level = self.take()
        if isinstance(handle, Feature) and handle.name == METADATA_VERSION and _NAME.match(level.text):
            return self.build(lambda: make(level.text), level)
        if not _NUMBER.fullmatch(level.text):
            self.fail(level, f"expected a number, not {level.text!r}" if level.text else "expected a number")
        return self.build(lambda: make(int(level.text)), level)

    def between(self, api: Api, name: _Token) -> Requirement:
        """Read what follows ``in``."""
        token = self.take()
        found = _RANGE.fullmatch(token.text)
        if found is None:
            self.fail(token, f"expected a range of versions, such as {name.text} in 4..11")
        return self.build(lambda: api.between(int(found[1]), int(found[2])), token)

    def release(self, name: _Token) -> Requirement:
        """Read what follows ``release>=``."""
        token = self.take()
        if not _RELEASE.fullmatch(token.text):
            self.fail(token, f"expected a release, such as {name.text}>=3.9")
        return self.build(lambda: Release(token.text), token)

    def handle(self, name: _Token) -> Feature | Api:
        """Tell features from APIs."""
        prefix, colon, rest = name.text.partition(":")
        if colon and prefix == "feature":
            return self.build(lambda: Feature(rest), name)
        if name.text in features():
            return Feature(name.text)
        try:
            return self.build(lambda: Api(api_key(name.text)), name)
        except UnknownApi:
            if _RELEASE.fullmatch(name.text):
                self.fail(name, f"a release is written release>={name.text}")
            named = (preset.name for preset in presets.all())
            close = close_to(name.text, (*features(), *API_NAMES.values(), *named))
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            new = f"(write feature:{rest or name.text} for a feature that is newer than the catalog)"
            self.fail(name, f"{name.text!r} is not a known preset, API or feature{hint} {new}")

    def build(self, make: Callable[[], T], at: _Token) -> T:
        """Make a part; an error about it gets the position in this text."""
        try:
            return make()
        except RequirementError as error:
            raise RequirementError(self.text, at.at, error.problem) from None

    def peek(self) -> _Token:
        """Return the next token without taking it; an empty one at the end."""
        return self.tokens[self.next] if self.next < len(self.tokens) else _Token("", len(self.text.rstrip()))

    def take(self) -> _Token:
        """Take the next token."""
        token = self.peek()
        self.next += 1
        return token

    def expect(self, sign: str) -> None:
        """Take this sign, or fail."""
        token = self.take()
        if token.text != sign:
            said = f", not {token.text!r}" if token.text else ""
            self.fail(token, f"expected {sign!r}{said}{self.instead(token)}")

    def instead(self, token: _Token) -> str:
        """Return what to write in place of a sign of other languages."""
        return f": write {_SPELLED[token.text]}" if token.text in _SPELLED else ""

    def fail(self, token: _Token, problem: str) -> NoReturn:
        """Raise the error of a token."""
        raise RequirementError(self.text, token.at, problem)
