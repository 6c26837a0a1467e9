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

In an app with an event loop the transform is a coroutine function:

.. code-block:: python

    async with ExactlyOnceProcessor(..., transform=transform) as processor:
        await processor.arun()
"""

from __future__ import annotations

import logging
import threading
from contextlib import nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException

from featuregate.blocking import in_daemon_thread
from featuregate.errors import ClosedError, ConfigError
from featuregate_confluent.config.options import require_seconds
from featuregate_confluent.coroutines import AppLoop, AwaitedTransform
from featuregate_confluent.errors import Aborted, MustRejoin, SwitchFatal
from featuregate_confluent.events import Rejoining
from featuregate_confluent.producing.pipeline import Pipeline
from featuregate_confluent.switch import ProducerSwitch
from featuregate_confluent.transform import DeadLetter, TransformCalls, is_async

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from confluent_kafka import Message

    from featuregate_confluent.config.options import SwitchOptions
    from featuregate_confluent.producing.transaction import Transaction
    from featuregate_confluent.transform import AsyncTransform, Transform

__all__ = ["ExactlyOnceProcessor"]

BACKOFF_SECONDS: Final = (0.1, 10.0)
"""Before joining again: the first time, and at the most."""


class ExactlyOnceProcessor:
    """Runs a transform exactly once for each message, in the model that cluster and group allow.

    Parameters
    ----------
    transform
        The app's code: a function for :meth:`run`, or a coroutine function for :meth:`arun`.
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
        transform: Transform | AsyncTransform,
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
        self._transform = transform
        self._dead_letter = poison if isinstance(poison, DeadLetter) else None
        self._calls: TransformCalls
        self._loop: AppLoop | None = None
        self._awaited: AwaitedTransform | None = None
        self._stopping = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may put into it at any time
        self._began = False
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

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
        self._require_new()
        if is_async(self._transform):
            raise ConfigError("transform", "is a coroutine function, for which run() has no event loop: await arun()")
        self._began = True
        self._run(self._transform)

    async def arun(self) -> None:
        """Process until :meth:`stop`, with the transform in this event loop; then leave the group and close everything.

        The rounds run in a thread beside the loop, as does a transform that is a plain function; ``metrics`` is called
        there. Where this is cancelled, the transforms under way are cancelled, their messages come again, and
        everything is closed before ``CancelledError`` is raised. A second cancellation does not wait for that.

        Raises
        ------
        TransformFailed, RoundTooLong, ModelRefused, UnknownMark, LatchTopicError, SwitchFatal
            As :meth:`run`.
        """
        self._require_new()
        self._began = True
        self._loop = AppLoop()
        if is_async(self._transform):
            transform = self._awaited = AwaitedTransform(self._transform, self._loop, self._switch.rounds)
            await self._loop.run_beside(partial(self._run, transform), self.stop)
        else:
            await self._loop.run_beside(partial(self._run, self._transform), self.stop)

    def stop(self) -> None:
        """Ask :meth:`run` or :meth:`arun` to end after the transaction that is open.

        From any thread, and from signal handlers, those of an event loop as well.
        """
        self._stopping = True
        self._wake.put(None)

    def close(self) -> None:
        """Stop, and wait until everything is closed where another thread runs. Closing twice is closing once.

        Raises
        ------
        RuntimeError
            It would block the event loop that runs the transform: await :meth:`aclose` there.
        """
        self.stop()
        if not self._began:
            self._switch.close()
        elif self._runner != threading.get_ident() and not self._ended.is_set():
            if self._loop is not None and self._loop.is_here:
                raise RuntimeError("this would block the loop that runs the transform: await aclose() instead")
            self._ended.wait()

    async def aclose(self) -> None:
        """Stop, cancel the transforms that are awaited, and wait until everything is closed. Their messages come again.

        To let them end instead, call :meth:`stop` and await :meth:`arun`.
        """
        self.stop()
        if self._loop is not None:
            self._loop.cancel()
        await in_daemon_thread(self.close)

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

    def _require_new(self) -> None:
        if self._began:
            raise ClosedError("a processor runs once; make a new one")

    def _run(self, transform: Transform) -> None:
        """Run to the end, in the calling thread."""
        self._runner = threading.get_ident()
        self._calls = TransformCalls(transform, self._dead_letter, self._switch.emit)
        try:
            while self._going_on:
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

    @property
    def _going_on(self) -> bool:
        return not (self._stopping or (self._loop is not None and self._loop.ended))

    def _take_part(self) -> None:
        """Be a member of the group until the processor is stopped, or the member is replaced."""
        config, logger = self._switch.consumer_config, logging.getLogger("featuregate.confluent.consumer")
        try:
            consumer = Consumer(config, logger=logger)
        except KafkaException as failure:
            raise SwitchFatal(f"the consumer's properties are refused: {failure.args[0].str()}") from failure
        try:
            self._switch.subscribe(consumer)
            while self._going_on:
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
        ahead = nullcontext if self._awaited is None else self._awaited.ahead
        with Pipeline() as pipeline, ahead(self._switch.transactions(messages)) as transactions:
            for transaction in transactions:
                self._process_as_one(transaction, pipeline)
                if not self._going_on or self._switch.rounds.late:
                    return  # whatever is left of the round was not begun, and comes again

    def _process_as_one(self, transaction: Transaction, pipeline: Pipeline) -> None:
        try:
            # Before it begins: brokers wait for the commit, not for the app.
            records = self._calls.records(transaction.messages)
        except Aborted:
            with transaction:  # the round counts as lost, and its messages come again
                raise
        else:
            with transaction:
                for record in records:
                    transaction.produce(*record)
                pipeline.commit(transaction)

    def _wait_to_rejoin(self, why: MustRejoin) -> None:
        self._state = "rejoining"
        self._attempts += 1
        self._switch.emit(Rejoining(why=str(why), attempt=self._attempts))
        first, most = BACKOFF_SECONDS
        with suppress(Empty):
            self._wake.get(timeout=min(first * 2 ** min(self._attempts - 1, 10), most))
