"""The entries of a timeline and the last moment as JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.json_values import check_schema, parse_json
from featuregate_relay.timeline.changes import KINDS, Change, Moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.json_values import JsonValue

__all__ = ["MOST_ENTRIES", "Entry", "entries_from_json", "entries_to_json"]

MOST_ENTRIES: Final = 500
"""Older ones are forgotten."""
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """What has changed at one time."""

    at: str
    """As ISO 8601, in UTC."""
    epoch: int
    """The epoch of the finalized levels then; -1: there were none."""
    change: Change


def entries_to_json(entries: tuple[Entry, ...], moment: Moment | None) -> str:
    """Return a document that `entries_from_json` reads."""
    document = {
        "schema_version": _SCHEMA_VERSION,
        "entries": [
            {"at": entry.at, "epoch": entry.epoch, "kind": entry.change.kind, "text": entry.change.text}
            for entry in entries
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


def entries_from_json(text: str | bytes) -> tuple[tuple[Entry, ...], Moment | None]:
    """Read a document; raises ValueError, which says where it is wrong."""
    document = parse_json(text, "timeline")
    check_schema(document, newest=_SCHEMA_VERSION)
    entries = tuple(_entry(each) for each in document.field("entries").items()[-MOST_ENTRIES:])
    return entries, document.field("moment").optional(_moment)


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
