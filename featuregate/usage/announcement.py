"""An announcement: what an operator is about to do with the levels of a cluster, as a value and as JSON. Pure.

It is a record of the usage topic with the key :data:`KEY`. Apps that report there show it in their health.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from featuregate.errors import UsageReportError
from featuregate.gating.decisions import evaluate
from featuregate.json_values import JsonError, check_schema, parse_json
from featuregate.usage.report import LATEST

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.view.cluster_view import View

KEY: Final = b"announcement"
SCHEMA_VERSION: Final = 1
MOST_BYTES: Final = 16_384
"""Of one announcement that is read."""
LONGEST_REASON: Final = 1000
_MOST_FEATURES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """New levels that an operator is about to finalize."""

    cluster_id: str | None
    announced_at: float
    """Seconds since the Unix epoch, by the clock of the operator."""
    levels: Mapping[str, int]
    """The new level of each feature."""
    reason: str = ""

    def to_json(self) -> str:
        """Return the announcement as one line of JSON."""
        content = {
            "kind": "announcement",
            "schema_version": SCHEMA_VERSION,
            "cluster_id": self.cluster_id,
            "announced_at": self.announced_at,
            "levels": dict(self.levels),
            "reason": self.reason,
        }
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Announcement:
        """Read an announcement. Unknown fields are skipped.

        Raises
        ------
        UsageReportError
            The text is no announcement that this release can read; the error says where.
        """
        if len(text) > MOST_BYTES:
            raise UsageReportError("announcement", f"{len(text)} bytes are more than {MOST_BYTES}")
        try:
            found = parse_json(text, "announcement")
            check_schema(found, newest=SCHEMA_VERSION)
            found.field("kind").one_of("announcement")
            levels = found.field("levels").integers()
            if not 0 < len(levels) <= _MOST_FEATURES:
                raise UsageReportError("announcement.levels", f"must name 1 to {_MOST_FEATURES} features")
            return cls(
                cluster_id=found.field("cluster_id").optional(lambda at: at.text()),
                announced_at=min(max(float(found.field("announced_at").seconds()), 0.0), LATEST),
                levels=levels,
                reason=found.field("reason").text()[:LONGEST_REASON],
            )
        except JsonError as error:
            raise UsageReportError(error.where, error.problem) from error


def is_announcement(value: bytes) -> bool:
    """Return whether a record of the usage topic is an announcement, and no report."""
    try:
        Announcement.from_json(value)
    except UsageReportError:
        return False
    return True


def pending(announcements: Iterable[Announcement], view: View | None) -> list[Announcement]:
    """Return what has been announced for a cluster and is not done: of each feature the newest announcement counts."""
    if view is None:
        return []
    newest: dict[str, Announcement] = {}
    for one in sorted(announcements, key=lambda each: each.announced_at):
        if one.cluster_id == view.cluster_id:
            newest |= dict.fromkeys(one.levels, one)
    left = [(one, feature) for feature, one in newest.items() if view.level(feature) != one.levels[feature]]
    return [
        replace(one, levels={feature: one.levels[feature] for of, feature in left if of is one})
        for one in {id(one): one for one, _ in left}.values()
    ]


def announcement_health(announcement: Announcement, view: View, gates: Iterable[Gate]) -> dict[str, Any]:
    """Return an announcement, and the gates of this app from which it takes something, as plain JSON-able values."""
    after = replace(view, finalized={**view.finalized, **announcement.levels})
    lost = [gate.name for gate in gates if gate.open and evaluate(after, gate.requirement).verdict == "closed"]
    return {
        "levels": dict(announcement.levels),
        "announced_at": datetime.fromtimestamp(announcement.announced_at, UTC).isoformat(),
        "reason": announcement.reason,
        "gates": lost,
    }
