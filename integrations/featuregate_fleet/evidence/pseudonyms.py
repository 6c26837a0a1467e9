"""Keyed hashes in place of the names of principals and the addresses of clients, and where a line has a name. Pure.

The same name has the same hash in all tables of one key, so that rows still add up by client. Without the key, names
cannot be tried: the hash is HMAC-SHA-256 (RFC 2104), of which 128 bits are kept.
"""

from __future__ import annotations

import hmac
import json
import re
from typing import Final

from featuregate.errors import ConfigError

HASHED: Final = "hmac:"
"""What each hash begins with."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of all clients of a listener without authentication: it stays, because it names no client."""

_SHORTEST: Final = 16
"""Bytes of a key."""
_DIGITS: Final = 32
_BEFORE_ADDRESS: Final = "/"
"""Coordinators write an address as Java prints it."""
_GOES_ON: Final = (
    r"[\w@/+$#%&~-]"
    r"|[^\x00-\x7f]"  # in Java, \w is ASCII
    r"|[.:']\w"  # otherwise it ends a sentence
    r"|\\+[,+<>;=# ]"  # as distinguished names escape it
    r"|,\s?(?:[A-Z]+|[\d.]+)="  # another part of a distinguished name
)
"""What is still a name, where no quotes are around it."""


class Pseudonyms:
    """The hashes of one key, which no repr shows. Raises ConfigError (anybody may guess the key)."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key.strip()) < _SHORTEST:  # such as a variable that is not set
            problem = f"the key has fewer than {_SHORTEST} bytes: make one by 'openssl rand -hex 32'"
            raise ConfigError("pseudonyms", problem)
        self._key = key

    def __repr__(self) -> str:
        """Return no key."""
        return "Pseudonyms(...)"

    def of(self, name: str) -> str:
        """Return the hash of a principal or an address; `ANONYMOUS`, and what is a hash already, stay as they are."""
        if name == ANONYMOUS or name.startswith(HASHED):
            return name
        digest = hmac.new(self._key, name.removeprefix(_BEFORE_ADDRESS).encode(), "sha256").hexdigest()
        return HASHED + digest[:_DIGITS]


def pattern_of(principal: str) -> str:
    """Return a regular expression, of Python and of Java, for the whole name of a principal in a line.

    The name of another principal may begin or end with this one. Between quotes, as JSON has it, the name ends with
    them; or with the line, which may be cut. Elsewhere a space ends it, so that a name with more words is found, too.
    """
    spellings = {principal, json.dumps(principal, ensure_ascii=False)[1:-1]}
    name = "|".join(re.escape(spelling) for spelling in sorted(spellings))
    return rf'(?<=")(?:{name})(?=\\*"|$)|(?<![\w"-])(?:{name})(?!{_GOES_ON})'
