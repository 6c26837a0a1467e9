"""Each error by name, and what helps: retry, abort and rewind, rejoin, or nothing."""

from __future__ import annotations

from enum import Enum

__all__ = ["Remedy"]


class Remedy(Enum):
    """What helps after an error in a transaction."""

    RETRY = "retry"
    """The same call again: nothing was done, or it can be done twice."""
    ABORT = "abort"
    """Abort the transaction, rewind the consumer to where it began, and go on with the same producer."""
    REJOIN = "rejoin"
    """This member or its producer was replaced: drop the producer, leave the group and join again."""
    FATAL = "fatal"
    """Going on would not help: rights, settings, software."""
