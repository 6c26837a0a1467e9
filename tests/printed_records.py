"""What Kafka's own formatters print of records, and decoded records in the same form."""

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any


def documents(text: str) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of JSON objects, between which there may be no line break."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        record, end = decoder.raw_decode(text, at)
        yield record["key"], record["value"]
        at = text.find("{", end)


def as_printed(decoded: Any, printed: Any) -> Any:
    """Return what was decoded as Kafka prints it: the fields that are printed, because other versions have others."""
    if is_dataclass(decoded) and isinstance(printed, dict):
        ours = {camel_case(field.name): getattr(decoded, field.name) for field in fields(decoded)}
        return {name: as_printed(ours[name], value) for name, value in printed.items()}
    if isinstance(decoded, tuple) and isinstance(printed, list) and len(decoded) == len(printed):
        return [as_printed(mine, other) for mine, other in zip(decoded, printed, strict=True)]
    return b64encode(decoded).decode() if isinstance(decoded, bytes) else decoded


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
