"""Requests that a client may send in a second. Pure; the clock is passed in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from collections.abc import Callable

_BURST_SECONDS: Final = 2.0
"""Seconds: a client that was silent may send the requests of this time at once, and always at least one."""
_MOST_CLIENTS: Final = 10_000
"""Subjects of tokens are clients, too. The client that was silent for longest is forgotten: it has no debt."""


class Rates:
    """Limits the requests of each client by the generic cell rate algorithm (ITU-T I.371): one number for each."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._paid_until: LRUCache[str, float] = LRUCache(_MOST_CLIENTS)

    def seconds_to_wait(self, client: str, rate: float) -> int:
        """Count a request, and return 0; or the seconds after which the client should come back."""
        now, cost = self._clock(), 1 / rate
        debt = max(self._paid_until.get(client, now) - now, 0) + cost
        early = debt - max(_BURST_SECONDS, cost)
        if early > 0:
            return math.ceil(early)
        self._paid_until[client] = now + debt
        return 0
