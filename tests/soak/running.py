"""One run of one harness: a pytest process with a seed, watched until it ends, after which nothing of it is left."""

import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil

from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup
from soak.harnesses import Harness
from soak.reports import REPORTS, Report, last_report

ROOT = Path(__file__).parents[2]
MARK = "SOAK_RUN"
"""The environment variable by which every process of a run is found, also after its parent has ended."""
POLL = 0.5
CLEANUP = 120.0
"""Seconds that an interrupted pytest has to stop its brokers, its members and Spark."""
LINGER = 30.0
"""Seconds in which processes of a run have to notice that it has ended."""
PATH = re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended: its last report, why it failed (None: it passed), and what it printed."""

    report: Report
    failure: str | None
    output: str


def run_harness(harness: Harness, seed: int, watch: Callable[[Report], None], *, linger: float = LINGER) -> Ended:
    """Run a harness to its end, or to its bound; ``watch`` is called with its report twice a second.

    Processes of the run that have not ended ``linger`` seconds after pytest make it a failure, and are killed.
    A KeyboardInterrupt ends it once the run has stopped what it had started.
    """
    family = ProcessGroup("soak")
    try:
        folder = family.folder
        with started(family, harness, seed) as (child, mark):
            ended = _watched(child, harness.bound, lambda: watch(last_report(folder / "reports")))
            left = left_behind(mark, linger) if ended else []
        report = last_report(folder / "reports")
        if not ended:
            failure: str | None = f"no end within {harness.bound:g} s"
        else:
            failure = verdict(folder / "junit.xml", child.exit_code) or judged(report, left)
        return Ended(report=report, failure=failure, output=child.log.read_text(errors="replace"))
    finally:
        family.close()


@contextmanager
def started(family: ProcessGroup, harness: Harness, seed: int) -> Iterator[tuple[ChildProcess, str]]:
    """Start pytest in the project's folder, and give its process and the run's mark; at the end nothing is left."""
    folder, mark = family.folder, uuid.uuid4().hex
    settings = {name: os.environ.get(name, value) for name, value in harness.settings.items()}
    environment = {MARK: mark, REPORTS: str(folder / "reports"), **settings}
    child = family.start(command(harness, seed, environment, folder), log=folder / "output")
    try:
        yield child, mark
    except BaseException:
        os.kill(child.pid, signal.SIGINT)
        child.wait(CLEANUP)
        raise
    finally:
        child.kill()
        for process in marked(mark):
            process.kill()
        psutil.wait_procs(marked(mark), LINGER)


def command(harness: Harness, seed: int, environment: Mapping[str, str], folder: Path) -> list[str]:
    """Spell how pytest runs a harness once."""
    return [
        *("sh", "-c", 'cd "$0" && exec env "$@"', str(ROOT)),
        *(f"{name}={value}" for name, value in environment.items()),
        *(sys.executable, "-m", "pytest", harness.test, f"--hypothesis-seed={seed}"),
        *("--full-trace", "-p", "no:cacheprovider", "--log-cli-level=INFO", f"--junitxml={folder / 'junit.xml'}"),
        *("-o", f"faulthandler_timeout={harness.bound:g}"),
    ]


def _watched(child: ChildProcess, bound: float, look: Callable[[], None]) -> bool:
    """Look at a run until it ends; False when it was interrupted at its bound."""
    for _ in range(int(bound / POLL)):
        if child.wait(POLL):
            return True
        look()
    os.kill(child.pid, signal.SIGINT)  # so that its output says where it stood
    child.wait(CLEANUP)
    return False


def left_behind(mark: str, linger: float) -> list[str]:
    """Wait for the processes of a run to end by themselves, and name those that do not."""
    _, left = psutil.wait_procs(marked(mark), linger)
    return [process.name() for process in left]


def marked(mark: str) -> list[psutil.Process]:
    """Find the processes whose environment has the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):  # it has ended, or belongs to somebody else
            continue
    return found


def verdict(junit: Path, exit_code: int | None) -> str | None:
    """Read why the test failed, in one line without paths; None: it passed."""
    if not junit.exists():
        return f"pytest ended with {exit_code} and without a verdict"
    for kind in ("failure", "error", "skipped"):
        for found in ET.parse(junit).iter(kind):
            return f"{kind}: {one_line(found.get('message', ''))}"
    return None if exit_code == 0 else f"pytest ended with {exit_code}"


def judged(report: Report, left: list[str]) -> str | None:
    """Say what is wrong with a run whose test passed; None: nothing. ``left`` names the processes it left behind."""
    if not report.has_balance:
        return "the harness passed without a balance"
    if report.lost or report.duplicated or report.changed:
        return f"the harness passed with {report.lost} lost, {report.duplicated} duplicated, {report.changed} changed"
    return f"the harness left processes behind: {', '.join(left)}" if left else None


def one_line(message: str) -> str:
    """Shorten what a test said to its first line, without the paths of this machine."""
    first = next(iter(message.strip().splitlines()), "no message")
    return PATH.sub("<path>", first)[:300]
