"""The timeline of ``make demo`` or ``make demo-spark`` as a picture. Pure: values in, the text of an SVG file out.

The picture has its own background and two sets of colours, for light and for dark pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from demo_timeline import Span

if TYPE_CHECKING:
    from demo_tally import Count

WIDTH, LEFT, RIGHT = 1080, 150, 24
LANE, GAP = 20, 6
STRIP = 44
"""The height of the strip in which duplicates stand up."""
GLYPH = 0.58
"""The width of a letter, in font sizes: a little more than most letters need."""
TICK, MOST_TICKS = 20, 15
"""Seconds from one to the next, or a multiple of that where the texts would cover each other."""

INK = {"old": "dark", "bridge": "dark", "closed": "", "down": "quiet"}
"""What is written on a light bar; on any other it is white."""

STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #1f2328 }
.title { font-size: 19px; font-weight: 600 } .panel { font-size: 14px; font-weight: 600 }
.middle { text-anchor: middle } .end { text-anchor: end } .quiet { fill: #59636e }
.good { fill: #1a7f37; font-weight: 600 } .bad { fill: #c01f30; font-weight: 600 }
.on { fill: #ffffff } .dark { fill: #3b2a0a }
.down { fill: none; stroke: #8c959f; stroke-dasharray: 3 3 }
.paper { fill: #ffffff; stroke: #d8dde3 } .band { fill: #f4f6f8 } .line { stroke: #d0d7de } .base { stroke: #8c959f }
.old { fill: #f0b75e } .new { fill: #1f8073 } .closed { fill: #e4e8ec; stroke: #c3cad1 } .open { fill: #2b7a3b }
.legacy { fill: #667085 } .bridge { fill: #cfa9ee } .v2 { fill: #2f6fcb }
.asleep { fill: url(#asleep); stroke: #1f2328 } .hatch { stroke: #1f2328 } .ground { fill: #ffffff }
.twice { fill: #d62839 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9da7b1 } .good { fill: #56d364 } .bad { fill: #ff7b84 } .on { fill: #ffffff }
.dark { fill: #3b2a0a } .paper { fill: #14181d; stroke: #30363d } .band { fill: #1b2027 } .line { stroke: #30363d }
.base { stroke: #6e7681 } .closed { fill: #2a3038; stroke: #444c56 } .asleep { stroke: #e6edf3 }
.hatch { stroke: #e6edf3 } .ground { fill: #14181d } .twice { fill: #f25565 }
}
""".strip()

HATCH = (
    '<pattern id="asleep" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="7" height="7"/><line class="hatch" x1="2" y1="0" x2="2" y2="7" stroke-width="2"/>'
    "</pattern>"
)


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of bars: the states of one thing, and when it was stopped."""

    name: str
    spans: Sequence[Span]
    asleep: Sequence[Span] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One app: its instances, its duplicates, and the counts of each step."""

    title: str
    lanes: Sequence[Lane]
    duplicates: Sequence[float]
    """When each of them became visible, in seconds from the start."""
    counts: Sequence[Count]
    classes: Mapping[str, str]
    """The class of each state of the lanes."""


