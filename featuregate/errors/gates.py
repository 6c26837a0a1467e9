"""Gates, their polls and their latches."""

from __future__ import annotations

from typing import Any

from featuregate.errors.base import FeatureGateError


class GateClosed(FeatureGateError):
    """A gate is not open where it had to be; ``decision`` gives the reason for each broker."""

    def __init__(self, gate: str, decision: Any) -> None:
        super().__init__(gate, decision)
        self.gate = gate
        self.decision = decision

    def __str__(self) -> str:
        return f"gate {self.gate!r} is not open: {self.decision}"


class RefreshTimedOut(FeatureGateError, TimeoutError):
    """No poll has ended within ``seconds``; polling continues."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"no poll has ended within {self.seconds:g} s"


class LatchStoreError(FeatureGateError):
    """The durable latch at ``place`` could not be read or written."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__(str(place), problem)
        self.place = str(place)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class LatchStoreCorrupt(LatchStoreError):
    """The durable latch at ``place`` does not parse, and was moved to ``aside`` for inspection."""

    def __init__(self, place: object, aside: object, problem: str) -> None:
        super().__init__(place, problem)
        self.args = (str(place), str(aside), problem)
        self.aside = str(aside)

    def __str__(self) -> str:
        return (
            f"{self.place}: damaged ({self.problem}); set aside as {self.aside}: "
            "gates that were latched there start afresh"
        )
