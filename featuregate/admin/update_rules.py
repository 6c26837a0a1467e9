"""The update that a controller judges, the nodes that it asks, and what one of its rules says against it. Pure.

Controllers of both kinds go by these: :mod:`featuregate.admin.kraft_rules`, :mod:`featuregate.admin.zookeeper_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class RequestedUpdate(NamedTuple):
    """One update, as a controller reads it."""

    feature: str
    level: int
    upgrade_type: str
    """``upgrade``, ``safe_downgrade`` or ``unsafe_downgrade``; anything else is a type that no controller knows."""


class NodeLevels(NamedTuple):
    """The levels that one node supports."""

    node_id: int | None
    supported: Mapping[str, tuple[int, int]] | None
    """Feature to the lowest and highest level. None: unknown, for the reason in ``unknown_because``."""
    unknown_because: str = ""
    """Why a feature that is missing in ``supported`` may be supported all the same; empty where it is not."""


class RuleProblem(NamedTuple):
    """What one rule says against an update."""

    judgement: Literal["refused", "unknown"]
    text: str
    """The controller's words, or why it is unknown."""
