"""What was found, as a table on the terminal, and as pages of the documentation with pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from measuring import Growth, Row, Section, lines

DOCS = Path(__file__).parents[1] / "docs"
HEADER = ("what", "featuregate", "peer", "score", "bar", "met")
_DASHES = ' stroke-dasharray="6 4"'
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT, TITLE = 640, 340, 70, 50, 20, 20, 20


def show(sections: Iterable[Section]) -> None:
    """Print a table."""
    for section in sections:
        print(f"\n{section.title}")
        _print_table([HEADER, *(_cells(row) for row in section.rows)])
        for table in section.tables:
            print(f"\n  {table.said}")
            _print_table(list(table.rows))
        if section.growth:
            print()
            _print_table(list(lines(section.growth)))
        for note in section.notes:
            print(f"  {note}")


def write(page: str, title: str, sections: Sequence[Section], machine: dict[str, str]) -> None:
    """Write a page, and the pictures that it shows."""
    text = [f"# {title}", "", _INTRODUCTION, ""]
    for section in sections:
        text += [f"## {section.title}", "", *_markdown([HEADER, *(_cells(row) for row in section.rows)]), ""]
        for note in section.notes:
            text += [note, ""]
        for table in section.tables:
            text += [table.said, "", *_markdown(list(table.rows)), ""]
        if growth := section.growth:
            (DOCS / growth.picture).write_text(_picture(growth))
            text += [growth.said, "", *_markdown(list(lines(growth))), "", f"![{growth.shows}]({growth.picture})", ""]
    text += ["## The machine", "", *_markdown([("what", "which"), *machine.items()]), ""]
    (DOCS / page).write_text("\n".join(text))


_INTRODUCTION = """\
`make bench` wrote this page. Each measure stands beside its peer, and both were taken in the same run, taking turns
round by round, because no machine is quiet. Numbers are medians, with the least and the most of all rounds in brackets.
A ratio is taken within each round, and its median is what the bar judges; rows without a bar are for information.
Checks, decoding and what is merely computed are measured in processor time, all else by the clock on the wall unless
it says otherwise. `python benchmarks/run.py --only decode,import --rounds 50` repeats a part of it."""


def _cells(row: Row) -> tuple[str, ...]:
    peer = "" if row.peer is None else f"{row.peer} ({row.peer.name})"
    score = "" if row.score is row.ours else str(row.score)
    bar, met = ("", "") if row.bar is None else (row.bar.text, "yes" if row.met else "**no**")
    return row.what, str(row.ours), peer, score, bar, met


def _print_table(table: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())


def _markdown(table: list[tuple[str, ...]]) -> list[str]:
    header, *rest = (f"| {' | '.join(cells)} |" for cells in table)
    return [header, "|---" * len(table[0]) + "|", *rest]


def _picture(growth: Growth) -> str:
    """Draw what grows by what it grows with, both logarithmic."""
    values = [row[line.column] for row in growth.rows for line in growth.drawn]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last = math.log10(growth.rows[-1][growth.by])

    def x(number: float) -> float:
        return LEFT + math.log10(number) / last * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -{TITLE} {WIDTH} {HEIGHT + TITLE}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect y="-{TITLE}" width="{WIDTH}" height="{HEIGHT + TITLE}" fill="white"/>',
        f'<text x="{LEFT}" y="0" font-weight="bold">{growth.shows}</text>',
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10**power:,g}{growth.unit}</text>')
    parts += [
        f'<text x="{x(at):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{at:,.0f}</text>'
        for at in (row[growth.by] for row in growth.rows)
    ]
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{growth.by}</text>')
    top = _top_of_legend(growth)
    for number, line in enumerate(growth.drawn):
        points = " ".join(f"{x(row[growth.by]):.1f},{y(row[line.column]):.1f}" for row in growth.rows)
        style = f'fill="none" stroke="{line.colour}" stroke-width="2"{_DASHES if line.dashed else ""}'
        parts.append(f'<polyline points="{points}" {style}/>')
        at = top + 16 * number
        parts.append(f'<line x1="{LEFT + 12}" x2="{LEFT + 40}" y1="{at}" y2="{at}" {style}/>')
        parts.append(f'<text x="{LEFT + 46}" y="{at + 4}" fill="{line.colour}">{line.column}</text>')
    first, *_, newest = growth.rows
    for row, anchor in ((first, "start"), (newest, "end")):
        value = row[growth.drawn[0].column]
        spot = f'x="{x(row[growth.by]):.1f}" y="{y(value) - 14:.1f}" text-anchor="{anchor}"'
        parts.append(f'<text {spot} fill="{growth.drawn[0].colour}">{value:,.3g}{growth.unit}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _top_of_legend(growth: Growth) -> int:
    """Find a place on the left: above what rises, below what falls."""
    column = growth.drawn[0].column
    rises = growth.rows[-1][column] >= growth.rows[0][column]
    return TOP + 10 if rises else HEIGHT - BOTTOM - 16 * len(growth.drawn)
