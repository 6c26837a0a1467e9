"""What Kafka's own formatters print of records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def documents(text: str) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of JSON objects, between which there may be no line break."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        record, end = decoder.raw_decode(text, at)
        yield record["key"], record["value"]
        at = text.find("{", end)
