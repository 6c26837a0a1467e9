"""What happened in the switch, as values: the one argument of the metrics hook, and what the log lines say. Pure.

Each event is logged once, as ``key=value`` pairs behind its name, to the logger ``featuregate.confluent``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

from featuregate.logs import get_logger

if TYPE_CHECKING:
    from featuregate_confluent.models import Model

logger = get_logger("featuregate.confluent")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChanged:
    """The model of this member is another one from the next transaction on."""

    before: Model | None
    after: Model
    why: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatchRead:
    """The latch of the group was read, and is higher than it was known to be."""

    latch: Model
    source: str
    """Where it was found: ``own marks``, ``all marks``, ``latch topic`` or ``commit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsTakenOver:
    """New partitions were assigned, their ids taken, their offsets read."""

    partitions: int
    seconds: float
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommitted:
    """A transaction was committed."""

    model: Model
    messages: int
    seconds: float
    """From the beginning of the transaction to the end of its commit; others may run at the same time."""
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAborted:
    """A transaction was aborted, and its messages will be consumed again."""

    model: Model
    messages: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A member or its producer was replaced by another one."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsBlocked:
    """Nothing is processed for now, because it would not be safe."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMissing:
    """A topic to consume does not exist, or topics could not be looked for: the member waits for it."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsStalled:
    """Committed offsets of the group, of this member or another, have not moved for longer than a round may last."""

    partitions: int
    why: str
    """Names the first of them, with owner and lag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """A message that could not be processed was sent to the dead-letter topic, and the transaction is committed."""

    topic: str
    partition: int
    offset: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundExceededLimit:
    """A round took longer than a limit and was lost for it: its messages come again, at most half as many at once."""

    messages: int
    seconds: float
    """Seconds of the app's code, and of the commit if the caller waited for it."""
    limit: str
    """The property and its value: ``max.poll.interval.ms=300000`` or ``transaction.timeout.ms=10000``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResized:
    """Rounds are cut, because messages take long; or, where ``messages`` is ``most``, rounds are no longer cut.

    Emitted once for each such change. ``health()["round_size"]`` is the gauge that follows every round.
    """

    messages: int
    """In the next round, at the most."""
    most: int
    """``batch_size``, or what the app asks for."""
    message_seconds: float
    """Seconds that a message is expected to take."""
    limit: str
    """The property, and its value, that the size comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoining:
    """A member leaves the group and joins it again."""

    why: str
    attempt: int
    """How many in a row, without a round in between that went well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The member has left the group."""

    committed: int
    aborted: int


SwitchEvent = (
    ModelChanged
    | LatchRead
    | PartitionsTakenOver
    | TransactionCommitted
    | TransactionAborted
    | Fenced
    | CommitsBlocked
    | InputMissing
    | PartitionsStalled
    | DeadLettered
    | RoundExceededLimit
    | RoundResized
    | Rejoining
    | Stopped
)

_BARE = re.compile(r"[!#-&(-<>-\[\]-~]+")
"""What stands without quotes: visible ASCII, but quotes, the equals sign and the backslash, which escapes."""

_LEVELS: dict[type, int] = {
    TransactionCommitted: logging.DEBUG,
    **dict.fromkeys((ModelChanged, LatchRead, PartitionsTakenOver, Stopped), logging.INFO),
}
"""All others are warnings."""


class SwitchHook(Protocol):
    """What a metrics library plugs in: one call for each event, in the thread of the loop."""

    def __call__(self, event: SwitchEvent, /) -> None:
        """Count the event; a hook that raises is logged, and the loop goes on."""


def event_emitter(hook: SwitchHook | None) -> Callable[[SwitchEvent], None]:
    """Return the function that logs an event and passes it to the hook."""

    def emit(event: SwitchEvent) -> None:
        level = _LEVELS.get(type(event), logging.WARNING)
        if logger.isEnabledFor(level):
            logger.log(level, "%s", _line(event))
        if hook is not None:
            try:
                hook(event)
            except Exception:
                logger.exception("the metrics hook failed; the loop goes on")

    return emit


def _line(event: SwitchEvent) -> str:
    values = ((field.name, getattr(event, field.name)) for field in fields(event))
    return " ".join([type(event).__name__, *(f"{name}={_word(value)}" for name, value in values)])


def _word(value: object) -> str:
    label = getattr(value, "label", None)
    if label is not None:
        return str(label)
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return text if _BARE.fullmatch(text) else repr(text)  # on one line, and distinct from its neighbours
