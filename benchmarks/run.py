"""Measure featuregate beside its peers: `make bench`.

It writes docs/benchmarks.md and its sisters, one for each part. A run that leaves out some of a
page (``--only``), or is hurried (``--quick``), just shows what it found.
Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import checks
import commands
import decoding
import fleet
import fleet_sizes
import importing
import live
import relay
import scaling
import spark
import switch
from machine import facts, load
from measuring import Section, announce
from report import show, write


class Benchmark(NamedTuple):
    run: Callable[[int], Section]
    rounds: int
    hurried: int


BENCHMARKS = {
    "checks": Benchmark(checks.run, 101, 21),
    "decode": Benchmark(decoding.run, 101, 21),
    "import": Benchmark(importing.run, 31, 5),
    "describe": Benchmark(live.describe, 9, 2),
    "scale": Benchmark(scaling.run, 7, 2),
    "poll": Benchmark(live.poll, 7, 2),
    "switch": Benchmark(switch.run, 60, 4),
    "spark": Benchmark(spark.run, 9, 2),
    "commands": Benchmark(commands.run, 5, 2),
    "fleet": Benchmark(fleet.run, 5, 1),
    "fleet-sizes": Benchmark(fleet_sizes.run, 5, 1),
    "relay": Benchmark(relay.run, 7, 2),
}

TAKE_HOURS = frozenset({"fleet-sizes"})
"""Run by name alone."""


class Page(NamedTuple):
    file: str
    title: str
    of: tuple[str, ...]


PAGES = (
    Page("benchmarks.md", "Benchmarks", ("checks", "decode", "import", "describe", "scale", "poll")),
    Page("benchmarks-switch.md", "Benchmarks of the producer switch", ("switch",)),
    Page("benchmarks-spark.md", "Benchmarks on PySpark", ("spark",)),
    Page("benchmarks-commands.md", "Benchmarks of the commands", ("commands",)),
    Page("benchmarks-fleet.md", "Benchmarks of the fleet pipeline", ("fleet",)),
    Page("benchmarks-fleet-sizes.md", "Benchmarks of a large fleet", ("fleet-sizes",)),
    Page("benchmarks-relay.md", "Benchmarks of the relay", ("relay",)),
)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    began, before = time.monotonic(), load()
    sections = {}
    for name in args.only:
        benchmark = BENCHMARKS[name]
        rounds = args.rounds or (benchmark.hurried if args.quick else benchmark.rounds)
        announce(f"{name}: {rounds} rounds")
        sections[name] = benchmark.run(rounds)
    show(sections.values())
    took = f"{time.monotonic() - began:.0f} s, load {before} before and {load()} after"
    for page in PAGES:
        if sections.keys() >= set(page.of) and not args.quick:
            write(page.file, page.title, [sections[name] for name in page.of], {**facts(), "this run": took})
            announce(f"written: docs/{page.file}")
    missed = [row for section in sections.values() for row in section.rows if not row.met]
    for row in missed:
        announce(f"missed: {row.what} is {row.score}, the bar is {row.bar.text if row.bar else ''}")
    return 1 if missed else 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        type=some,
        default=[name for name in BENCHMARKS if name not in TAKE_HOURS],
        metavar="NAMES",
        help=f"of {', '.join(BENCHMARKS)}",
    )
    parser.add_argument("--rounds", type=int, help="how often each contestant takes its turn")
    parser.add_argument("--quick", action="store_true", help="few rounds, and nothing is written")
    return parser.parse_args(argv)


def some(text: str) -> list[str]:
    wanted = text.split(",")
    if unknown := sorted(set(wanted) - set(BENCHMARKS)):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return [name for name in BENCHMARKS if name in wanted]


if __name__ == "__main__":
    raise SystemExit(main())
