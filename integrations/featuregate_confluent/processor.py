"""Consume, transform, produce, exactly once: the loop, so that an app brings only its transform.

.. code-block:: python

    def transform(messages):
        return [Record("bills", bill(message.value()), key=message.key()) for message in messages]


    ExactlyOnceProcessor(
        consumer={"bootstrap.servers": "localhost:9092", "group.id": "billing"},
        producer={"bootstrap.servers": "localhost:9092"},
        topics=["orders"],
        app_id="billing",
        transform=transform,
    ).run()
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException

from featuregate.errors import ClosedError, ConfigError
from featuregate_confluent.config.options import require_seconds
from featuregate_confluent.errors import MustRejoin, SwitchFatal
from featuregate_confluent.events import Rejoining
from featuregate_confluent.producing.pipeline import Pipeline
from featuregate_confluent.switch import ProducerSwitch
from featuregate_confluent.transform import DeadLetter, TransformCalls

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from confluent_kafka import Message

    from featuregate_confluent.config.options import SwitchOptions
    from featuregate_confluent.transform import Transform

__all__ = ["ExactlyOnceProcessor"]

logger = logging.getLogger("featuregate.confluent")

BACKOFF_SECONDS: Final = (0.1, 10.0)
"""Before joining again: the first time, and at the most."""


class ExactlyOnceProcessor:
    """Runs a transform exactly once for each message, in the model that cluster and group allow.

    Parameters
    ----------
    transform
        The app's code.
    poison
        What happens to a batch that the transform raises at: ``"raise"`` aborts it and ends :meth:`run` with
        :class:`~featuregate_confluent.errors.TransformFailed`; a :class:`DeadLetter` goes on without the messages.
    batch_size
        Messages in one round, at the most. A round has fewer where messages take long: see
        :meth:`ProducerSwitch.round_size`.
    linger
        Seconds to wait for a round to fill.
    switch
        Everything else is given to :class:`~featuregate_confluent.switch.ProducerSwitch`: ``consumer``, ``producer``,
        ``topics``, ``app_id``, ``model``, ``instance_id``, ``state_dir``, ``latch_topic``, ``metrics`` and more; see
        :class:`~featuregate_confluent.config.options.SwitchOptions`.

    Raises
    ------
    ConfigError
        A property or parameter cannot be used.
    """

    def __init__(
        self,
        *,
        transform: Transform,
        poison: DeadLetter | str = "raise",
        batch_size: int = 500,
        linger: float = 0.2,
        **switch: Unpack[SwitchOptions],
    ) -> None:
        if poison != "raise" and not (isinstance(poison, DeadLetter) and poison.topic):
            raise ConfigError("poison", f'must be "raise" or a DeadLetter with a topic, not {poison!r}')
        if not 0 < batch_size <= 1_000_000:  # noqa: PLR2004 - what Consumer.consume() takes
            raise ConfigError("batch_size", f"must be between 1 and 1,000,000, not {batch_size!r}")
        require_seconds("linger", linger)
        self._batch_size = batch_size
        self._linger = linger
        self._switch = ProducerSwitch(**switch)
        self._transform = TransformCalls(
            transform, poison if isinstance(poison, DeadLetter) else None, self._switch.emit
        )
        self._stopping = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may put into it at any time
        self._runner: int | None = None
        self._ended = threading.Event()
        self._state = "starting"
        self._error: str | None = None
        self._attempts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ExactlyOnceProcessor of {', '.join(self._switch.topics)}: {self._state}, {self._switch.model.label}>"

    @property
    def switch(self) -> ProducerSwitch:
        """What decides on the model."""
        return self._switch

    def run(self) -> None:
        """Process until :meth:`stop`, in the calling thread; then leave the group and close everything.

        Raises
        ------
        TransformFailed
            The transform raised, and ``poison`` is ``"raise"``.
        RoundTooLong
            The transform takes longer than ``max.poll.interval.ms`` for one message.
        ModelRefused, UnknownMark, LatchTopicError, SwitchFatal
            This member must not take part as it is; the message says what to do.
        """
        if self._runner is not None:
            raise ClosedError("a processor runs once; make a new one")
        self._runner = threading.get_ident()
        try:
            while not self._stopping:
                try:
                    self._take_part()
                except MustRejoin as why:
                    self._wait_to_rejoin(why)
            self._state = "stopped"
        except BaseException as error:
            self._state, self._error = "failed", f"{type(error).__name__}: {error}"
            raise
        finally:
            self._switch.close()
            self._ended.set()

    def stop(self) -> None:
        """Ask :meth:`run` to end after the transaction that is open; from any thread, and from signal handlers."""
        self._stopping = True
        self._wake.put(None)

    def close(self) -> None:
        """Stop, and wait until everything is closed where another thread runs. Closing twice is closing once."""
        self.stop()
        if self._runner is None:
            self._switch.close()
        elif self._runner != threading.get_ident():
            self._ended.wait()

    def health(self) -> dict[str, Any]:
        """Return the state for a periodic health check, as plain JSON-able values.

        ``status`` is ``starting``, ``ok``, ``waiting`` (nothing may be committed for now: see ``why``),
        ``rejoining``, ``stopping``, ``stopped`` or ``failed`` (see ``error``). The rest is as
        :meth:`ProducerSwitch.health <featuregate_confluent.ProducerSwitch.health>` says.
        """
        found = self._switch.health()
        status = self._state
        if status == "ok" and self._stopping:
            status = "stopping"
        elif status == "ok" and found["waiting"]:
            status = "waiting"
        return {"status": status, "error": self._error, "rejoins": self._attempts, **found}

    # ------------------------------------------------------------------ the loop

    def _take_part(self) -> None:
        """Be a member of the group until the processor is stopped, or the member is replaced."""
        config, logger = self._switch.consumer_config, logging.getLogger("featuregate.confluent.consumer")
        try:
            consumer = Consumer(config, logger=logger)
        except KafkaException as failure:
            raise SwitchFatal(f"the consumer's properties are refused: {failure.args[0].str()}") from failure
        try:
            self._switch.subscribe(consumer)
            while not self._stopping:
                self._round()
        finally:
            self._switch.leave()

    def _round(self) -> None:
        messages = self._switch.consume(self._switch.round_size(self._batch_size), self._linger)
        if self._switch.generation >= 0:
            self._state = "ok"
        committed = self._switch.committed
        self._process(messages)
        if self._switch.committed > committed:
            self._attempts = 0

    def _process(self, messages: Sequence[Message]) -> None:
        with Pipeline() as pipeline:
            for transaction in self._switch.transactions(messages):
                records = self._transform.records(
                    transaction.messages
                )  # before it begins: brokers wait for the commit, not for the app
                with transaction:
                    for record in records:
                        transaction.produce(*record)
                    pipeline.commit(transaction)
                if self._stopping or self._switch.rounds.late:
                    return  # whatever is left of the round was not begun, and comes again

    def _wait_to_rejoin(self, why: MustRejoin) -> None:
        self._state = "rejoining"
        self._attempts += 1
        self._switch.emit(Rejoining(why=str(why), attempt=self._attempts))
        first, most = BACKOFF_SECONDS
        with suppress(Empty):
            self._wake.get(timeout=min(first * 2 ** min(self._attempts - 1, 10), most))
