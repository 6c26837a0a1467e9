"""How a producer is closed: within a bound, also after a fatal error, from any number of threads."""

from __future__ import annotations

import re
import time
import warnings
from contextlib import suppress
from threading import Lock

from confluent_kafka import KafkaException, Producer

from featuregate_librdkafka.callbacks import serve_callbacks
from featuregate_librdkafka.calls import call_within

_filters = Lock()


def close_producer(producer: Producer, seconds: float) -> None:
    """Abort an open transaction and close the producer.

    Raises
    ------
    KafkaException
        The producer had failed before. It is closed all the same.
    TimeoutError
        ``close()`` has not returned within so many seconds. The producer is left behind, with its threads.
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
