"""The tag in a ``client.id``: what a live member of the group says of itself to whoever describes the group.

``orders-app`` becomes ``orders-app#fg=bridge``. Nothing else of the id is touched. Whoever reads it otherwise sees it
too: a quota for one client id has to name the tagged one, and JMX shows it in quotes.
"""

from __future__ import annotations

import re
from typing import Final

from featuregate_confluent.models import Model

__all__ = ["read", "tagged"]

_TAGS: Final = re.compile(r"(?:#fg=[a-z0-9]*)+\Z")
_BY_TAG: Final = {f"#fg={model.label}": model for model in Model}


def tagged(client_id: str, model: Model) -> str:
    """Return the client id with the tag of ``model`` at its end, in place of any other tag."""
    return f"{_TAGS.sub('', client_id)}#fg={model.label}"


def read(client_id: str) -> Model | None:
    """Return the least model that a member's client id promises; None: no tag of ours, a foreign member.

    A tag that we do not know counts as none: it promises nothing that we could rely on.
    """
    return _BY_TAG.get("#fg=" + client_id.rpartition("#fg=")[2]) if "#fg=" in client_id else None
