"""``sasl.jaas.config``: the form in which Java's clients hold credentials.

The grammar is that of ``JaasConfig.java``: ``<class> <flag> (<name>=<value>)* ;``, values bare or in quotes, of which
Java's ``StreamTokenizer`` knows both kinds.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from featuregate.errors import ConfigError

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s*(?:(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)|(?P<bare>[^\s"'=;]+)|(?P<mark>[=;]))""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Login(NamedTuple):
    """A login module and its options, which may hold passwords."""

    module: str
    """The name of the class without its package, such as ``ScramLoginModule``."""
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module}, <secret>)"


def parse_jaas(key: str, text: str) -> Login:
    """Parse one login module. Errors describe the expected form, and never repeat the text."""
    tokens = _tokens(key, text)
    if len(tokens) < len(("class", "flag", ";")) or tokens[-1] != (";", False):
        raise ConfigError(key, 'is not of the form: LoginModule required name="value" ...; with a semicolon at the end')
    module, flag = tokens[0][0], tokens[1][0]
    if flag.lower() not in _FLAGS:
        raise ConfigError(key, f"the second word must be one of: {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for at in range(0, len(rest), 3):
        match rest[at : at + 3]:
            case [(name, _), ("=", False), (value, _)]:
                options[name] = value
            case _:
                raise ConfigError(key, f'option {at // 3 + 1} is not of the form name="value"')
    return Login(module.rpartition(".")[2], options)


def _tokens(key: str, text: str) -> list[tuple[str, bool]]:
    """Split into words and signs, each with whether it was in quotes: a quoted ``;`` is not the end."""
    found: list[tuple[str, bool]] = []
    at, text = 0, text.strip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ConfigError(key, "has a quote without its partner")
        if token["quoted"] is not None:
            found.append((re.sub(r"\\(.)", _unescape, token["quoted"], flags=re.DOTALL), True))
        else:
            found.append((token["bare"] or token["mark"], False))
        at = token.end()
    return found


def _unescape(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[1])
