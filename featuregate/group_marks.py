"""What the members of a group leave for others: a mark in each committed offset, and a tag in each member's id. Pure.

.. code-block:: text

    fg1;model=v2                       the metadata of an offset, in format 1: the mark alone
    fg1;model=v2;key=value|app text    fields that a later version may add are passed over; the app's own text is kept
    app text                           no mark of featuregate

    orders-app#fg=bridge               a client id, or the group.instance.id of a static member, with its tag

The producer switch writes both, and the fleet pipeline reads them in the records of a group.
"""

from __future__ import annotations

import re
from typing import Final

MODELS: Final = ("legacy", "bridge", "v2")
"""In the order of the migration."""
UNKNOWN: Final = "unknown"
"""The model of a mark that is not understood: it may be any."""
FORMAT: Final = "fg1;"
_OURS: Final = re.compile(r"fg[0-9]+;")
_TAG: Final = "#fg="
_TAGS: Final = re.compile(r"(?:#fg=[a-z0-9]*)+\Z")


def is_mark(text: str) -> bool:
    """Return whether metadata begins as a mark does, of whatever format."""
    return _OURS.match(text) is not None


def read_mark(metadata: str | None) -> tuple[str | None, str]:
    """Return the model that the metadata of an offset says, and the app's own text; None: there is no mark.

    Metadata that begins with ``fg<digits>;`` is a mark, and is either understood or ``UNKNOWN``: of another format, of
    another model, or damaged. A text ends at its first NUL: confluent-kafka writes one, and other clients hand it out.
    """
    text = (metadata or "").partition("\0")[0]
    if not is_mark(text):
        return None, text
    fields, _, app_metadata = text.partition("|")
    head, *pairs = fields.split(";")
    models = [value for key, _, value in (pair.partition("=") for pair in pairs) if key == "model"]
    known = f"{head};" == FORMAT and len(models) == 1 and models[0] in MODELS
    return models[0] if known else UNKNOWN, app_metadata


def read_tag(name: str | None) -> str | None:
    """Return the least model that an id of a member promises; None: no tag, or one that is not known.

    A tag that is not known promises nothing that others could rely on.
    """
    _, tag, model = (name or "").rpartition(_TAG)
    return model if tag and model in MODELS else None


def tagged(name: str, model: str) -> str:
    """Return the id with the tag of a model at its end, in place of any other tag.

    Nothing else of the id is touched. Other readers see the tag as well: a quota for one client id has to name the
    tagged one, and JMX shows it in quotes.
    """
    return f"{_TAGS.sub('', name)}{_TAG}{model}"
