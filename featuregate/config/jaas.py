"""``sasl.jaas.config``: the form in which Java's clients hold credentials.

The grammar is that of ``JaasConfig.java``: ``<class> <flag> (<name>=<value>)* ;``. Java's ``StreamTokenizer`` knows
quotes of both kinds, which end on their line, escapes in them, and comments outside of them, which begin with a slash.
It reads fewer values without quotes than this parser: only those of letters, digits and a few signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from featuregate.errors import ConfigError

KERBEROS_MODULE: Final = "Krb5LoginModule"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_OPTIONS: Final = frozenset(
    {
        *("username", "password", "tokenauth", "clientId", "clientSecret", "scope"),
        *("serviceName", "useKeyTab", "keyTab", "principal", "storeKey", "useTicketCache", "ticketCache"),
    }
)
"""Names of options that an error may show."""
_TOKEN: Final = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?P=quote)
    |(?P<bare>[^\x00-\x20"'=;/]+)
    |(?P<mark>[=;])""",
    re.DOTALL | re.VERBOSE,
)
_BLANK: Final = re.compile(r"[\x00-\x20]*")
_FILE: Final = re.compile(r"[\w.\-]+[\x00-\x20]*\{")
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_IN_QUOTES: Final = 'put the value in quotes: name="value"'


class Login(NamedTuple):
    """A login module and its options, which may hold passwords."""

    module: str
    """The name of the class without its package, such as ``ScramLoginModule``."""
    options: dict[str, str]
    package: str = ""

    def __repr__(self) -> str:
        return f"Login({self.module}, <secret>)"


class _Token(NamedTuple):
    text: str
    quoted: bool
    """Whether it was in quotes: a quoted ``;`` is not the end."""

    def is_mark(self, mark: str) -> bool:
        return self == (mark, False)


def parse_jaas(key: str, text: str, others: Iterable[str] = ()) -> Login:
    """Parse one login module. Errors describe where the text broke, and never repeat it.

    ``others`` are names that no client has for a property. Where this text ends too early, options among them are its
    next lines.
    """
    text = text.strip()
    if text.endswith(";"):
        others = ()
    try:
        return _login(list(_tokens(text)), commented="/" in text)
    except _BrokenError as broken:
        problem = str(broken)
        if _FILE.match(text):
            problem = (
                "is a section of a JAAS file: give what is between its braces alone, "
                'LoginModule required name="value" ...;'
            )
        elif text[:1] in {'"', "'"}:
            problem = "begins with a quote: remove the quotes around the whole text, and keep those of the values"
        elif lost := [name for name in others if name in _OPTIONS or name.endswith("LoginModule")]:
            named = " and ".join(name for name in sorted(lost) if name in _OPTIONS) or "a login module"
            problem = (
                f"ends before its semicolon, and its next line, {named}, is read as a property of its own: end each "
                "line of the text but the last with a backslash"
            )
    raise ConfigError(key, problem)


class _BrokenError(Exception):
    """The text does not follow the grammar; the message does not repeat it."""


def _login(tokens: list[_Token], *, commented: bool) -> Login:
    if len(tokens) < len(("class", "flag")):
        raise _BrokenError('is not of the form: LoginModule required name="value" ...; with a semicolon at the end')
    module, flag = tokens[0].text, tokens[1].text
    if flag.lower() not in _FLAGS:
        raise _BrokenError(f"the second word must be one of: {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and not tokens[at].is_mark(";"):
        name, equals, value = (tokens[at : at + 3] + [_Token("", quoted=False)] * 2)[:3]
        place = f"option {len(options) + 1}" + (f" ({name.text})" if name.text in _OPTIONS else "")
        if name.is_mark("=") or not equals.is_mark("="):
            before = f" after option {len(options)}" if options else ""
            raise _BrokenError(f'has a word{before} that is not of the form name="value": {_IN_QUOTES}, no commas')
        if at + 2 >= len(tokens) or value.is_mark(";") or value.is_mark("="):
            raise _BrokenError(f"{place} has no value{_comment(commented=commented)}: {_IN_QUOTES}")
        if at + 3 < len(tokens) and tokens[at + 3].is_mark("="):
            raise _BrokenError(f"{place} has a second = in a value without quotes: {_IN_QUOTES}")
        options[name.text] = value.text
        at += 3
    if at == len(tokens):
        raise _BrokenError(f"has no semicolon at the end{_comment(commented=commented)}")
    if at + 1 < len(tokens):
        raise _BrokenError(
            f"goes on after its semicolon: give one login module; if the semicolon is a part of a value, {_IN_QUOTES}"
        )
    package, _, simple = module.rpartition(".")
    return Login(simple, options, package)


def _comment(*, commented: bool) -> str:
    return ", where a slash outside of quotes begins a comment" if commented else ""


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _BrokenError("has a quote without its partner on the same line")
        if token["quoted"] is not None:
            yield _Token(_ESCAPE.sub(_unescape, token["quoted"]), quoted=True)
        elif token["comment"] is None:
            yield _Token(token["bare"] or token["mark"], quoted=False)
        blank = _BLANK.match(text, token.end())
        at = blank.end() if blank else token.end()


def _unescape(escape: re.Match[str]) -> str:
    found = escape[1]
    return chr(int(found, 8)) if found[0] in "01234567" else _ESCAPES.get(found, found)
