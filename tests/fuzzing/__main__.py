"""Take mutants of what peers send to each door, with time and memory watched from outside, and print a table.

Exits with 0 where no mutant failed, else with 1. Mutants that failed are in the folder of outputs.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fuzzing.doors import DOORS
from fuzzing.ledger import append
from fuzzing.watching import Row, watch

ROOT = Path(__file__).parents[2]
MANY = 10**12
say = partial(print, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    names = [door.name for door in DOORS]
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="for all doors together (default: 10)")
    parser.add_argument("--mutants", type=int, default=MANY, help="the most for each door")
    parser.add_argument("--seed", type=int, help="the same seed makes the same mutants")
    parser.add_argument("--only", action="append", metavar="DOOR", choices=names, help=f"one of {'; '.join(names)}")
    parser.add_argument("--outputs", type=Path, default=ROOT / "build" / "fuzz", help="where failed mutants are kept")
    parser.add_argument("--ledger", type=Path, metavar="FILE", help="append the run, and write the page beside it")
    args = parser.parse_args(argv)
    seed = random.SystemRandom().getrandbits(32) if args.seed is None else args.seed
    chosen = args.only or names
    seconds = 60 * args.minutes / len(chosen)
    say(f"seed {seed}, {seconds:.0f} s for each door")
    say(HEADER)
    rows = []
    for name in chosen:
        rows.append(watch("fuzzing.doors", name, seed, args.outputs, seconds=seconds, mutants=args.mutants))
        say(line_of(rows[-1]))
    for row in rows:
        for number in row.failures:
            text = (row.folder / f"{number}.txt").read_text(encoding="utf-8").strip()
            say(f"{row.door}, seed {row.seed}, mutant {number}: {text.splitlines()[-1][:300]}")
            say(f"  its bytes: {row.folder / f'{number}.bin'}")
    if args.ledger:
        append(args.ledger, rows)
    return 1 if any(row.failures for row in rows) else 0


HEADER = f"{'door':20} {'mutants':>10} {'a second':>9} {'worst s':>8} {'worst MiB':>9} {'failures':>8}"


def line_of(row: Row) -> str:
    rate = row.mutants / row.seconds
    worst = f"{row.worst_seconds:8.3f} {row.worst_bytes / 2**20:9.1f}"
    return f"{row.door:20} {row.mutants:10} {rate:9.0f} {worst} {len(row.failures):8}"


if __name__ == "__main__":
    sys.exit(main())
