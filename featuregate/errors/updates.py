"""Updates of finalized features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate.errors.base import FeatureGateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class InvalidUpdate(FeatureGateError, ValueError):
    """No cluster can have such levels; nothing was sent."""


class UpdateRefused(FeatureGateError):
    """The controller refused a level; ``outcome`` has the result of each update."""

    def __init__(self, outcome: Any) -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return str(self.outcome)


class UpdateUncertain(FeatureGateError):
    """An update was sent, and neither its answer nor the levels read back show whether it was applied.

    ``problem`` describes the lost or unclear answer. ``seen`` has the level of each feature that is in doubt, as read
    back; None for unknown. ``outcome`` is the controller's answer, None where no answer came.
    """

    def __init__(
        self, problem: str, wanted: Mapping[str, int], seen: Mapping[str, int | None], outcome: Any = None
    ) -> None:
        super().__init__(problem, dict(wanted), dict(seen), outcome)
        self.problem = problem
        self.wanted = dict(wanted)
        self.seen = dict(seen)
        self.outcome = outcome

    def __str__(self) -> str:
        levels = ", ".join(
            f"{feature} is {'unknown' if level is None else level} (wanted {self.wanted[feature]})"
            for feature, level in self.seen.items()
        )
        return (
            f"the update may or may not have been applied: {self.problem}. Read back: {levels}. "
            "Look again with 'featuregate describe' before you repeat it"
        )


class LevelsNotReached(FeatureGateError, TimeoutError):
    """Not every broker shows the levels within ``seconds``; ``laggards`` describes each of the others."""

    def __init__(self, seconds: float, laggards: Iterable[str]) -> None:
        self.laggards = tuple(laggards)
        super().__init__(seconds, self.laggards)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not every broker shows it within {self.seconds:g} s: {'; '.join(self.laggards)}"