class Key(NamedTuple):
    """A small bar of the legend, and its meaning."""

    x: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All content of the picture. Times are seconds from the start."""

    title: str
    subtitle: str
    steps: Sequence[Span]
    brokers: Sequence[Lane]
    gate: Lane
    panels: Sequence[Panel]
    old: str
    """The state of a broker that has not been rolled yet; any other is new."""
    legend: Sequence[Sequence[Key]]
    """Line by line."""


@dataclass
class _Sheet:
    """The SVG elements so far, and the height that they take."""

    begin: float
    end: float
    parts: list[str] = field(default_factory=list)
    y: float = 0.0

    def x(self, seconds: float) -> float:
        """Return the x coordinate of a time."""
        return LEFT + (seconds - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)

    def text(self, x: float, y: float, words: str, classes: str = "") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(words)}</text>')

    def fitting(self, span: Span, y: float, choices: Iterable[str], classes: str, size: float = 12) -> None:
        """Write the first text that fits into the width of a span, in its middle; nothing if none fits."""
        begin, end = self.x(span.begin), self.x(span.end)
        for words in choices:
            if len(words) * size * GLYPH <= end - begin - 4:
                self.text((begin + end) / 2, y, words, f"middle {classes}")
                return

    def box(self, begin: float, end: float, y: float, height: float, classes: str) -> None:
        """Draw a bar between two times, with a minimal width."""
        x, width = self.x(begin), max(self.x(end) - self.x(begin), 1.0)
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" class="{classes}"/>'
        )

    def key(self, key: Key) -> None:
        """Draw a small bar and its meaning."""
        self.parts.append(f'<rect x="{key.x}" y="{self.y - 13:.1f}" width="34" height="16" rx="2" class="{key.kind}"/>')
        self.text(key.x + 44, self.y, key.words, "quiet")

    def rule(self, y: float, classes: str) -> None:
        self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="{classes}"/>')


def draw(picture: Picture) -> str:
    """Return the picture as the text of an SVG file."""
    sheet = _Sheet(picture.steps[0].begin, picture.steps[-1].end)
    sheet.text(24, 36, picture.title, "title")
    sheet.text(24, 58, picture.subtitle, "quiet")
    sheet.y = 82
    top = sheet.y
    for step in picture.steps:
        sheet.fitting(step, sheet.y + 14, [step.state], "")
    sheet.y += 26
    for lane in picture.brokers:
        _draw_lane(sheet, lane, {picture.old: "old", "down": "down"}, other="new")
    _draw_lane(sheet, picture.gate, {"open": "open"}, other="closed")
    highest = max((max(_bins(panel.duplicates).values(), default=0) for panel in picture.panels), default=0)
    for panel in picture.panels:
        _draw_panel(sheet, panel, picture.steps, highest)
    sheet.y += 8
    bottom = sheet.y
    _draw_seconds(sheet)
    _draw_legend(sheet, picture.legend)
    bands = _Sheet(sheet.begin, sheet.end)
    for step in picture.steps[::2]:
        bands.box(step.begin, step.end, top, bottom - top, "band")
    height = sheet.y + 16
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">',
            f"<title>{escape(picture.title)}</title>",
            f"<style>{STYLE}</style>",
            f"<defs>{HATCH}</defs>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="8" class="paper"/>',
            *bands.parts,
            *sheet.parts,
            "</svg>",
            "",
        ]
    )


def _draw_lane(sheet: _Sheet, lane: Lane, classes: Mapping[str, str], other: str) -> None:
    """Draw a line of bars with their names, and the spans in which the process was stopped."""
    sheet.text(LEFT - 12, sheet.y + 14, lane.name, "end")
    for span in lane.spans:
        kind = classes.get(span.state, other)
        sheet.box(span.begin, span.end, sheet.y, LANE, kind)
        for piece in awake(span, lane.asleep):
            sheet.fitting(piece, sheet.y + 14, [span.state], INK.get(kind, "on"))
    for span in lane.asleep:
        sheet.box(span.begin, span.end, sheet.y, LANE, "asleep")
    sheet.y += LANE + GAP


def awake(span: Span, asleep: Sequence[Span]) -> list[Span]:
    """Split a span at the times in which the process was stopped."""
    pieces = [span]
    for sleep in asleep:
        last = pieces.pop()
        pieces.append(Span(span.state, last.begin, max(min(sleep.begin, last.end), last.begin)))
        pieces.append(Span(span.state, min(max(sleep.end, last.begin), last.end), last.end))
    return pieces


def _draw_panel(sheet: _Sheet, panel: Panel, steps: Sequence[Span], highest: int) -> None:
    """Draw an app: its title and total, its instances, and its duplicates over time."""
    sheet.y += 14
    sheet.rule(sheet.y, "line")
    sheet.y += 22
    inputs, twice, lost = (
        sum(getattr(count, name) for count in panel.counts) for name in ("inputs", "duplicates", "lost")
    )
    sheet.text(24, sheet.y, panel.title, "panel")
    verdict = f"{inputs:,} inputs: {twice:,} duplicates, {lost:,} lost"
    sheet.text(WIDTH - RIGHT, sheet.y, verdict, f"panel end {'bad' if twice or lost else 'good'}")
    sheet.y += 12
    for lane in panel.lanes:
        _draw_lane(sheet, lane, panel.classes, other="closed")
    base = sheet.y + STRIP
    sheet.text(LEFT - 12, base - 2, "duplicates", "end")
    for second, number in sorted(_bins(panel.duplicates).items()):
        height = number / highest * (STRIP - 4)
        sheet.box(second, second + 1, base - height, height, "twice")
    sheet.rule(base, "base")
    for step, count in zip(steps, panel.counts, strict=True):
        words = f"{count.duplicates:,} duplicates" + (f", {count.lost:,} lost" if count.lost else "")
        kind = "bad" if count.duplicates or count.lost else "good"
        sheet.fitting(step, base + 16, [words, f"{count.duplicates:,}"], kind)
    sheet.y = base + 22


def _bins(moments: Iterable[float]) -> Counter[int]:
    """Count for each second."""
    return Counter(int(moment) for moment in moments)


def _draw_seconds(sheet: _Sheet) -> None:
    """Draw the axis."""
    sheet.rule(sheet.y, "line")
    sheet.y += 18
    length = int(sheet.end - sheet.begin)
    for second in range(0, length + 1, TICK * -(-length // (TICK * MOST_TICKS)) or TICK):
        sheet.text(sheet.x(sheet.begin + second), sheet.y, f"{second} s", "middle quiet")


def _draw_legend(sheet: _Sheet, legend: Sequence[Sequence[Key]]) -> None:
    """Draw the legend."""
    for keys in legend:
        sheet.y += LANE + GAP
        for key in keys:
            sheet.key(key)
