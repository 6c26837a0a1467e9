"""Random schedules: each step names a method of a world, and its arguments."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, settings

W = TypeVar("W")

ANY_EXAMPLE: Final = settings(
    max_examples=1000, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck)
)
"""For `hypothesis.find`, where one schedule that goes wrong is enough, and no smaller one is wanted."""


def carried_out(world: W, schedule: Iterable[tuple[Any, ...]]) -> W:
    for step, *arguments in schedule:
        getattr(world, step)(*arguments)
    return world
