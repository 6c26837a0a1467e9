"""The calls of a transactional producer, each with a deadline and one kind of error; requests that were doubled."""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from featuregate.calls import NotReturned, Within, call_within
from featuregate_librdkafka.error_table import ErrorAction, ErrorRow, explain, may_arrive_later

SLOW_SECONDS: Final = 5.0
"""For a commit or an abort: a request of it may have timed out and been repeated."""

_LOST: Final = ("FAIL", "REQTMOUT")
"""The facilities of librdkafka's log: a connection failed, and requests timed out (``socket.max.fails=0``: alone)."""
_BEFORE_REQUESTS: Final = re.compile(
    r"in state (INIT|DOWN|TRY_CONNECT|CONNECT|SSL_HANDSHAKE|AUTH_\w+|APIVERSION_QUERY)\b"
)
"""A connection that has no request of a transaction yet: a broker is away, for example."""
_INFO: Final = 6
_NUMBER: Final = re.compile(r"\s*\+?(0x[\da-f]+|\d+)", re.ASCII | re.IGNORECASE)
"""As librdkafka reads a number, which does not look at what follows it."""
_LEVELS: Final = (*[logging.CRITICAL] * 3, logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)
"""What confluent-kafka makes of librdkafka's levels."""


class ConnectionWatch:
    """Notices that a producer may have sent a request twice, so that it must not begin another transaction.

    It is the logger of one producer: create the producer with :meth:`config`, and ask for :attr:`doubt`. librdkafka
    repeats a request whose connection broke. The first copy may still reach the broker, while the next transaction is
    open. Both transactions have the epoch of the producer, since librdkafka has no KIP-890: the broker then commits or
    aborts the next transaction, or takes old offsets into it. After ``init_transactions()`` of a new producer brokers
    refuse the copy.

    ``error_cb`` is not enough: librdkafka 2.16 calls it for some lost connections only, and logs the others at INFO. Of
    errors that repeat it logs the first ones of each 30 s, so a producer has to be replaced after the first. ``doubt``:
    why a request may exist twice. It is set in calls that serve callbacks: poll the producer before you look.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.doubt: str | None = None
        self._logger = logger
        self._least = logging.INFO
        self._hides_closes = False

    def config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties with this logger. It passes on what their ``log_level`` and ``debug`` ask for."""
        given = _NUMBER.match(str(config.get("log_level", _INFO)))
        self._hides_closes = str(config.get("log.connection.close")).strip().lower() in {"false", "f", "0"}
        own = {**config, "logger": self, "log.connection.close": True}
        if given:  # else librdkafka refuses it
            level = int(given[1], 16 if given[1].lower().startswith("0x") else 10)
            self._least = logging.DEBUG if config.get("debug") else _LEVELS[min(level, len(_LEVELS) - 1)]
            own["log_level"] = max(level, _INFO)
        return own

    def log(self, level: int, msg: str, /, *args: object) -> None:
        """Take a line of the client's log."""
        facility, text = args[0], str(args[-1])
        if facility in _LOST and self.doubt is None and not _BEFORE_REQUESTS.search(text):
            self.doubt = text
        hidden = self._hides_closes and facility == "FAIL" and level < logging.ERROR
        if level >= self._least and not hidden:
            self._logger.log(level, msg, *args)

    def took(self, seconds: float) -> None:
        """Note how long a commit or an abort took."""
        if seconds >= SLOW_SECONDS and self.doubt is None:
            self.doubt = f"the end of a transaction took {seconds:.1f} s"


GRACE_SECONDS: Final = 2.0
"""An answer may come later than librdkafka's own bound by this much."""
_ROOM_SECONDS: Final = 0.05
_DELIVERY_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.1
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
STOOD_STILL: Final = "the client waits for a broker that went away"
_UNANSWERED: Final = ErrorRow(ErrorAction.RETRY, STOOD_STILL)
_FULL: Final = ErrorRow(ErrorAction.ABORT, "brokers may take the records of the next attempt")

_filters = Lock()


class CallFailed(Exception):
    """A call of a producer failed, and no attempt before its deadline would help."""

    def __init__(self, row: ErrorRow, why: str, error: KafkaError | None = None) -> None:
        super().__init__(why)
        self.row = row
        self.action = row.action
        self.why = why
        self._error = error

    @classmethod
    def of(cls, failure: KafkaException) -> Self:
        """Return the error for an exception of the client."""
        error: KafkaError = failure.args[0]
        row = explain(error)
        failed = cls(row, f"{error.name()}: {row.reason} ({error.str()})", error)
        failed.__cause__ = failure
        return failed

    @property
    def name(self) -> str:
        """Kafka's name of the error; empty where the client has not returned, or its queue is full."""
        return "" if self._error is None else self._error.name()

    @property
    def is_fenced(self) -> bool:
        """Whether another producer has taken the transactional id, or the transaction has timed out."""
        return self.name in _FENCED

    @property
    def is_fatal(self) -> bool:
        """Whether the client cannot be used any more."""
        return self._error is not None and self._error.fatal()

    @property
    def is_unanswered(self) -> bool:
        """Whether brokers may still act on a request of the call."""
        return self.action is ErrorAction.RETRY or (self._error is not None and may_arrive_later(self._error))

    def __str__(self) -> str:
        return self.why


