"""Counts duplicates and losses of a demo from the inputs that were sent and the outputs that were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featuregate.testing.traffic import CommittedOutput, duplicates

if TYPE_CHECKING:
    from demo_timeline import Span


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of one app in one step."""

    inputs: int
    """Sent in this step."""
    duplicates: int
    """Outputs that became visible in this step although their input was out already."""
    lost: int
    """Inputs of this step without any output to the end."""


def tally(sent: Mapping[str, float], seen: Sequence[CommittedOutput], steps: Sequence[Span]) -> list[Count]:
    """Count for each step; ``sent`` holds the time of each key. A time outside all steps counts for the nearest one."""
    inputs = Counter(_step(at, steps) for at in sent.values())
    twice = Counter(_step(output.at, steps) for output in duplicates(seen))
    out = {output.key for output in seen}
    lost = Counter(_step(at, steps) for key, at in sent.items() if key not in out)
    return [Count(inputs[number], twice[number], lost[number]) for number in range(len(steps))]


def _step(at: float, steps: Sequence[Span]) -> int:
    return max((number for number, step in enumerate(steps) if step.begin <= at), default=0)


def faults(
    counts: Mapping[str, Sequence[Count]], models: Mapping[str, str | None], *, guarded: str, naive: str
) -> list[str]:
    """Return why a run does not show what it should; nothing if it does.

    ``guarded`` and ``naive`` name the two apps in ``counts``, and ``models`` holds the last model of each instance of
    the guarded one. A run without duplicates of the naive app proves nothing.
    """
    found = []
    for number, count in enumerate(counts[guarded]):
        if count.duplicates:
            found.append(f"{guarded} duplicated {count.duplicates} of {count.inputs} inputs in step {number + 1}")
        if count.lost:
            found.append(f"{guarded} lost {count.lost} of {count.inputs} inputs in step {number + 1}")
    if not sum(count.inputs for count in counts[guarded]):
        found.append("nothing was sent")
    if not sum(count.duplicates for count in counts[naive]):
        found.append(f"{naive} duplicated nothing, so that nothing was shown")
    found += [f"{instance} ended in model {model}, not v2" for instance, model in models.items() if model != "v2"]
    return found


def judged(number: int) -> str:
    """Return a number for a table, red where it should be 0."""
    return f"[bold red]{number:,}[/]" if number else "[green]0[/]"
