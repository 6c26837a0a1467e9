"""Runs commits of several partitions side by side."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from featuregate_confluent.errors import Aborted, MustRejoin, RecordRefused

if TYPE_CHECKING:
    from featuregate_confluent.producing.transaction import Transaction

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
