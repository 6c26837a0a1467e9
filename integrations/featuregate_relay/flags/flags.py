"""What OpenFeature's remote evaluation (OFREP 0.3.0) shows of a cluster: a flag for each gate and each feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from featuregate import Decision, View

LEVEL = "level."
"""What the key of a feature's flag begins with; the name of the feature follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """The value of one flag, and why."""

    key: str
    value: bool | int | None
    """None: the value is unknown, and the app uses the default of its code."""
    variant: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the success response of the protocol.

        The reason is always STATIC, as far as there is a value: the context of a request does not matter.
        """
        known = {} if self.value is None else {"value": self.value}
        reason = "UNKNOWN" if self.value is None else "STATIC"
        return {"key": self.key, **known, "reason": reason, "variant": self.variant, "metadata": {"why": self.why}}


def gate_flag(name: str, decision: Decision) -> Flag:
    """Return whether the gate is open. An unknown decision is false, as in every app: it opens nothing."""
    variant = "open" if decision.open else decision.verdict
    return Flag(key=name, value=decision.open, variant=variant, why=decision.summary)


def level_flags(view: View | None) -> Iterable[Flag]:
    """Return the finalized level of each feature that a broker supports or the cluster has finalized."""
    if view is None:
        return
    for feature in sorted({*view.supported, *view.finalized}):
        level = view.level(feature)
        if level is None:
            yield Flag(
                key=f"{LEVEL}{feature}", value=None, variant="unknown", why="no broker has reported finalized levels"
            )
        else:
            yield Flag(key=f"{LEVEL}{feature}", value=level, variant=str(level), why=f"finalized by {view.cluster_id}")
