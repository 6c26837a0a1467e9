"""Notices that a producer may have sent a request twice, so that it must not begin another transaction.

librdkafka repeats a request whose connection broke. The first copy may still reach the broker, while the next
transaction is open. Both transactions have the epoch of the producer, since librdkafka has no KIP-890: the broker then
commits or aborts the next transaction, or takes old offsets into it. After ``init_transactions()`` of a new producer
brokers refuse the copy.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

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
    """The logger of one producer: create the producer with :meth:`config`, and ask for :attr:`doubt`.

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
