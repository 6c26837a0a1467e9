"""The tag in an id: what a live member of the group promises to every client that describes the group.

A ``client.id`` of ``orders-app`` becomes ``orders-app#fg=bridge``, and so does the ``group.instance.id`` of a static
member. Nothing else of the id is touched. Other readers see the tag as well: a quota for one client id has to name
the tagged one, and JMX shows it in quotes.
"""

from __future__ import annotations

import re
from typing import Final

from featuregate_confluent.models import Model

_TAGS: Final = re.compile(r"(?:#fg=[a-z0-9]*)+\Z")
_BY_TAG: Final = {f"#fg={model.label}": model for model in Model}


def tagged(name: str, model: Model) -> str:
    """Return the id with the tag of ``model`` at its end, in place of any other tag."""
    return f"{_TAGS.sub('', name)}#fg={model.label}"


def read(name: str) -> Model | None:
    """Return the least model that an id of a member promises; None: the member has no tag of featuregate.

    A tag that we do not know counts as none: it promises nothing that we could rely on.
    """
    return _BY_TAG.get("#fg=" + name.rpartition("#fg=")[2]) if "#fg=" in name else None
