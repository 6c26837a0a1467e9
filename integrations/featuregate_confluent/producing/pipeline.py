"""Runs commits of several partitions side by side; and looks whether the topics exist that an app writes to."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from featuregate_confluent.errors import Aborted, MustRejoin, RecordRefused

if TYPE_CHECKING:
    from featuregate_confluent.producing.transaction import Transaction

ABSENT_SECONDS: Final = 5.0
"""Seconds for which a topic may be unknown: a new topic takes a moment to reach all brokers."""
_ASK_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.1
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})


class OutputTopics:
    """The number of partitions of each topic that was looked for, before the first record is sent.

    A client finds out late: it keeps a record for a topic that does not exist until the transaction has timed out, and
    then reports neither the topic nor the record.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._partitions: dict[str, int] = {}
        self._absent: set[str] = set()

    def forget(self) -> None:
        """Look for each topic again: something was aborted."""
        self._partitions.clear()

    def check(self, client: Producer, topic: str, partition: int = -1) -> None:
        """Return if the topic has this partition, or if no broker says that it has not. Raises ValueError."""
        known = self._partitions.get(topic)
        if known is not None and partition < known:
            return
        found = self._ask(client, topic)
        if found is None:
            return  # the transaction finds out
        if not found:
            self._absent.add(topic)
            raise ValueError(f"the topic {topic!r} does not exist: create it, or correct the name")
        self._absent.discard(topic)
        self._partitions[topic] = found
        if partition >= found:
            raise ValueError(f"the topic {topic!r} has no partition {partition}, but {found} from 0 on")

    def _ask(self, client: Producer, topic: str) -> int | None:
        """Return the number of partitions, 0 if there is no such topic, None if no broker says so."""
        until = self._clock() + (0.0 if topic in self._absent else ABSENT_SECONDS)
        while True:
            try:
                found = client.list_topics(topic, _ASK_SECONDS).topics.get(topic)
            except KafkaException:
                return None
            if found is not None and found.error is None:
                return len(found.partitions)
            if found is not None and found.error.code() not in _ABSENT:
                return None  # such as a missing right, of which the transaction tells
            if self._clock() >= until:
                return 0 if found is None or found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
            self._pause(_PAUSE_SECONDS)


AT_ONCE: Final = 16
"""A commit waits for brokers nearly all of the time, but hundreds of threads would cost more than they save."""


class Pipeline:
    """Commits one partition while the app processes the next. When the block ends, all commits have ended.

    .. code-block:: python

        with Pipeline() as pipeline:
            for transaction in switch.transactions(switch.consume(500, 0.2)):
                with transaction:
                    for message in transaction.messages:
                        transaction.produce("bills", message.value(), key=message.key())
                    pipeline.commit(transaction)

    A commit that was aborted is not an error: its messages come again. Where several end otherwise, all are waited for,
    and the gravest error is raised: :class:`~featuregate_confluent.errors.MustRejoin` only where there is no other,
    and :class:`~featuregate_confluent.errors.RecordRefused` only where there is no graver one.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._under_way: deque[Transaction] = deque()

    def commit(self, transaction: Transaction) -> None:
        """Begin to commit a transaction; waits for the oldest one where too many are under way.

        Raises
        ------
        Aborted
            This one was refused, and the consumer is rewound: its messages come again.
        MustRejoin, SwitchFatal
            As :meth:`Transaction.commit`, of this one or of the oldest.
        """
        transaction.start_commit()
        self._under_way.append(transaction)
        if len(self._under_way) > self._at_once:
            self._finish_oldest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, (Exception, GeneratorExit)):
            self._under_way.clear()  # Ctrl-C and the like wait for nothing: the switch leaves them behind
            return
        failures = self._finish_all()
        try:
            gravest = max(failures, key=_gravity, default=None)  # the first one of equals
            if gravest is not None and _gravity(gravest) > _gravity(error):
                raise gravest
        finally:
            failures, gravest = [], None  # tracebacks hold this frame

    def _finish_all(self) -> list[Exception]:
        failures: list[Exception] = []
        while self._under_way:
            try:
                self._finish_oldest()
            except Exception as failure:  # noqa: BLE001 - the gravest one is raised, once all have ended
                failures.append(failure)
        return failures

    def _finish_oldest(self) -> None:
        with suppress(Aborted):
            self._under_way.popleft().finish_commit()


def _gravity(error: BaseException | None) -> int:
    """Return how grave an error is: a refused record can be left out, and a member can join again."""
    match error:
        case None:
            return 0
        case MustRejoin():
            return 1
        case RecordRefused():
            return 2
        case _:
            return 3
