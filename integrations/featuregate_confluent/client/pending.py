"""The pending answer of an admin client, and what happens without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from featuregate_confluent.errors import SwitchError
from featuregate_librdkafka.error_codes import TRANSIENT_ERRORS, description_of

T = TypeVar("T")

_GRACE: Final = 1.0  # seconds that an answer may come after librdkafka's own bound
_PAUSE: Final = 0.1
_ATTEMPT: Final = 4.0
UNBOUNDED_SECONDS: Final = 3600.0
"""The ``request_timeout`` of whatever is asked of a group's coordinator; the longest that the client takes.

The bound of the caller applies instead. Where librdkafka gives up such a request while the coordinator is away, and
finds the coordinator later, it aborts the process:
``rd_kafka_enq_once_del_source_return: Assertion `eonce->refcnt > 0' failed``.
"""


class GroupUnreadable(SwitchError):
    """The group could not be read. ``error`` is the client's own, or None where no answer came in time."""

    def __init__(self, what: str, error: KafkaError | None) -> None:
        why = "no answer in time" if error is None else description_of(error)
        super().__init__(f"{what}: {why}")
        self.what = what
        self.error = error


class PendingAnswer(Generic[T]):
    """An answer that has not arrived yet. It arrives or fails within the timeout of its request, and a moment."""

    def __init__(
        self, client: object, future: Future[Any], what: str, read: Callable[[Any], T], timeout: float
    ) -> None:
        self._client: object = client  # collected before the answer, the client would fail it
        self._future = future
        self._what = what
        self._read = read
        self._until = time.monotonic() + timeout + _GRACE

    @property
    def done(self) -> bool:
        """Whether :meth:`result` returns or raises at once."""
        return self._future.done() or time.monotonic() >= self._until

    @property
    def late(self) -> bool:
        """Whether the timeout is over without an answer."""
        return not self._future.done() and time.monotonic() >= self._until

    @property
    def misdirected(self) -> bool:
        """Whether the broker that was asked answered that it does not coordinate the group."""
        failure = self._future.exception() if self._future.done() else None
        return isinstance(failure, KafkaException) and failure.args[0].code() == KafkaError.NOT_COORDINATOR

    def release_client(self) -> None:
        """Release the client although the caller still holds this; an answer that has not arrived is lost."""
        self._client = None

    def result(self) -> T:
        """Wait for the answer and return it. Raises GroupUnreadable, UnknownMark."""
        try:
            answer = self._future.result(max(0.0, self._until - time.monotonic()))
        except FutureTimeout:
            raise GroupUnreadable(self._what, None) from None
        except KafkaException as error:
            raise GroupUnreadable(self._what, error.args[0]) from error
        return self._read(answer)


def ask_until_answered(ask: Callable[[float], T], timeout: float) -> T:
    """Repeat a request until it is answered, fails with an error that is not transient, or runs out of time.

    ``ask`` takes the seconds of an attempt, and raises `GroupUnreadable`. A slow request is repeated, because a client
    may wait for a coordinator that is gone. A client without any broker fails at once, so attempts are a pause apart.
    """
    until = time.monotonic() + timeout
    while True:
        left = max(until - time.monotonic(), _PAUSE)
        try:
            return ask(min(left, _ATTEMPT))
        except GroupUnreadable as error:
            passes = error.error is None or error.error.code() in TRANSIENT_ERRORS
            if not passes or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)


def read_cluster_id(client: Consumer | Producer, topics: Iterable[str], timeout: float) -> str | None:
    """Return the cluster id in the client's own metadata; None: its cluster has none.

    Asks for one of the topics, or for all where each of them is a pattern. Raises `GroupUnreadable`. Not for a callback
    of the same client: confluent-kafka then aborts the process at the next callback of the same call.
    """
    name = next((topic for topic in topics if not topic.startswith("^")), None)

    def ask(seconds: float) -> str | None:
        try:
            # An absent argument, not None, stands for all topics.
            found = client.list_topics(name, timeout=seconds) if name else client.list_topics(timeout=seconds)
        except KafkaException as failure:
            raise GroupUnreadable("the cluster id", failure.args[0]) from failure
        cluster_id: str | None = found.cluster_id
        return cluster_id

    return ask_until_answered(ask, timeout)
