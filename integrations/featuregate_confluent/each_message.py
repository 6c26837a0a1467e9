"""A transform that awaits a function for each message, a number of messages at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from confluent_kafka import Message

    from featuregate_confluent.records import RecordLike
    from featuregate_confluent.transform import AsyncTransform


def each_message(
    function: Callable[[Message], Awaitable[Iterable[RecordLike]]], *, at_once: int = 16
) -> AsyncTransform:
    """Return a transform that awaits ``function`` for each message, and gives the records in the order of the messages.

    Where a call raises, the other calls of the batch are cancelled, and the transform raises the same exception.

    Parameters
    ----------
    function
        A coroutine function that returns the records for one message.
    at_once
        Calls at the same time, over all partitions. The others wait for their turn.

    Raises
    ------
    ConfigError
        ``at_once`` is not a number above 0.
    """
    if type(at_once) is not int or at_once < 1:
        raise ConfigError("at_once", f"must be a number of calls above 0, not {at_once!r}")
    limits: WeakKeyDictionary[AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()  # one belongs to one loop

    async def records_for(message: Message, limit: asyncio.Semaphore) -> list[RecordLike]:
        async with limit:
            return list(await function(message))

    async def transform(messages: Sequence[Message], /) -> list[RecordLike]:
        limit = limits.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(at_once))
        try:
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(records_for(message, limit)) for message in messages]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [record for call in calls for record in call.result()]

    return transform
