"""Run the fault harnesses in a row with random seeds, and write what they count to the ledger and its page.

Exits with 0 where all runs passed, 1 where one failed, 130 when interrupted.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from platform import python_version

import psutil

from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup
from soak.harnesses import HARNESSES, Harness
from soak.ledger import append, write_page
from soak.reports import REPORTS, Report, last_report

ROOT = Path(__file__).parents[2]
SOAKED = ("featuregate", "integrations", "examples", "tests")
"""The folders whose last commit the ledger names."""
MARK = "SOAK_RUN"
"""The environment variable by which every process of a run is found, also after its parent has ended."""
LINGER = 30.0
"""Seconds in which processes of a run have to notice that it has ended."""
CLEANUP = 120.0
"""Seconds that an interrupted pytest has to stop its brokers, its members and Spark."""
KEPT_LINES = 3000
say = partial(print, flush=True)
PATH = re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}")
"""The ledger is published, without paths of a machine."""


def main(argv: Sequence[str] | None = None, harnesses: Sequence[Harness] = HARNESSES) -> int:
    args = arguments(argv, [harness.name for harness in harnesses])
    if args.table:
        write_page(args.ledger)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = random.SystemRandom().getrandbits(32) if args.seed is None else args.seed
    chosen = [harness for harness in harnesses if not args.only or harness.name in args.only]
    until, failed = time.monotonic() + 60 * args.minutes, 0
    args.outputs.mkdir(parents=True, exist_ok=True)
    try:
        for harness, own_seed in zip(cycle(chosen), seeds(seed), strict=False):
            say(f"{harness.name}: begins with seed {own_seed}")
            began, output = time.monotonic(), args.outputs / f"{harness.file_name}-{own_seed}.log"
            report, failure = run_harness(harness, own_seed, output)
            append(args.ledger, row_of(harness, own_seed, time.monotonic() - began, report, failure))
            counts = f"{report.inputs:,} messages, {sum(report.faults.values())} faults"
            say(f"{harness.name}: {f'FAILED: {failure}' if failure else 'passed'}; {counts}")
            failed += failure is not None
            if time.monotonic() >= until:
                break
    except KeyboardInterrupt:
        sys.stderr.write("soak: interrupted in a run, which is in no ledger\n")
        return 128 + signal.SIGINT
    return 1 if failed else 0


def arguments(argv: Sequence[str] | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60, help="begin new runs for so long (default: 60)")
    parser.add_argument("--seed", type=int, help="the seed of the first run, from which the others follow")
    parser.add_argument("--only", action="append", metavar="HARNESS", choices=names, help=f"one of {'; '.join(names)}")
    parser.add_argument("--ledger", type=Path, default=ROOT / "docs" / "soak.jsonl", help="where runs are written")
    parser.add_argument("--outputs", type=Path, default=ROOT / "build" / "soak", help="where runs leave their output")
    parser.add_argument("--table", action="store_true", help="write the ledger's page alone, and run nothing")
    return parser.parse_args(argv)


def seeds(first: int) -> Iterator[int]:
    """Give the seeds of a soak: the first one as it is, so that one run can be repeated, then those it leads to."""
    yield first
    chance = random.Random(first)
    while True:
        yield chance.getrandbits(32)


def run_harness(harness: Harness, seed: int, output: Path, *, linger: float = LINGER) -> tuple[Report, str | None]:
    """Run a harness to its end, or to its bound; return its last report, and why it failed, None where it passed.

    Processes of the run that have not ended ``linger`` seconds after pytest make it a failure, and are killed.
    """
    family, mark = ProcessGroup("soak"), uuid.uuid4().hex
    reports = family.folder / "reports"
    settings = {name: os.environ.get(name, value) for name, value in harness.settings.items()}
    environment = {MARK: mark, REPORTS: str(reports), "COLUMNS": "400", **settings}
    try:
        child = family.start(command(harness, seed, environment), log=family.folder / "output")
        try:
            has_ended = child.wait(harness.bound)
            left = [process.name() for process in psutil.wait_procs(marked(mark), linger)[1]] if has_ended else []
        finally:
            _end(child, mark)
        lines = child.log.read_text(errors="replace").splitlines(keepends=True)
        output.write_text("".join(lines[-KEPT_LINES:]))
        report = last_report(reports)
        if not has_ended:
            return report, f"no end within {harness.bound:g} s"
        return report, _verdict(child.exit_code, lines) or judged(report, left)
    finally:
        family.close()


def _end(child: ChildProcess, mark: str) -> None:
    """Interrupt pytest, so that its output says where it stood, and leave no process of the run."""
    if child.exit_code is None:
        os.kill(child.pid, signal.SIGINT)
        child.wait(CLEANUP)
    child.kill()
    for process in marked(mark):
        process.kill()
    psutil.wait_procs(marked(mark), LINGER)


def command(harness: Harness, seed: int, environment: Mapping[str, str]) -> list[str]:
    return [
        *("sh", "-c", 'cd "$0" && exec env "$@"', str(ROOT)),
        *(f"{name}={value}" for name, value in environment.items()),
        *(sys.executable, "-m", "pytest", harness.test, f"--hypothesis-seed={seed}", "-rfEs", "--full-trace"),
        *("-p", "no:cacheprovider", "--log-cli-level=INFO", "-o", f"faulthandler_timeout={harness.bound:g}"),
    ]


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):  # it has ended, or belongs to somebody else
            continue
    return found


def _verdict(exit_code: int | None, lines: Sequence[str]) -> str | None:
    """Return why the test failed or was skipped, by the summary of pytest and without paths; None: it passed."""
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ", "SKIPPED ")):
            kind, _, said = line.strip().partition(" ")
            why = said.partition(" - ")[2] or said.partition(": ")[2]
            return f"{kind.lower()}: {PATH.sub('<path>', why)[:300]}"
    return None if exit_code == 0 else f"pytest ended with {exit_code}"


def judged(report: Report, left: Sequence[str]) -> str | None:
    """Say what is wrong with a run whose test passed; None: nothing. ``left`` names the processes it left behind."""
    if report.lost is None:
        return "the harness passed without a balance"
    if report.lost or report.duplicated or report.changed:
        return f"the harness passed with {report.lost} lost, {report.duplicated} duplicated, {report.changed} changed"
    return f"the harness left processes behind: {', '.join(left)}" if left else None


def row_of(harness: Harness, seed: int, seconds: float, report: Report, failure: str | None) -> dict[str, object]:
    counts = asdict(report)
    return {
        "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "commit": commit(),
        "harness": harness.name,
        "seed": seed,
        "seconds": round(seconds),
        "versions": {
            "kafka": ", ".join(counts.pop("kafka")),
            "python": python_version(),
            **{name: version(name) for name in harness.libraries},
        },
        **counts,
        "failure": failure,
        "note": "",
    }


def commit() -> str:
    """Name the last commit that changed what is soaked; with a plus where something is changed and not committed."""
    last, changed = (
        subprocess.run(["git", *words, "--", *SOAKED], cwd=ROOT, capture_output=True, text=True, check=False).stdout
        for words in (("log", "-1", "--format=%h"), ("status", "--porcelain"))
    )
    return (last.strip() or "unknown") + ("+" if changed else "")


if __name__ == "__main__":
    sys.exit(main())
