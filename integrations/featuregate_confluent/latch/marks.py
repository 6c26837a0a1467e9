"""The mark in an offset's metadata: in which model the commit was made, kept with the group itself.

`featuregate.group_marks` has its grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from featuregate.errors import ConfigError
from featuregate.group_marks import FORMAT, UNKNOWN, is_mark, read_mark
from featuregate_confluent.errors import UnknownMark
from featuregate_confluent.models import BY_LABEL, Model

LIMIT: Final = 4095
"""Bytes of UTF-8. Brokers take 4096 (``offset.metadata.max.bytes``), and confluent-kafka adds a NUL on the wire."""

_SHOWN: Final = 200  # characters of a text that is refused: enough to see which software wrote it


@dataclass(frozen=True, slots=True)
class Mark:
    """What the metadata of one committed offset says."""

    model: Model | None
    """The model that the commit was made in; None: no mark of featuregate."""
    app_metadata: str = ""
    """The app's own text, which every commit carries on."""


def read(text: str | None) -> Mark:
    """Read the metadata of a committed offset, as any client hands it out.

    Raises `UnknownMark`: the text is ours, and is of a newer format, of a model that we do not know, or damaged: to
    read it as no mark would lower the group's latch in silence.
    """
    model, app_metadata = read_mark(text)
    if model == UNKNOWN:
        raise UnknownMark((text or "").partition("|")[0].partition("\0")[0][:_SHOWN])
    return Mark(None if model is None else BY_LABEL[model], app_metadata)


def write(mark: Mark) -> str:
    """Return the metadata that reads as ``mark``: no NUL, and at most :data:`LIMIT` bytes of UTF-8.

    Where the app's text does not fit, its end is cut off, at the border of a character. Characters that UTF-8 does
    not have become question marks.
    Raises `ConfigError`: there is no model, and the app's text begins like a mark, as which it would be read.
    """
    app_metadata = mark.app_metadata.partition("\0")[0]
    if mark.model is None:
        if is_mark(app_metadata):
            raise ConfigError(
                "metadata", f"{app_metadata[:_SHOWN]!r} begins like a mark of featuregate: begin it otherwise"
            )
        return _cut(app_metadata, LIMIT)
    ours = f"{FORMAT}model={mark.model.label}"
    return f"{ours}|{_cut(app_metadata, LIMIT - len(ours) - 1)}" if app_metadata else ours


def _cut(text: str, size: int) -> str:
    return text.encode(errors="replace")[:size].decode(errors="ignore")
