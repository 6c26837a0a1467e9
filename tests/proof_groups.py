"""The tests that ``make proof`` runs: those that are too long for each commit, in groups with the names of rooms.

``pytest --proof`` runs them all, and ``pytest --proof --group switch`` those that are marked ``proof("switch")``;
without it, they are left out unless the command line names their file. ``--ledger`` appends a row with the counts of
the run to a page.
"""

from __future__ import annotations

import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    options = parser.getgroup("proof")
    options.addoption("--proof", action="store_true", help="run the tests that are marked proof, and no others")
    options.addoption("--group", help="of these, one group, such as switch or fleet")
    options.addoption("--ledger", type=Path, metavar="PAGE", help="append the counts of the run to this page")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()


STARTED = pytest.StashKey[float]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen, others = [], []
    for item in items:
        (chosen if _is_chosen(item, config) else others).append(item)
    if others:
        items[:] = chosen
        config.hook.pytest_deselected(items=others)


def _is_chosen(item: pytest.Item, config: pytest.Config) -> bool:
    marker = item.get_closest_marker("proof")
    if not config.option.proof:
        return marker is None or _is_named(item, config)
    return marker is not None and config.option.group in (None, marker.args[0])


def _is_named(item: pytest.Item, config: pytest.Config) -> bool:
    named = (Path(str(config.invocation_params.dir), str(each).partition("::")[0]) for each in config.args)
    return item.path in {path.resolve() for path in named}


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    if (page := config.option.ledger) is None or hasattr(config, "workerinput"):
        return
    counts = {name: len(terminalreporter.stats.get(name, ())) for name in ("passed", "failed", "error", "skipped")}
    minutes = (time.monotonic() - config.stash[STARTED]) / 60
    with page.open("a") as ledger:
        ledger.write(row(_commit(), datetime.now(UTC), config.option.group, counts, minutes))


def row(commit: str, when: datetime, group: str | None, counts: dict[str, int], minutes: float) -> str:
    """Return a line of the table: what ran, when, and what came of it."""
    failed = counts["failed"] + counts["error"]
    cells = (commit, f"{when:%Y-%m-%d}", group or "all", counts["passed"], failed, counts["skipped"], f"{minutes:.0f}")
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def _commit() -> str:
    """Return the commit that was tested; with a plus where files have changed since."""
    command = ["git", "describe", "--always", "--dirty=+"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"
