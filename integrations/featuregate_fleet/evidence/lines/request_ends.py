"""Whether a request that goes on in other parts of its line may have come to its end. Pure.

The reader decides. It reads a line from its beginning, so that it is asked where the last part may have ended the
request alone: with each part it would take the square of the time.
"""

from __future__ import annotations

import re
from typing import Final

from featuregate_fleet.evidence.lines.text_format import TEXT_HEADERS, read_tail

_LONGEST_HEADER: Final = max(map(len, TEXT_HEADERS))
_LONGEST_TAIL: Final = 16_384
"""Characters behind the bodies of a request as text: the connection, times, the principal and the listener."""
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|(?P<open>\\?)\Z)', re.DOTALL)
"""A text of JSON, also one that goes on in the next part."""


class RequestEnds:
    """What the parts of one request say of its end."""

    def __init__(self) -> None:
        self._header = ""
        self._recent = ""
        self._depth = 0
        self._open = ""
        """What a text of JSON that goes on begins with: its quote, and a backslash if the part ended with one."""
        self._over = False

    def with_part(self, text: str) -> bool:
        """Return whether the request may end with this part. After the end of a request no part ends it."""
        if self._over or not text:
            return False
        known = len(self._header) >= _LONGEST_HEADER
        self._header += text[: _LONGEST_HEADER - len(self._header)]
        is_text = self._header.startswith(TEXT_HEADERS)
        if is_text or not known:
            self._recent = (self._recent + text)[-_LONGEST_TAIL:]
        if not known or not is_text:
            self._count(text)
        if is_text:
            named = self._header.startswith(TEXT_HEADERS[0])
            self._over = read_tail(self._recent, named_listener=named) is not None
        elif len(self._header) == _LONGEST_HEADER:
            self._over = self._depth <= 0
        return self._over or not known  # how it is spelled may decide alone

    def _count(self, text: str) -> None:
        """Count the objects of JSON that are open, outside of texts."""
        text, self._open, at = self._open + text, "", 0
        for found in _STRING.finditer(text):
            self._depth += _opened(text[at : found.start()])
            at = found.end()
            if found["open"] is not None:
                self._open = '"' + found["open"]
        self._depth += _opened(text[at:])


def _opened(text: str) -> int:
    return text.count("{") - text.count("}")
