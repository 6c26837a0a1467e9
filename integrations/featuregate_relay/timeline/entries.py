"""The entries of a timeline with the last moment, and both as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from featuregate.json_values import JsonValue, check_schema, parse_json
from featuregate_relay.timeline.changes import KINDS, Change, Moment, changes, moved

MOST_ENTRIES: Final = 500
"""Older ones are forgotten."""
LONGEST_CHANGE: Final = 1000
"""Characters of one entry."""
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """What has changed at one time."""

    at: str
    """As ISO 8601, in UTC."""
    epoch: int
    """The epoch of the finalized levels then; -1: there were none."""
    change: Change


@dataclass(frozen=True, slots=True)
class History:
    """What has happened to a cluster."""

    entries: tuple[Entry, ...] = ()
    """Newest last."""
    moment: Moment | None = None
    """The cluster after the last entry; None: no replica has seen it yet."""

    def noted(self, before: Moment | None, after: Moment, at: str) -> History:
        """Return the history with the changes that a replica has seen and no other replica has written yet."""
        moment = after if self.moment is None else moved(self.moment, before, after)
        added = (Entry(at, moment.epoch, _cut(change)) for change in changes(self.moment, moment))
        return History((*self.entries, *added)[-MOST_ENTRIES:], moment)


def _cut(change: Change) -> Change:
    """Cut a text that names very many brokers: the entries of a file fit into what is read of it."""
    if len(change.text) <= LONGEST_CHANGE:
        return change
    return Change(change.kind, f"{change.text[:LONGEST_CHANGE]}... ({len(change.text)} characters)")


def history_to_json(history: History) -> str:
    """Return a document that `history_from_json` reads."""
    moment = history.moment
    document = {
        "schema_version": _SCHEMA_VERSION,
        "entries": [
            {"at": entry.at, "epoch": entry.epoch, "kind": entry.change.kind, "text": entry.change.text}
            for entry in history.entries
        ],
        "moment": moment
        and {
            "cluster_id": moment.cluster_id,
            "epoch": moment.epoch,
            "levels": dict(moment.levels),
            "releases": dict(moment.releases),
            "away": sorted(moment.away),
            "gates": {name: int(is_open) for name, is_open in moment.gates.items()},
            "reachable": int(moment.reachable),
        },
    }
    return json.dumps(document, indent=1)


def history_from_json(text: str | bytes) -> History:
    """Read a document; raises ValueError, which says where it is wrong."""
    document = parse_json(text, "timeline")
    check_schema(document, newest=_SCHEMA_VERSION)
    entries = tuple(_entry(each) for each in document.field("entries").items()[-MOST_ENTRIES:])
    return History(entries, document.field("moment").optional(_moment))


def _entry(said: JsonValue) -> Entry:
    kind = next(kind for kind in KINDS if kind == said.field("kind").one_of(*KINDS))
    return Entry(said.field("at").text(), said.field("epoch").integer(), Change(kind, said.field("text").text()))


def _moment(said: JsonValue) -> Moment:
    return Moment(
        cluster_id=said.field("cluster_id").text(),
        epoch=said.field("epoch").integer(),
        levels=_integers(said.field("levels")),
        releases={name: value.text() for name, value in said.field("releases").fields().items()},
        away=frozenset(name.text() for name in said.field("away").items()),
        gates={name: bool(value) for name, value in _integers(said.field("gates")).items()},
        reachable=bool(said.field("reachable").integer()),
    )


def _integers(said: JsonValue) -> Mapping[str, int]:
    return {name: value.integer() for name, value in said.fields().items()}
