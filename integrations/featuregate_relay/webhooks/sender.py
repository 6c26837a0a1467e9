"""A thread for each endpoint: it delivers messages, and tries again where that fails. Nothing waits for it."""

from __future__ import annotations

import heapq
import logging
import threading
import time
import traceback
from datetime import UTC, datetime
from random import SystemRandom
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.printable import printable
from featuregate_relay.webhooks.delivery import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate_relay.webhooks.delivery import Endpoint
    from featuregate_relay.webhooks.messages import Message

_RANDOM = SystemRandom()

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
RETRY_SECONDS: Final = (
    5.0,
    5 * _MINUTE,
    30 * _MINUTE,
    *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24)),
)
"""Between attempts, as Standard Webhooks recommends: about three days. Each is up to a tenth longer, at random."""
_JITTER: Final = 0.1
_MOST_PENDING: Final = 1000
_CLOSE_SECONDS: Final = 1.0

logger = logging.getLogger("featuregate")


class _Due(NamedTuple):
    at: float
    number: int
    """Of the message, so that those that are due together go in their order."""
    failed: int
    """Attempts that have failed."""
    message: Message


class Deliveries(NamedTuple):
    """The messages of an endpoint in numbers."""

    pending: int
    delivered: int
    failed: int
    """Attempts that have failed; most messages are delivered by a later one."""
    dropped: int
    """Messages that are given up."""


class Sender:
    """Delivers the messages of one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _RANDOM.random,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._chance = chance
        self._pending: list[_Due] = []
        self._numbers = 0
        self._delivered = self._failed = self._dropped = 0
        self._open = True
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"featuregate-webhook-{endpoint.name}", daemon=True)

    @property
    def name(self) -> str:
        """The name of the endpoint."""
        return self._endpoint.name

    @property
    def pending(self) -> int:
        """The number of messages that are not delivered yet."""
        return len(self._pending)

    def deliveries(self) -> Deliveries:
        """Return the current numbers of messages."""
        with self._changed:
            return Deliveries(len(self._pending), self._delivered, self._failed, self._dropped)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def send(self, message: Message) -> None:
        """Deliver a message later. Where too many are pending, the one that was tried most often is dropped."""
        with self._changed:
            if not self._open:
                return
            if len(self._pending) >= _MOST_PENDING:
                worst = max(self._pending, key=lambda due: (due.failed, -due.number))
                self._pending.remove(worst)
                heapq.heapify(self._pending)
                self._dropped += 1
                self._warn(worst.message, f"{_MOST_PENDING} others are pending")
            self._numbers += 1
            heapq.heappush(self._pending, _Due(self._clock(), self._numbers, 0, message))
            self._changed.notify()

    def close(self) -> None:
        """Stop. An attempt that is under way has a second to end; what is pending is dropped."""
        with self._changed:
            self._open = False
            self._pending.clear()
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            self._ended(due, self._attempt(due.message))

    def _attempt(self, message: Message) -> Attempt:
        """Deliver a message. An error of the relay itself is a failed attempt, and not the end of all deliveries."""
        try:
            return self._endpoint.deliver(message, datetime.now(UTC))
        except Exception as error:  # noqa: BLE001 - whatever it is
            # Not its text, which may hold the URL, and that a secret.
            where = "".join(traceback.format_tb(error.__traceback__))
            logger.error("webhook %s: %s in\n%s", self._endpoint.name, type(error).__name__, where)  # noqa: TRY400 - as said
            return Attempt(delivered=False, problem=f"the relay failed by {type(error).__name__}")

    def _next(self) -> _Due | None:
        """Wait for the next message that is due; None once the sender is closed."""
        with self._changed:
            while self._open:
                left = self._pending[0].at - self._clock() if self._pending else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._pending)
                self._changed.wait(left)
            return None

    def _ended(self, due: _Due, attempt: Attempt) -> None:
        with self._changed:
            if attempt.delivered:
                self._delivered += 1
                return
            self._failed += 1
            if attempt.gone:
                self._open = False
                self._dropped += 1 + len(self._pending)
                self._pending.clear()
                self._warn(due.message, "the endpoint is gone (410), and gets no further messages until a restart")
            elif due.failed >= len(RETRY_SECONDS):
                self._dropped += 1
                self._warn(due.message, f"{attempt.problem}, at the last of {due.failed + 1} attempts")
            elif self._open:
                if due.failed == 0:
                    self._warn(due.message, f"{attempt.problem}; it is tried again for three days")
                delay = max(RETRY_SECONDS[due.failed] * (1 + _JITTER * self._chance()), attempt.retry_after)
                heapq.heappush(self._pending, due._replace(at=self._clock() + delay, failed=due.failed + 1))

    def _warn(self, message: Message, problem: str) -> None:
        logger.warning("webhook %s: %s was not delivered: %s", self._endpoint.name, message.kind, printable(problem))
