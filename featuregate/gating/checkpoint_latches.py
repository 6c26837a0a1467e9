"""Reads what a Spark query has latched from the pins beside its checkpoint, which the query replaces batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.errors import LatchStoreError
from featuregate.gating.latch_store import latch_file, latch_state_from

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.gating.latches import LatchState

FOLDER: Final = "featuregate"
"""The folder of pins, in the checkpoint of a query."""
PREFIX: Final = "pin-"
SCHEMA_VERSION: Final = 1


def batch_of(name: str) -> int | None:
    """Return the number of the batch that a file is the pin of; None for any other file."""
    digits = name.removeprefix(PREFIX)
    return int(digits) if name.startswith(PREFIX) and digits.isdecimal() else None


def newest_pin(folder: Path) -> Path | None:
    """Return the newest pin of a checkpoint, or of its folder of pins; None where there is none."""
    below = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    pins = {number: file for file in below.iterdir() if (number := batch_of(file.name)) is not None}
    return pins[max(pins)] if pins else None


def latches_in(pin: Path) -> list[LatchState]:
    """Return what a query has latched, for each cluster: the newest pin holds the latches of older ones.

    Raises
    ------
    LatchStoreError
        The pin cannot be read, or was written by a newer featuregate.
    """
    try:
        return [latch_state_from(each) for each in latch_file(pin, SCHEMA_VERSION).field("latch_states").items()]
    except ValueError as error:
        raise LatchStoreError(pin, f"damaged ({error})") from error
    except OSError as error:
        raise LatchStoreError(pin, error.strerror or str(error)) from error
