"""What happened, as values: the one argument of every hook. Pure.

Checks of a gate are not events: they are counted nowhere, so that they cost one attribute read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from featuregate.gating.decisions import Decision
    from featuregate.view.changes import Difference
    from featuregate.view.cluster_view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The content of the view is another one. An epoch that merely moved is not a change."""

    before: View | None
    """``None`` for the first view of all."""
    after: View
    differences: tuple[Difference, ...]
    """What differs, each readable as a sentence; empty for the first view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """A poll got an answer from at least one broker."""

    cluster_id: str | None
    epoch: int
    seconds: float
    answered: int
    known: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed:
    """No broker answered a poll."""

    error: str
    failures: int
    """How many in a row."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GateMoved:
    """The decision of a gate is another one: it opened, it closed, or it is held open now."""

    gate: str
    open: bool
    decision: Decision


Event = Polled | PollFailed | GateMoved | Changed


class OnChange(Protocol):
    """What :meth:`featuregate.Discoverer.on_change` takes."""

    def __call__(self, change: Changed, /) -> None:
        """Handle the change; called outside any lock, in the thread of the poll loop."""


class MetricsHook(Protocol):
    """What a metrics library plugs in: one call for each event, outside any lock."""

    def __call__(self, event: Event, /) -> None:
        """Count the event; a hook that raises is logged, and the poll loop goes on."""