class TransactionalProducer:
    """A producer with a transactional id. It keeps nothing: make one for each use of the client. Raises CallFailed.

    Calls that wait for brokers are repeated until their deadline where the error allows it. They run in another thread,
    since the client may wait for a broker that is gone, whatever timeout it is given.
    """

    __slots__ = ("_within", "client")

    def __init__(self, client: Producer, within: Within = call_within) -> None:
        self.client = client
        self._within = within

    def initialize(self, seconds: float) -> None:
        """Take the transactional id: this fences the previous producer, and aborts its open transaction."""
        self._retry(self.client.init_transactions, seconds)

    def begin(self) -> None:
        """Begin a transaction."""
        _call(self.client.begin_transaction)

    def poll(self, seconds: float) -> None:
        """Serve callbacks; confluent-kafka raises a fatal error from here, as it passes none to an ``error_cb``."""
        _call(partial(self.client.poll, seconds))

    def send_when_room(self, send: Callable[[], object], seconds: float) -> None:
        """Send a record once the producer's queue has room."""
        deadline = time.monotonic() + seconds
        while True:
            self.poll(_ROOM_SECONDS)
            try:
                _call(send)
            except BufferError as full:
                if time.monotonic() > deadline:
                    raise CallFailed(_FULL, f"the producer's queue was full for {seconds:g} s") from full
            else:
                return

    def send_offsets(self, offsets: list[TopicPartition], metadata: Callable[[], Any], seconds: float) -> None:
        """Add offsets to the transaction, with new metadata of the group for each attempt."""

        def send(left: float) -> None:
            self.client.send_offsets_to_transaction(offsets, metadata(), left)

        self._retry(send, seconds)

    def commit(self, seconds: float) -> None:
        """Commit the transaction."""
        self._retry(self.client.commit_transaction, seconds)

    def abort(self, seconds: float) -> None:
        """Abort the transaction, once brokers have what was sent in it, if they take it within some seconds.

        librdkafka adds a partition to a transaction with the first record for it, and a coordinator that completes the
        transaction before asks it to come again. An abort that overtakes this is refused with INVALID_TXN_STATE, and
        the producer is lost: of 400 aborts within 8 ms of a commit, 220 on Kafka 4.2.0 and 155 on 3.9.2. A transaction
        that has failed has nothing to send, so this costs no time there.
        """
        serve_callbacks(self.client, min(seconds, _DELIVERY_SECONDS))
        self._retry(self.client.abort_transaction, seconds)

    def _retry(self, call: Callable[[float], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            left = max(deadline - time.monotonic(), _LEAST_SECONDS)
            try:
                self._within(left + GRACE_SECONDS, partial(_call, partial(call, left)))
            except NotReturned as stuck:  # no other TimeoutError: a callback of the app may raise one
                raise CallFailed(_UNANSWERED, f"{stuck}: {STOOD_STILL}") from stuck
            except CallFailed as failed:
                if failed.action is not ErrorAction.RETRY or time.monotonic() >= deadline:
                    raise
            else:
                return


def _call(call: Callable[[], object]) -> None:
    try:
        call()
    except KafkaException as failure:
        raise CallFailed.of(failure) from failure


def close_producer(producer: Producer, seconds: float) -> None:
    """Abort an open transaction and close the producer, within a bound. Any thread may call it.

    Raises KafkaException (the producer had failed before. It is closed all the same), TimeoutError (``close()`` has not
    returned within ``seconds``. The producer is left behind, with its threads).
    """

    def close() -> None:
        _run_callbacks(producer, time.monotonic() + seconds)
        _ignore_warnings_of_this_module()
        if hasattr(producer, "close"):  # that of confluent-kafka 2.12 closes with its last reference instead
            producer.close()

    call_within(seconds, close)


def _run_callbacks(producer: Producer, until: float) -> None:
    """Abort, and serve all callbacks, which ``Producer.close()`` does in one call: not after a fatal error."""
    with suppress(KafkaException):  # fatal, no transaction, or no transactional id: close() raises what matters
        producer.abort_transaction(max(until - time.monotonic(), 0.0))
    serve_callbacks(producer, until - time.monotonic())


def _ignore_warnings_of_this_module() -> None:
    """Ignore the warning of ``close()`` that the transaction of a fenced producer cannot be aborted.

    Python attributes the warning to the module that calls ``close()``, which is this one. So a filter that stays
    installed affects no other code, and threads need not restore anything: ``warnings.catch_warnings()`` changes the
    filters of the whole process, and threads that leave it in another order than they entered it restore the wrong
    ones. The filter must come first: where warnings are errors, ``close()`` raises SystemError instead of this one.
    """
    ours = ("ignore", None, RuntimeWarning, re.compile(re.escape(__name__)), 0)
    with _filters:
        if not warnings.filters or warnings.filters[0] != ours:
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=re.escape(__name__))


def serve_callbacks(producer: Producer, seconds: float) -> None:
    """Serve callbacks until nothing is on its way to brokers, for some seconds, in calls that end at an exception.

    ``flush()`` and ``close()`` serve all callbacks in one call. A fatal error that arrives in that call is raised by
    confluent-kafka's own error callback, whether or not the producer has an ``error_cb``, and the delivery reports that
    follow then run with that exception set: each raises ``SystemError: ... returned a result with an exception set``.
    """
    until = time.monotonic() + seconds
    while len(producer) and time.monotonic() < until:
        with suppress(KafkaException):  # the next call of the producer raises it again
            producer.poll(_POLL_SECONDS)
