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

import threading
from contextlib import nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from featuregate.blocking import in_daemon_thread
from featuregate.errors import ClosedError, ConfigError
from featuregate.printable import harmless
from featuregate_confluent.client.patterns import matcher
from featuregate_confluent.config.options import SwitchOptions, require_seconds
from featuregate_confluent.coroutines import AppLoop, AwaitedTransform
from featuregate_confluent.dead_letters import DeadLetter
from featuregate_confluent.processor_rounds import Ahead, ProcessorRounds
from featuregate_confluent.producing.output_topics import OutputTopics
from featuregate_confluent.records import check_topic
from featuregate_confluent.switch import ProducerSwitch
from featuregate_confluent.transform import AsyncTransform, Transform, TransformCalls, is_async


class ExactlyOnceProcessor:
    """Runs a transform exactly once for each message, in the model that cluster and group allow.

    Parameters
    ----------
    transform
        The app's code: a function for :meth:`run`, or a coroutine function for :meth:`arun`.
    poison
        What happens to a message that the transform raises at, or that leads to a record that client or brokers
        refuse: ``"raise"`` aborts its batch and ends :meth:`run` with
        :class:`~featuregate_confluent.errors.TransformFailed` or
        :class:`~featuregate_confluent.errors.RecordRefused`; a :class:`DeadLetter` goes on without the message.
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
        if isinstance(poison, DeadLetter):
            _require_usable(poison.topic, switch.get("topics"))
        if not callable(transform):
            raise ConfigError("transform", f"must be a function, not {transform!r}")
        if type(batch_size) is not int or not 0 < batch_size <= 1_000_000:  # noqa: PLR2004 - what Consumer.consume() takes
            raise ConfigError("batch_size", f"must be between 1 and 1,000,000, not {batch_size!r}")
        require_seconds("linger", linger)
        self._switch = ProducerSwitch(**switch)
        self._rounds = ProcessorRounds(self._switch, producer=switch["producer"], batch_size=batch_size, linger=linger)
        self._transform = transform
        self._dead_letter = poison if isinstance(poison, DeadLetter) else None
        self._loop: AppLoop | None = None
        self._began = False
        self._runner: int | None = None
        self._ended = threading.Event()

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
        switch = self._switch
        return f"<ExactlyOnceProcessor of {', '.join(switch.topics)}: {self._rounds.state}, {switch.model.label}>"

    @property
    def switch(self) -> ProducerSwitch:
        """What decides on the model."""
        return self._switch

    def run(self) -> None:
        """Process until :meth:`stop`, in the calling thread; then leave the group and close everything.

        Raises
        ------
        TransformFailed
            The transform raised, or gave what is no record, and ``poison`` is ``"raise"``.
        RecordRefused
            The client or the brokers refused a record, and ``poison`` is ``"raise"``.
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
            transform = AwaitedTransform(self._transform, self._loop, self._switch.rounds)
            await self._loop.run_beside(partial(self._run, transform, transform.ahead), self.stop)
        else:
            await self._loop.run_beside(partial(self._run, self._transform), self.stop)

    def stop(self) -> None:
        """Ask :meth:`run` or :meth:`arun` to end after the transaction that is open.

        From any thread, and from signal handlers, those of an event loop as well.
        """
        self._rounds.stop()

    def close(self) -> None:
        """Stop, and wait until everything is closed where another thread runs. Closing twice is closing once.

        Raises
        ------
        RuntimeError
            It would block the event loop that runs the transform: await :meth:`aclose` there.
        """
        self.stop()
        if not (self._began and self._switch.in_own_process):
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

        ``status`` is ``starting``, ``ok``, ``waiting`` (nothing may be committed for now, or no input topic exists:
        see ``why``), ``aborting`` (transaction after transaction is aborted, and none is committed: the log says why),
        ``stalled`` (partitions of the group have not moved for longer than ``max.poll.interval.ms``, as ``stalled``
        lists them), ``rejoining`` (the member is replaced, or was again and again: see ``why``), ``stopping``,
        ``stopped`` or ``failed`` (see ``error``). The rest is as
        :meth:`ProducerSwitch.health <featuregate_confluent.ProducerSwitch.health>` says.
        """
        found = self._switch.health()
        rounds = self._rounds
        status = rounds.state
        if status in {"starting", "ok", "rejoining"} and found["waiting"]:
            status = "waiting"
        elif status == "ok" and found["aborting"]:
            status = "aborting"
        elif status == "ok" and any(each["seconds"] > self._switch.rounds.limits.poll for each in found["stalled"]):
            status = "stalled"
        if status == "rejoining":
            found["why"] = rounds.why
        return harmless({"status": status, "error": rounds.error, "rejoins": rounds.rejoins, **found})

    def _require_new(self) -> None:
        self._switch.require_own_process()
        if self._began:
            raise ClosedError("a processor runs once; make a new one")

    def _run(self, transform: Transform, ahead: Ahead = nullcontext) -> None:
        """Run to the end, in the calling thread."""
        self._runner = threading.get_ident()
        try:
            calls = TransformCalls(transform, self._dead_letter, OutputTopics())
            self._rounds.run(calls, ahead=ahead, loop=self._loop)
        finally:
            self._ended.set()


def _require_usable(dead_letter_topic: str, topics: object) -> None:
    """Return if dead letters can go to this topic; raise `ConfigError` otherwise."""
    try:
        check_topic(dead_letter_topic)
    except (TypeError, ValueError) as error:
        raise ConfigError("poison", f"must be a DeadLetter with the name of a topic: {error}") from None
    read = topics if isinstance(topics, list | tuple) else ()
    if any(isinstance(topic, str) and _reads(topic, dead_letter_topic) for topic in read):
        raise ConfigError("poison", f"sends dead letters to {dead_letter_topic!r}, which this processor reads")


def _reads(topic: str, name: str) -> bool:
    """Return whether a topic of a subscription, or a pattern that Python is known to read alike, is this name."""
    if not topic.startswith("^"):
        return topic == name
    found = matcher(topic)
    return found is not bool and bool(found(name))
