"""How things are measured here: side by side, in the same run, over several rounds.

The machine is never quiet, so contestants take turns (A B A B): what slows one round down slows down both. A ratio is
taken within each round, and its median over the rounds is held against the bar.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LOOP_SECONDS = 0.01
"""How long one round of a loop takes, about."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one contestant took, round by round."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{number(self.median)} {self.unit}"
        return f"{number(self.median)} [{number(min(self.values))}..{number(max(self.values))}] {self.unit}"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a score is held against."""

    limit: float
    text: str
    upwards: bool = False

    def met(self, score: Sample) -> bool:
        return score.median >= self.limit if self.upwards else score.median <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure: ours and its peer's samples, and the score that the bar judges. No bar: for information."""

    what: str
    ours: Sample
    peer: Sample | None = None
    score: Sample
    bar: Bar | None = None

    @property
    def met(self) -> bool:
        return self.bar is None or self.bar.met(self.score)


@dataclass(frozen=True, slots=True)
class Line:
    """A column of a growth, as it is drawn."""

    column: str
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a cost grows with a number: a table, and a picture of it."""

    by: str
    """The column of that number."""
    rows: tuple[dict[str, float], ...]
    said: str
    """What stands before the table."""
    drawn: tuple[Line, ...]
    unit: str
    """What follows a number on the axis."""
    picture: str
    """The file, in the folder of the documentation."""
    shows: str
    """What the picture shows, for who does not see it."""


@dataclass(frozen=True, slots=True)
class Table:
    """What fits no row, as text; the header first."""

    said: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one benchmark found."""

    name: str
    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    growth: Growth | None = None


def at_most(limit: float, what: str, ours: Sample, peer: Sample) -> Row:
    """Return the row of a measure that may take ``limit`` times what the peer takes."""
    ratio = Sample("ratio", "x", tuple(mine / other for mine, other in zip(ours.values, peer.values, strict=True)))
    return Row(what=what, ours=ours, peer=peer, score=ratio, bar=Bar(limit, f"<= {limit:g}x of {peer.name}"))


def at_least(limit: float | None, what: str, ours: Sample, peer: Sample) -> Row:
    """Return the row of a measure that must be ``limit`` times faster than the peer; None for information."""
    ratio = Sample("ratio", "x", tuple(other / mine for mine, other in zip(ours.values, peer.values, strict=True)))
    bar = None if limit is None else Bar(limit, f">= {limit:g}x faster than {peer.name}", upwards=True)
    return Row(what=what, ours=ours, peer=peer, score=ratio, bar=bar)


def as_fast_as(limit: float, what: str, ours: Sample, peer: Sample) -> Row:
    """Return the row of a measure that must reach ``limit`` of the peer's rate."""
    ratio = Sample("ratio", "x", tuple(mine / other for mine, other in zip(ours.values, peer.values, strict=True)))
    return Row(
        what=what, ours=ours, peer=peer, score=ratio, bar=Bar(limit, f">= {limit:g}x of {peer.name}", upwards=True)
    )


def beside(what: str, ours: Sample, peer: Sample) -> Row:
    """Ours and the peer's, for information."""
    ratio = Sample("ratio", "x", tuple(mine / other for mine, other in zip(ours.values, peer.values, strict=True)))
    return Row(what=what, ours=ours, peer=peer, score=ratio)


def reaches(limit: float, what: str, ours: Sample, peer: Sample) -> Row:
    """Ours must reach a rate; the peer's is for information."""
    bar = Bar(limit, f">= {limit:,.0f} {ours.unit}", upwards=True)
    return Row(what=what, ours=ours, peer=peer, score=ours, bar=bar)


def each(limit: float | None, what: str, ours: Sample) -> Row:
    """Ours alone may take so much; None for information."""
    bar = None if limit is None else Bar(limit, f"<= {limit:g} {ours.unit}")
    return Row(what=what, ours=ours, score=ours, bar=bar)


def loop(statement: str, subject: Any, *, repeat: int = 100) -> Callable[[], float]:
    """Make a contestant of a statement about ``x``: nanoseconds of processor time per execution, calibrated once.

    The statement is written out ``repeat`` times, so that the loop around it costs next to nothing, and the garbage
    collector is off (`timeit` does that). Nothing here waits, so processor time is what a quiet machine would show.
    """
    timer = timeit.Timer(f"{statement}\n" * repeat, "x = subject", time.process_time, {"subject": subject})
    number = 1
    while (took := timer.timeit(number)) < LOOP_SECONDS:
        number = max(number + 1, int(number * min(10.0, 1.2 * LOOP_SECONDS / took)))
    return lambda: timer.timeit(number) / number / repeat * 1e9


def take_turns(
    what: str, rounds: int, contestants: Mapping[str, Callable[[], float]], unit: str, scale: float = 1.0
) -> dict[str, Sample]:
    """Run every contestant once a round, in the same order, and give their samples by name."""
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        progress(f"{what}: round {number + 1} of {rounds}")
        for name, run in contestants.items():
            gc.collect()
            took[name].append(run() * scale)
    progress("")
    return {name: Sample(name, unit, tuple(values)) for name, values in took.items()}


def progress(text: str) -> None:
    """Say what goes on, in one line of a terminal that is written over; a log file gets only what matters."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def announce(text: str) -> None:
    """Say what begins."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def number(value: float) -> str:
    """Three digits that count, and no exponent."""
    if value == 0:
        return "0"
    for limit, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= limit:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


def lines(growth: Growth) -> Iterator[tuple[str, ...]]:
    """Give a table as text, its header first."""
    yield tuple(growth.rows[0])
    for row in growth.rows:
        yield tuple(f"{value:,.0f}" if name == growth.by else number(value) for name, value in row.items())
