"""A client of server-sent events, as browsers have one: fields of a block become an event, comments are dropped."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import requests

BOUND = 60.0


class Event(NamedTuple):
    kind: str
    ident: str | None
    data: Any


@contextmanager
def listening(url: str, **headers: str) -> Iterator[Iterator[Event]]:
    with requests.get(url, headers=headers, stream=True, timeout=BOUND) as response:
        response.raise_for_status()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield events_of(response)


def events_of(response: requests.Response) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in response.iter_lines(chunk_size=1, decode_unicode=True):
        name, _, value = line.partition(": ")
        if line == "":
            if "data" in fields:
                yield Event(fields.get("event", "message"), fields.get("id"), json.loads(fields["data"]))
            fields = {}
        elif name:
            fields[name] = value
