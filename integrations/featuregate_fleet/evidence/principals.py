"""Where a line has the name of a principal. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

_GOES_ON: Final = (
    r"[\w@/+$#%&~-]"
    r"|[^\x00-\x7f]"  # in Java, \w is ASCII
    r"|[.:']\w"  # otherwise it ends a sentence
    r"|\\+[,+<>;=# ]"  # as distinguished names escape it
    r"|,\s?(?:[A-Z]+|[\d.]+)="  # another part of a distinguished name
)
"""What is still a name, where no quotes are around it."""


def pattern_of(principal: str) -> str:
    """Return a regular expression, of Python and of Java, for the whole name of a principal in a line.

    The name of another principal may begin or end with this one. Between quotes, as JSON has it, the name ends with
    them; or with the line, which may be cut. Elsewhere a space ends it, so that a name with more words is found, too.
    """
    spellings = {principal, json.dumps(principal, ensure_ascii=False)[1:-1]}
    name = "|".join(re.escape(spelling) for spelling in sorted(spellings))
    return rf'(?<=")(?:{name})(?=\\*"|$)|(?<![\w"-])(?:{name})(?!{_GOES_ON})'
