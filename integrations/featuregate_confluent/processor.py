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
from types import TracebackType
from typing import Any, Self, Unpack

from featuregate.errors import ClosedError, ConfigError
from featuregate.printable import harmless
from featuregate_confluent.client.patterns import matcher
from featuregate_confluent.config.options import SwitchOptions, require_seconds
from featuregate_confluent.dead_letters import DeadLetter
from featuregate_confluent.processor_rounds import ProcessorRounds
from featuregate_confluent.producing.output_topics import OutputTopics
from featuregate_confluent.records import check_topic
from featuregate_confluent.switch import ProducerSwitch
from featuregate_confluent.transform import A_FUNCTION, Transform, TransformCalls, is_async


class ExactlyOnceProcessor:
    """Runs a transform exactly once for each message, in the model that cluster and group allow.

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
        self._rounds = ProcessorRounds(self._switch, producer=switch["producer"], batch_size=batch_size, linger=linger)
        self._transform = transform
        self._dead_letter = poison if isinstance(poison, DeadLetter) else None
        self._began = False
        self._runner: int | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            The transform raised, or gave what is no record, and ``poison`` is ``"raise"``.
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
