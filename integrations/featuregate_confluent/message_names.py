"""How an error names the messages that it is about: ``orders[0]@7``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from featuregate.printable import shown

if TYPE_CHECKING:
    from confluent_kafka import Message


def position_of(message: Message) -> str:
    """Return topic, partition and offset of a message."""
    return f"{shown(str(message.topic()))}[{message.partition()}]@{message.offset()}"


def positions_of(messages: Sequence[Message]) -> str:
    """Return where the only message is, or the first and the last."""
    if len(messages) == 1:
        return f"the message {position_of(messages[0])}"
    return f"{len(messages)} messages from {position_of(messages[0])} to {position_of(messages[-1])}"
