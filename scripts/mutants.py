"""Change the code of a room in many small ways, one at a time, and count the changes that its unit tests notice.

.. code-block:: console

    $ make mutants ROOM=gating
    $ make mutants ROOM=gating ONLY=latches

mutmut makes the mutants and runs the tests, in a copy of the checkout below ``build/mutants``. A run appends a line to
``docs/mutants.jsonl`` and writes ``docs/mutants.md``. It ends with 1 if fewer than 95 % of the mutants were killed, or
if one survived without a reason in ``docs/mutants.toml``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
LEDGER: Final = ROOT / "docs/mutants.jsonl"
REASONS: Final = ROOT / "docs/mutants.toml"
PAGE: Final = ROOT / "docs/mutants.md"
FEWEST_KILLED: Final = 0.95
NOTICED: Final = ("killed", "timeout")
"""A test that runs without end has noticed the change as well."""
COPIED: Final = ("featuregate", "integrations", "tests", "scripts", "docs", "examples", "pyproject.toml", "README.md")


class Room(NamedTuple):
    """Code that decides, and the tests that hold it."""

    code: str
    tests: tuple[str, ...]


ROOMS: Final = {
    "gating": Room("featuregate/gating/", ("gating", "test_excluded_apis.py")),
    "view": Room("featuregate/view/", ("view",)),
    "polling": Room("featuregate/polling/", ("polling",)),
    "admin": Room("featuregate/admin/", ("admin",)),
    "readiness": Room("integrations/featuregate_fleet/readiness/", ("fleet",)),
    "latch": Room("integrations/featuregate_confluent/latch/", ("confluent/latch",)),
    "pins": Room("integrations/featuregate_spark/pins/", ("spark/test_pins.py", "spark/test_batches.py")),
}


class Survivor(NamedTuple):
    """A change that no test noticed."""

    function: str
    removed: str
    added: str

    @property
    def key(self) -> str:
        """What ``docs/mutants.toml`` calls it: names of mutants change with each edit of the function."""
        return f"{self.function}: {self.added}"


def main(room: str, module: str = "") -> int:
    """Run all mutants of a room, or of one of its modules, and write what survived."""
    if room == "--page":
        write_page()
        return 0
    if room not in ROOMS:
        print(f"make mutants ROOM=...: one of {' '.join(ROOMS)}", file=sys.stderr)
        return 2
    name = f"{room}/{module}" if module else room
    commit = commit_of_checkout()
    work = prepare(room, module)
    mutmut(work, "run", "--max-children", str(os.cpu_count() or 1))
    counts = Counter(status for _, status in results(work, "--all", "true"))
    survivors = [survivor(work, name) for name, status in results(work) if status not in NOTICED]
    noticed = sum(counts[status] for status in NOTICED)
    append(name, commit, counts.total(), noticed, survivors)
    reasons = tomllib.loads(REASONS.read_text())
    unexplained = [one for one in survivors if one.key not in reasons]
    for one in unexplained:
        print(f"survived in {one.function}\n  - {one.removed}\n  + {one.added}")
    share = noticed / counts.total()
    print(f"{name}: {counts.total():,} mutants, {share:.1%} killed, {len(unexplained)} survivors without a reason")
    return 1 if unexplained or share < FEWEST_KILLED else 0


def prepare(room: str, module: str) -> Path:
    """Copy the checkout, and say in the copy what mutmut has to do."""
    work = ROOT / "build/mutants" / room
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, work / name)
    code, tests = ROOMS[room]
    options: dict[str, Any] = {
        "source_paths": [f"{code.partition('/')[0]}/"],
        "only_mutate": [f"{code}{module}.py" if module else f"{code}*"],
        "also_copy": list(COPIED),
        "pytest_add_cli_args": [
            "-q",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile",
            "mutants",
            "-m",
            "not live and not slow",
        ],
        "pytest_add_cli_args_test_selection": [f"tests/unit/{test}" for test in tests],
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    with (work / "pyproject.toml").open("a") as file:
        print(
            "\n[tool.mutmut]", *(f"{key} = {json.dumps(value)}" for key, value in options.items()), sep="\n", file=file
        )
    return work


def mutmut(work: Path, *arguments: str, capture: bool = False) -> str:
    """Run a command of mutmut in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(work / "mutants/integrations")}  # mutmut adds the folder above it
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=work, env=environment, text=True, capture_output=capture, check=True)  # noqa: S603
    return done.stdout or ""


def results(work: Path, *options: str) -> list[tuple[str, str]]:
    """Return the names of mutants and what became of them; without options, of those that were not killed."""
    lines = mutmut(work, "results", *options, capture=True).splitlines()
    return [(name.strip(), status.strip()) for name, colon, status in (line.partition(": ") for line in lines) if colon]


def survivor(work: Path, name: str) -> Survivor:
    """Return what one mutant changed."""
    lines = mutmut(work, "show", name, capture=True).splitlines()
    removed, added = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    )
    module, _, mangled = name.rpartition(".")
    function = mangled.rpartition("__mutmut_")[0].removeprefix("x_").replace("ǁ", ".").removeprefix("x.")
    return Survivor(f"{module.rpartition('.')[2]}.{function}", removed, added)


def commit_of_checkout() -> str:
    """Return the commit that is checked out, with a plus where files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def append(room: str, commit: str, mutants: int, killed: int, survivors: list[Survivor]) -> None:
    """Add a run to the ledger, and write the page anew."""
    line = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "room": room,
        "mutants": mutants,
        "killed": killed,
        "survived": [one.key for one in survivors],
    }
    with LEDGER.open("a") as file:
        file.write(f"{json.dumps(line)}\n")
    write_page()


def write_page() -> None:
    """Write the page from the ledger and the reasons."""
    runs = [json.loads(line) for line in LEDGER.read_text().splitlines()]
    newest = {run["room"]: run for run in runs}
    reasons = tomllib.loads(REASONS.read_text())
    rows = [
        f"| {run['room']} | {run['date']} | {run['commit']} | {run['mutants']} | {run['killed'] / run['mutants']:.1%} |"
        for run in newest.values()
    ]
    left = [
        f"| {room} | `{key.replace('|', chr(92) + '|')}` | {reasons.get(key, 'none yet')} |"
        for room, run in newest.items()
        for key in run["survived"]
    ]
    PAGE.write_text("\n".join([HEAD, *rows, SURVIVORS, *left, ""]))


HEAD: Final = """\
# Mutants

`make mutants ROOM=gating` changes the code of a room that decides in many small ways, one at a time, and runs the unit
tests of the room with each change. A change that no test notices has survived, and needs a test, or a reason in
[mutants.toml](mutants.toml). The newest run of each room:

| room | date | commit | mutants | killed |
|---|---|---|---|---|"""
SURVIVORS: Final = """
## What survived

| room | the function, and the line that replaced its own | why no test notices it |
|---|---|---|"""


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [""])))
