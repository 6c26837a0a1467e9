"""Run the fault harnesses in a row with random seeds, and write what they count to the ledger and its page.

Exits with 0 where all runs passed, 1 where one failed, 130 when interrupted.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from soak.harnesses import HARNESSES, Harness
from soak.ledger import Run, append, read
from soak.page import page
from soak.running import ROOT, Ended, run_harness
from soak.soaking import Progress, soak

SOAKED = ("featuregate", "integrations", "examples", "tests")
"""The folders whose last commit the ledger names."""
KEPT_LINES = 3000


def main(argv: Sequence[str] | None = None) -> int:
    """Soak for as long as one says."""
    args = arguments(argv)
    if args.table:
        write_page(args.ledger)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = random.SystemRandom().getrandbits(32) if args.seed is None else args.seed
    progress = Progress(say=partial(print, flush=True), clock=time.monotonic)
    try:
        soak(
            [harness for harness in HARNESSES if not args.only or harness.name in args.only],
            seconds=60 * args.minutes,
            seed=seed,
            progress=progress,
            run=run_harness,
            keep=partial(keep, ledger=args.ledger, outputs=args.outputs),
        )
    except KeyboardInterrupt:
        sys.stderr.write(f"soak: interrupted in run {progress.runs}, which is in no ledger; {progress.total()}\n")
        return 128 + signal.SIGINT
    return 1 if progress.failed else 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = [harness.name for harness in HARNESSES]
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="begin new runs for so long (default: 60)")
    parser.add_argument("--seed", type=int, help="the seed of the first run, from which the others follow")
    parser.add_argument("--only", action="append", metavar="HARNESS", choices=names, help=f"one of {'; '.join(names)}")
    parser.add_argument("--ledger", type=Path, default=ROOT / "docs" / "soak.jsonl", help="where runs are written")
    parser.add_argument("--outputs", type=Path, default=ROOT / "build" / "soak", help="where runs leave their output")
    parser.add_argument("--table", action="store_true", help="write the ledger's page alone, and run nothing")
    return parser.parse_args(argv)


def keep(harness: Harness, seed: int, seconds: float, ended: Ended, *, ledger: Path, outputs: Path) -> Run:
    """Write a run to the ledger, the table anew, and the end of its output to a file."""
    report = ended.report
    run = Run.of(
        report,
        time=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        commit=commit(),
        harness=harness.name,
        seed=seed,
        seconds=round(seconds),
        versions={
            "kafka": ", ".join(report.kafka),
            "python": python_version(),
            **{name: version(name) for name in harness.libraries},
        },
        failure=ended.failure,
    )
    append(ledger, run)
    write_page(ledger)
    outputs.mkdir(parents=True, exist_ok=True)
    lines = ended.output.splitlines(keepends=True)[-KEPT_LINES:]
    (outputs / f"{harness.file_name}-{seed}.log").write_text("".join(lines))
    return run


def commit() -> str:
    """Name the last commit that changed what is soaked; with a plus where something is changed and not committed."""
    last, changed = (
        subprocess.run(["git", *words, "--", *SOAKED], cwd=ROOT, capture_output=True, text=True, check=False).stdout
        for words in (("log", "-1", "--format=%h"), ("status", "--porcelain"))
    )
    return (last.strip() or "unknown") + ("+" if changed else "")


def write_page(ledger: Path) -> None:
    """Write the page of a ledger beside it."""
    ledger.with_suffix(".md").write_text(page(read(ledger)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
