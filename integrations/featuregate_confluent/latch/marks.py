"""The mark in an offset's metadata: in which model the commit was made, kept with the group itself.

.. code-block:: text

    fg1;model=v2                       format 1: the mark alone
    fg1;model=v2;key=value|app text    fields that a later version may add are passed over; the app's own text is kept
    app text                           no mark of featuregate

Metadata that begins with ``fg<digits>;`` is ours, and is either understood or refused. Another format, another model,
and a text that was damaged all raise :class:`~featuregate_confluent.errors.UnknownMark`: to read one of them
as "no mark" would lower the group's latch in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from featuregate.errors import ConfigError
from featuregate_confluent.errors import UnknownMark
from featuregate_confluent.models import Model

LIMIT: Final = 4095
"""Bytes of UTF-8. Brokers take 4096 (``offset.metadata.max.bytes``), and confluent-kafka adds a NUL on the wire."""

_OURS: Final = re.compile(r"fg[0-9]+;")
_FORMAT: Final = "fg1;"
_SHOWN: Final = 200  # characters of a text that is refused: enough to see which software wrote it
_BY_LABEL: Final = {model.label: model for model in Model}


@dataclass(frozen=True, slots=True)
class Mark:
    """What the metadata of one committed offset says."""

    model: Model | None
    """The model that the commit was made in; None: no mark of featuregate."""
    app_metadata: str = ""
    """The app's own text, which every commit carries on."""


def read(text: str | None) -> Mark:
    """Read the metadata of a committed offset, as any client hands it out.

    A text ends at its first NUL: confluent-kafka writes one, and other clients hand it out.

    Raises
    ------
    UnknownMark
        The text is ours, and is of a newer format, of a model that we do not know, or damaged.
    """
    text = (text or "").partition("\0")[0]
    if not _OURS.match(text):
        return Mark(None, text)
    fields, _, app_metadata = text.partition("|")
    return Mark(_model(fields), app_metadata)


def _model(fields: str) -> Model:
    head, *pairs = fields.split(";")
    values = [value for key, _, value in (pair.partition("=") for pair in pairs) if key == "model"]
    model = _BY_LABEL.get(values[0]) if f"{head};" == _FORMAT and len(values) == 1 else None
    if model is None:
        raise UnknownMark(fields[:_SHOWN])
    return model


def write(mark: Mark) -> str:
    """Return the metadata that reads as ``mark``: no NUL, and at most :data:`LIMIT` bytes of UTF-8.

    Where the app's text does not fit, its end is cut off, at the border of a character. Characters that UTF-8 does
    not have become question marks.

    Raises
    ------
    featuregate.ConfigError
        There is no model, and the app's text begins like a mark: it would be read as one.
    """
    app_metadata = mark.app_metadata.partition("\0")[0]
    if mark.model is None:
        if _OURS.match(app_metadata):
            raise ConfigError(
                "metadata", f"{app_metadata[:_SHOWN]!r} begins like a mark of featuregate: begin it otherwise"
            )
        return _cut(app_metadata, LIMIT)
    ours = f"{_FORMAT}model={mark.model.label}"
    return f"{ours}|{_cut(app_metadata, LIMIT - len(ours) - 1)}" if app_metadata else ours


def _cut(text: str, size: int) -> str:
    return text.encode(errors="replace")[:size].decode(errors="ignore")
