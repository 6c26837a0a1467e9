"""Made-up request logs of any size, whose lines come from real brokers.

A line is one of a captured log (tests/data/request_logs) with another time, correlation id, port and client. How often
each API and version comes, and how long its bodies are, is as it was captured. Some requests are refused, and some
lines are garbage. The same seed makes the same lines.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

CAPTURES = Path(__file__).parents[1] / "tests/data/request_logs"
RELEASES = ("3.9.2", "4.2.0")
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
LINES_A_SECOND = 1000
LINES_A_FILE = 100_000
ZIPF = 1.1
"""The n-th client sends 1/n^1.1 of what the first one sends."""
GARBAGE = 0.01
"""Share of the lines that no parser can read."""
REFUSED = 0.001
"""Share of the requests that are refused; the broker logs four lines of each."""

_REASONS = ("and unsupported version", "which is not enabled")
_SLOTS = re.compile(
    r"(?P<time>^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d,\d{3})"
    r'|(?<="correlationId":)(?P<correlation>\d+)'
    r'|(?<="clientId":")(?P<client>[^"\\]*(?:\\.[^"\\]*)*)(?=")'
    r"|(?<=-127\.0\.0\.1:)(?P<port>\d+)"
    r'|(?<="principal":")(?P<principal>[^"]*)(?=")',
    re.MULTILINE,
)


class Mix(NamedTuple):
    """Who sends requests."""

    clients: int = 200
    first: float | None = None
    """The share of the first client; None as of all others."""


class _Template(NamedTuple):
    """The text of a request that is served, or of one that is refused."""

    parts: tuple[str, ...]
    slots: tuple[str, ...]
    between_nodes: bool
    """Nodes have numbers as client ids, and keep them."""


def made_lines(seed: int, mix: Mix) -> Iterator[str]:
    """Make lines for ever."""
    chance = random.Random(seed)
    served, refused = _templates()
    names = [f"client-{number:04}" for number in range(mix.clients)]
    weights = [1 / (rank + 1) ** ZIPF for rank in range(mix.clients)]
    if mix.first is not None and mix.clients > 1:
        rest = sum(weights[1:])
        weights = [mix.first, *(weight / rest * (1 - mix.first) for weight in weights[1:])]
    total = list(accumulate(weights))
    number = 0
    while True:
        for template, name in zip(
            chance.choices(served, k=1000), chance.choices(names, cum_weights=total, k=1000), strict=True
        ):
            number += 1
            line = _filled(template, name, number)
            drawn = chance.random()
            if drawn < GARBAGE:
                yield _garbage(line, chance)
            elif drawn < GARBAGE + REFUSED:
                yield from _filled(chance.choice(refused), name, number).splitlines(keepends=True)
            else:
                yield line


def write_logs(folder: Path, count: int, *, seed: int = 7, mix: Mix | None = None, brokers: int = 3) -> list[Path]:
    """Write files of so many lines in all, as the folders of some brokers, and return them."""
    lines = made_lines(seed, mix or Mix())
    files = []
    for number, at in enumerate(range(0, count, LINES_A_FILE)):
        file = folder / str(1 + number % brokers) / f"kafka-request.log.{number:05}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as text:
            text.writelines(islice(lines, min(LINES_A_FILE, count - at)))
        files.append(file)
    return files


def _templates() -> tuple[Sequence[_Template], Sequence[_Template]]:
    """Return the requests that were served, and those that were refused."""
    served, refused = [], []
    for release in RELEASES:
        lines = (CAPTURES / f"{release}.log").read_text().splitlines(keepends=True)
        for number, line in enumerate(lines):
            if "DEBUG Completed request:{" in line:
                served.append(_template(line))
            elif "ERROR Closing socket for" in line and any(reason in lines[number + 1] for reason in _REASONS):
                refused.append(_template("".join(lines[number : number + 4])))
    return served, refused


def _garbage(line: str, chance: random.Random) -> str:
    """Return noise, or less than half of a line."""
    if chance.random() < 0.5:
        return f"{chance.randbytes(chance.randrange(200)).hex()}\n"
    return f"{line[: chance.randrange(len(line) // 2)]}\n"


def _template(text: str) -> _Template:
    parts, slots, at, between_nodes = [], [], 0, False
    for match in _SLOTS.finditer(text):
        parts.append(text[at : match.start()])
        slots.append(match.lastgroup or "")
        at = match.end()
        between_nodes |= match.lastgroup == "client" and match[0].isdecimal()
    return _Template((*parts, text[at:]), tuple(slots), between_nodes)


def _filled(template: _Template, name: str, number: int) -> str:
    time = BEGIN + timedelta(seconds=number / LINES_A_SECOND)
    values = {
        "time": f"{time:%Y-%m-%dT%H:%M:%S},{time.microsecond // 1000:03}",
        "correlation": str(number),
        "client": "1" if template.between_nodes else name,
        "port": str(20_000 + int(name.rpartition("-")[2]) % 40_000),
        "principal": f"User:{name[:9]}",
    }
    filled = [template.parts[0]]
    for slot, part in zip(template.slots, template.parts[1:], strict=True):
        filled += (values[slot], part)
    return "".join(filled)
