"""What can go wrong in the switch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from featuregate.errors import ConfigError, FeatureGateError
from featuregate.printable import shown

if TYPE_CHECKING:
    from confluent_kafka import Message

    from featuregate_confluent.models import Model
    from featuregate_librdkafka.error_table import ErrorAction


class SettingsContradict(ConfigError):
    """A property of the app contradicts what exactly-once needs; it is named, and never overridden in silence."""


class SwitchError(FeatureGateError):
    """The base of what can go wrong in the switch."""


class ModelRefused(SwitchError):
    """The pinned ``model`` is not safe here; ``why`` says what was seen, and what to do."""

    def __init__(self, model: Model, why: str) -> None:
        super().__init__(model, why)
        self.model = model
        self.why = why

    def __str__(self) -> str:
        return f"model {self.model.label} is refused: {self.why}"


class UnknownMark(SwitchError):
    """The mark ``text`` in a committed offset was written by newer software, and may mean more than we know."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return (
            f"a committed offset carries {self.text!r}, which newer software wrote; "
            "upgrade featuregate in this member before it joins the group"
        )


class CommitRefused(SwitchError):
    """The offsets were not sent, or not accepted. ``action`` says what to do, ``why`` what was seen."""

    def __init__(self, action: ErrorAction, why: str) -> None:
        super().__init__(action, why)
        self.action = action
        self.why = why

    def __str__(self) -> str:
        return f"offsets were not committed ({self.action.value}): {self.why}"


class Aborted(SwitchError):
    """The transaction was aborted and its messages will be consumed again. Nothing of it counts; go on."""


class MustRejoin(SwitchError):
    """A member owns nothing any more: it has to leave the group and join it again."""


class InstanceTaken(MustRejoin):
    """Another member has this one's ``group.instance.id``: its session times out, or it is another process's."""


class TakeoverTimedOut(MustRejoin):
    """The committed offsets of new partitions did not settle within their bound."""


class TransformFailed(SwitchError):
    """The app's transform raised. Nothing of its batch counts; the cause is ``__cause__``."""


class RoundTooLong(SwitchError):
    """One message alone takes longer than a limit, so that it can never be committed: to process, or to deliver.

    Attributes
    ----------
    where : str
        The message: ``topic[partition]@offset``.
    seconds : float
        How long that took, the last time.
    limit : str
        The property of the consumer or the producer, and its value: ``max.poll.interval.ms=300000``.
    times : int
        How many rounds in a row had one message only, outlived the limit and were lost. Where records were not
        delivered, at most one message was committed in between.
    undelivered : bool
        Whether brokers did not take the records in time, rather than the app's code being slow.
    """

    def __init__(self, *, where: str, seconds: float, limit: str, times: int, undelivered: bool = False) -> None:
        super().__init__(where, seconds, limit, times)
        self.undelivered = undelivered
        self.where = where
        self.seconds = seconds
        self.limit = limit
        self.times = times

    def __str__(self) -> str:
        name = self.limit.partition("=")[0]
        if self.undelivered:
            return (
                f"the records for the message {self.where} alone were not delivered in {self.seconds:.1f} s, which "
                f"{self.limit} bounds, {self.times} times with at most one message committed in between: raise "
                f"{name}, or look for a quota of the producer (producer_byte_rate), a slow link, or brokers that "
                "do not answer"
            )
        return (
            f"the message {self.where} alone took {self.seconds:.1f} s, longer than {self.limit} allows, {self.times} "
            f"times in a row, and was never committed: raise {name}, or make the transform faster"
        )


class LatchTopicError(SwitchError):
    """The topic that keeps the latch cannot be used as it is."""


class LatchTopicUnreadable(LatchTopicError):
    """The topic that keeps the latch could not be read now. A member joins again, and reads it then."""


class SwitchFatal(SwitchError):
    """Going on would not help: rights are missing, a setting is wrong, or another process has this one's name."""


class RecordRefused(SwitchFatal):
    """The client or the brokers refuse a record that the app gave, and would refuse it each time.

    Attributes
    ----------
    messages : Sequence
        Those that the app processed as one; the record was given for one of them.
    why : str
        What client or broker said.
    """

    def __init__(self, messages: Sequence[Message], why: str) -> None:
        super().__init__(messages, why)
        self.messages = messages
        self.why = why

    def __str__(self) -> str:
        return (
            f"a record for {positions_of(self.messages)} is refused, and nothing of its transaction counts: {self.why}"
        )


def position_of(message: Message) -> str:
    """Return topic, partition and offset of a message."""
    return f"{shown(str(message.topic()))}[{message.partition()}]@{message.offset()}"


def positions_of(messages: Sequence[Message]) -> str:
    """Return where the only message is, or the first and the last."""
    if len(messages) == 1:
        return f"the message {position_of(messages[0])}"
    return f"{len(messages)} messages from {position_of(messages[0])} to {position_of(messages[-1])}"
