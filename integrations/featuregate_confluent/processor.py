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

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from confluent_kafka import Consumer, KafkaException, Message

from featuregate.config.providers import without_placeholders
from featuregate.errors import ClosedError, ConfigError
from featuregate.logs import get_logger
from featuregate.printable import harmless
from featuregate_confluent.client.group import matcher
from featuregate_confluent.config.options import SwitchOptions, require_seconds
from featuregate_confluent.errors import MustRejoin, RecordRefused, SwitchFatal
from featuregate_confluent.events import Rejoining
from featuregate_confluent.producing.pipeline import OutputTopics, Pipeline
from featuregate_confluent.records import DeadLetter, RecordLike, check_topic
from featuregate_confluent.switch import ProducerSwitch
from featuregate_confluent.transform import A_FUNCTION, Transform, TransformCalls, is_async

if TYPE_CHECKING:
    from featuregate_confluent.producing.transaction import Transaction


class ExactlyOnceProcessor:
    """Runs a transform exactly once for each message, in the model that cluster and group allow.

    Raises `ConfigError`: a property or parameter cannot be used.

    Parameters
    ----------
    transform
        The app's code: a function.
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
        if isinstance(poison, DeadLetter):
            _require_usable(poison.topic, switch.get("topics"))
        if not callable(transform):
            raise ConfigError("transform", f"must be a function, not {transform!r}")
        if is_async(transform):
            raise ConfigError("transform", f"is a coroutine function: {A_FUNCTION}")
        if type(batch_size) is not int or not 0 < batch_size <= 1_000_000:  # noqa: PLR2004 - what Consumer.consume() takes
            raise ConfigError("batch_size", f"must be between 1 and 1,000,000, not {batch_size!r}")
        require_seconds("linger", linger)
        self._switch = ProducerSwitch(**switch)
        connection = without_placeholders(switch["producer"])
        self._rounds = ProcessorRounds(self._switch, producer=connection, batch_size=batch_size, linger=linger)
        self._transform = transform
        self._dead_letter = poison if isinstance(poison, DeadLetter) else None
        self._began = False
        self._runner: int | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
            The transform raised, or gave what is not a record, and ``poison`` is ``"raise"``.
        RecordRefused
            The client or the brokers refused a record, and ``poison`` is ``"raise"``.
        RoundTooLong
            The transform takes longer than ``max.poll.interval.ms`` for one message.
        ModelRefused, UnknownMark, LatchTopicError, SwitchFatal
            This member must not take part as it is; the message says what to do.
        """
        self._switch.require_own_process()
        if self._began:
            raise ClosedError("a processor runs once; make a new one")
        self._began = True
        self._runner = threading.get_ident()
        try:
            self._rounds.run(TransformCalls(self._transform, self._dead_letter, OutputTopics()))
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Ask :meth:`run` to end after the transaction that is open; from any thread and any signal handler."""
        self._rounds.stop()

    def close(self) -> None:
        """Stop, and wait until everything is closed where another thread runs. Closing twice is closing once."""
        self.stop()
        if not (self._began and self._switch.in_own_process):
            self._switch.close()
        elif self._runner != threading.get_ident() and not self._ended.is_set():
            self._ended.wait()

    def health(self) -> dict[str, Any]:
        """Return the state for a periodic health check, as plain JSON-able values.

        ``status`` is ``starting``, ``ok``, ``waiting`` (nothing may be committed for now, or no input topic exists:
        see ``why``), ``aborting`` (transaction after transaction is aborted, and none is committed: the log says why),
        ``stalled`` (partitions of the group have not moved for longer than ``max.poll.interval.ms``, as ``stalled``
        lists them, or the transform has not returned for as long: see ``why``), ``rejoining`` (the member is replaced,
        or was again and again: see ``why``), ``stopping``, ``stopped`` or ``failed`` (see ``error``). The rest is as
        :meth:`ProducerSwitch.health <featuregate_confluent.ProducerSwitch.health>` says.
        """
        found = self._switch.health()
        rounds, limits = self._rounds, self._switch.rounds.limits
        status = rounds.state
        if status in {"starting", "ok", "rejoining"} and found["waiting"]:
            status = "waiting"
        elif status == "ok" and found["aborting"]:
            status = "aborting"
        elif status == "ok" and found["round_seconds"] > limits.poll:  # nobody but this thread can say it
            lasts = f"this round has lasted {found['round_seconds']:.0f} s, longer than {limits.poll_named}"
            status, found["why"] = "stalled", f"{lasts}: the transform takes long, or hangs"
        elif status == "ok" and any(each["seconds"] > limits.poll for each in found["stalled"]):
            status = "stalled"
        if status == "rejoining":
            found["why"] = rounds.why
        return harmless({"status": status, "error": rounds.error, "rejoins": rounds.rejoins, **found})


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


RESTLESS_SECONDS: Final = 180.0
"""A member that was replaced twice without a commit, the last time not longer ago, is not in order."""
BACKOFF_SECONDS: Final = (0.1, 10.0)
"""Before joining again: the first time, and at the most."""


class ProcessorRounds:
    """What a processor does in the thread that runs it, and how that goes; see :class:`ExactlyOnceProcessor`."""

    def __init__(self, switch: ProducerSwitch, *, producer: Mapping[str, Any], batch_size: int, linger: float) -> None:
        self._switch = switch
        self._connection = producer
        self._batch_size = batch_size
        self._linger = linger
        self._calls: TransformCalls
        self._stopping = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may put into it at any time
        self._state = "starting"
        self._singly = 0
        """Messages to process one by one, because a record for one of them was refused."""
        self.error: str | None = None
        """What ended it before it was stopped."""
        self.rejoins = 0
        """How often in a row the member was replaced, without a commit in between."""
        self._rejoined_at = 0.0
        self.why: str | None = None
        """Why the member was replaced last."""

    @property
    def state(self) -> str:
        """``starting``, ``ok``, ``rejoining``, ``stopping``, ``stopped`` or ``failed``."""
        if self._state == "ok" and self._stopping:
            return "stopping"
        return "rejoining" if self._state == "ok" and self._restless else self._state

    @property
    def _restless(self) -> bool:
        """Whether the member is replaced again and again: each new one is in order until it fails as the last one."""
        return self.rejoins > 1 and time.monotonic() - self._rejoined_at < RESTLESS_SECONDS

    def stop(self) -> None:
        """End after the transaction that is open; from any thread and any signal handler."""
        self._stopping = True
        self._wake.put(None)

    def run(self, calls: TransformCalls) -> None:
        """Process in the calling thread until :meth:`stop`; then close the switch."""
        self._calls = calls
        try:
            calls.require_letter_topic(self._connection)
            while not self._stopping:
                try:
                    self._take_part()
                except MustRejoin as why:
                    self._wait_to_rejoin(why)
            self._state = "stopped"
        except BaseException as error:
            self._state, self.error = "failed", f"{type(error).__name__}: {error}"
            raise
        finally:
            self._switch.close()

    def _take_part(self) -> None:
        """Be a member of the group until the processor is stopped, or the member is replaced."""
        config, logger = self._switch.consumer_config, get_logger("featuregate.confluent.consumer")
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
        size = self._switch.round_size(self._batch_size)
        messages = self._switch.consume(1 if self._singly else size, self._linger)
        if self._switch.generation >= 0:
            self._state = "ok"
        committed, aborted = self._switch.committed, self._switch.aborted
        self._calls.begin_round()
        try:
            self._process(messages)
        except RecordRefused as refused:
            self._singly = self._calls.refused(refused)
        if self._switch.aborted > aborted:
            self._calls.forget_topics()
        elif messages:
            self._singly = max(0, self._singly - len(messages))
            self._calls.committed(messages)
        if self._switch.committed > committed:
            self.rejoins = 0

    def _process(self, messages: Sequence[Message]) -> None:
        with Pipeline() as pipeline:
            for transaction in self._switch.transactions(messages):
                self._process_as_one(transaction, pipeline)
                if self._stopping or self._switch.rounds.late:
                    return  # whatever is left of the round was not begun, and comes again

    def _process_as_one(self, transaction: Transaction, pipeline: Pipeline) -> None:
        # Before it begins: brokers wait for the commit, not for the app.
        prepared = self._calls.records(transaction.messages, transaction.producer)
        transaction.events = prepared.events
        with transaction:
            _produce(transaction, prepared.records)
            pipeline.commit(transaction)

    def _wait_to_rejoin(self, why: MustRejoin) -> None:
        self._state = "rejoining"
        self.rejoins += 1
        self._rejoined_at, self.why = time.monotonic(), str(why)
        self._switch.emit(Rejoining(why=str(why), attempt=self.rejoins))
        first, most = BACKOFF_SECONDS
        with suppress(Empty):
            self._wake.get(timeout=min(first * 2 ** min(self.rejoins - 1, 10), most))


def _produce(transaction: Transaction, records: Iterable[RecordLike]) -> None:
    """Produce the records of a transform; raises RecordRefused where the client cannot read one."""
    try:
        for record in records:
            transaction.produce(*record)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordRefused(transaction.messages, f"{type(error).__name__}: {error}") from error
