"""Which topics a subscription means; pure."""

from __future__ import annotations

import re
from collections.abc import Callable


def matcher(pattern: str) -> Callable[[str], object]:
    """Return a predicate: whether a topic matches a pattern, which begins with ``^``.

    Consumers match by POSIX's rules in librdkafka, and by RE2/J's on brokers (KIP-848). Where Python might understand
    a pattern otherwise than they do, every topic matches: too many cost time, too few might leave a latch out.
    """
    if re.search(r"\[[:.=]|\\[pPQECXR]|\(\?", pattern):
        return bool
    try:
        return re.compile(pattern).search
    except (re.error, RecursionError, OverflowError):
        return bool
