"""The ledger of runs: a line of JSON for each door and seed, and a page made of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzzing.watching import Row

ROOT = Path(__file__).parents[2]
HEAD = """\
# Fuzz

`make fuzz MINUTES=10` takes mutants of what brokers, relays, clients and files say to each door of the package.
[The budgets](security.md) bound what they may cost. A mutant fails with an error that the door does not document, after
a second of CPU, or with 256 MiB of memory beyond what the process has; a process outside watches both.

Each run appends a line for each door to [fuzz.jsonl](fuzz.jsonl), with commit and seed, and writes this page from that
file. `make fuzz ONLY="log line" SEED=42` makes the same mutants again.

## Doors

| door | runs | mutants | minutes | worst seconds of CPU | worst MiB | failed |
|---|---|---|---|---|---|---|
"""
RUNS = """
A run ends at 20 failures. What failed was mended with a test before the next run. The failures of seed 3101 are mutants
that got no time of a busy machine: since then processor time counts. The failures of a relay request with seed 4105 are
those of a connection of the test, which could not say what it had not sent.

## Runs

| date | commit | door | seed | mutants | failed |
|---|---|---|---|---|---|
"""


def append(ledger: Path, rows: Iterable[Row]) -> None:
    """Add a run, and write the page beside the ledger anew."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with ledger.open("a", encoding="utf-8") as file:
        for row in rows:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "commit": found.stdout.strip(),
                "door": row.door,
                "seed": row.seed,
                "mutants": row.mutants,
                "seconds": round(row.seconds),
                "worst_seconds": round(row.worst_seconds, 3),
                "worst_mib": round(row.worst_bytes / 2**20, 1),
                "failures": row.failures,
            }
            file.write(json.dumps(line) + "\n")
    lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    ledger.with_suffix(".md").write_text(page(lines), encoding="utf-8")


def page(lines: list[dict[str, Any]]) -> str:
    """Return the page of some lines."""
    by_door = groupby(sorted(lines, key=itemgetter("door")), itemgetter("door"))
    doors = [_total(door, list(of_door)) for door, of_door in by_door]
    if lines:
        doors.append(_total("**all**", lines))
    runs = [
        f"| {line['time'][:10]} | {line['commit']} | {line['door']} | {line['seed']} | {line['mutants']:,} | "
        f"{len(line['failures'])} |\n"
        for line in lines
    ]
    return HEAD + "".join(doors) + RUNS + "".join(runs)


def _total(door: str, lines: list[dict[str, Any]]) -> str:
    mutants, seconds = (sum(line[name] for line in lines) for name in ("mutants", "seconds"))
    worst = [max(line[name] for line in lines) for name in ("worst_seconds", "worst_mib")]
    failed = sum(len(line["failures"]) for line in lines)
    return f"| {door} | {len(lines)} | {mutants:,} | {seconds / 60:.0f} | {worst[0]} | {worst[1]} | {failed} |\n"
