"""Change the code of a room in many small ways, one at a time, and count the changes that its unit tests notice.

.. code-block:: console

    $ make mutants ROOM=gating
    $ make mutants ROOM=gating ONLY=latches
    $ make mutants ROOM=gating SAMPLE=200 SEED=7

mutmut makes the mutants and runs the tests, in a copy of the checkout below ``build/mutants``. A large room takes
hours, and a random sample of its mutants some minutes. A run appends a line to ``docs/mutants.jsonl`` and writes
``docs/mutants.md``. It ends with 1 if fewer than 95 % of the mutants were killed, or if one survived without a reason
in ``docs/mutants.toml``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
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
NO_MUTANT: Final = "of.no.module__mutmut_0"
NOT_TRIED: Final = "not checked"
COPIED: Final = (
    "featuregate",
    "tests",
    "scripts",
    "docs",
    "examples",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "SECURITY.md",
)


class Room(NamedTuple):
    """Code that decides, and the tests that hold it."""

    code: str
    tests: tuple[str, ...]
    of_live_tests: tuple[str, ...] = ()
    """Modules that work on a file system of a real Spark, and that no unit test runs."""
    readers: tuple[str, ...] = ()
    """Tests that read the code as text, where mutants stand beside the original."""


ROOMS: Final = {
    "gating": Room("featuregate/gating/", ("gating", "polling", "view", "requirements", "test_excluded_apis.py")),
    "view": Room("featuregate/view/", ("view", "gating", "polling", "test_budgets.py")),
    "polling": Room("featuregate/polling/", ("polling", "gating", "sources", "test_budgets.py")),
    "admin": Room("featuregate/admin/", ("admin", "cli")),
    "readiness": Room("featuregate_fleet/readiness/", ("fleet",), readers=("fleet/test_checks_page.py",)),
    "latch": Room("featuregate_confluent/latch/", ("confluent",)),
    "pins": Room("featuregate_spark/pins/", ("spark",), ("dataframes", "hadoop", "write_once")),
}
"""The tests are those of the room, and of the rooms that its code is made for."""


class Survivor(NamedTuple):
    """A change that no test noticed."""

    function: str
    removed: str
    added: str

    @property
    def key(self) -> str:
        """What ``docs/mutants.toml`` calls it: names of mutants change with each edit of the function."""
        return f"{self.function}: {self.added}"


def main(room: str, module: str, sample: int | None, seed: int) -> int:
    """Run the mutants of a room, or of one of its modules, or a sample of these, and write what survived."""
    name = f"{room}/{module}" if module else room
    commit = commit_of_checkout()
    work = prepare(room, module)
    made = mutants_of(work) if sample else []
    tried = random.Random(seed).sample(made, min(sample or 0, len(made)))  # noqa: S311 - not a secret
    print(f"{name}: {f'{len(tried):,} of {len(made):,} mutants, SEED={seed}' if tried else 'all mutants'}", flush=True)
    mutmut(work, "run", "--max-children", str(os.cpu_count() or 1), *tried)
    counts = Counter(status for _, status in results(work, "--all", "true") if status != NOT_TRIED)
    survivors = [survivor(work, one) for one, status in results(work) if status not in (*NOTICED, NOT_TRIED)]
    noticed = sum(counts[status] for status in NOTICED)
    append(name, commit, len(made) or counts.total(), counts.total(), noticed, survivors)
    reasons = tomllib.loads(REASONS.read_text())
    unexplained = [one for one in survivors if one.key not in reasons]
    for one in unexplained:
        print(f"survived in {one.function}\n  - {one.removed}\n  + {one.added}")
    share = noticed / counts.total()
    print(
        f"{name}: {counts.total():,} mutants tried, {share:.1%} killed, {len(unexplained)} survivors without a reason"
    )
    return 1 if unexplained or share < FEWEST_KILLED else 0


def prepare(room: str, module: str) -> Path:
    """Copy the checkout, and say in the copy what mutmut has to do."""
    work = ROOT / "build/mutants" / room
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, work / name)
    packages = [path.name for path in (ROOT / "integrations").iterdir() if (path / "__init__.py").exists()]
    for name in packages:  # mutmut finds the tests of a module where its path is its name
        shutil.copytree(ROOT / "integrations" / name, work / name)
    code, tests, of_live_tests, readers = ROOMS[room]
    options: dict[str, Any] = {
        "source_paths": [f"{code.partition('/')[0]}/"],
        "only_mutate": [f"{code}{module}.py" if module else f"{code}*"],
        "do_not_mutate": [f"{code}{name}.py" for name in of_live_tests],
        "also_copy": [*COPIED, *packages],
        "pytest_add_cli_args": [
            "-q",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile",
            "mutants",
            "-m",
            "not live and not slow",
            *(f"--ignore=tests/unit/{test}" for test in readers),
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
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=work, text=True, capture_output=capture, check=True)  # noqa: S603
    return done.stdout or ""


def mutants_of(work: Path) -> list[str]:
    """Make the mutants, and return their names in order."""
    with suppress(subprocess.CalledProcessError):  # mutmut makes all of them before it says that there is no such one
        mutmut(work, "run", NO_MUTANT, capture=True)
    made = sorted(name for name, _ in results(work, "--all", "true"))
    assert made, "mutmut says why: run it without a sample"
    return made


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


def append(room: str, commit: str, mutants: int, tried: int, killed: int, survivors: list[Survivor]) -> None:
    """Add a run to the ledger, and write the page anew."""
    line = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit,
        "room": room,
        "mutants": mutants,
        "tried": tried,
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
        f"| {run['room']} | {run['date']} | {run['commit']} | {run['mutants']:,} | {tried_in(run):,} "
        f"| {run['killed'] / tried_in(run):.1%} |"
        for run in newest.values()
    ]
    left = [
        f"| {room} | `{key.replace('|', chr(92) + '|')}` | {reasons.get(key, 'none yet')} |"
        for room, run in newest.items()
        for key in run["survived"]
    ]
    PAGE.write_text("\n".join([HEAD, *rows, SURVIVORS, *left, ""]))


def tried_in(run: dict[str, Any]) -> int:
    """Return how many mutants a run has tried: the first ones tried all."""
    tried: int = run.get("tried", run["mutants"])
    return tried


HEAD: Final = """\
<!-- generated by make mutants -->
# Mutants

`make mutants ROOM=gating` changes the code of a room that decides in many small ways, one at a time, and runs the unit
tests of the room with each change. A change that no test notices has survived, and needs a test, or a reason in
[mutants.toml](mutants.toml). The newest run of each room:

| room | date | commit | mutants | tried | killed of these |
|---|---|---|---|---|---|"""
SURVIVORS: Final = """
## What survived

| room | the function, and the line that replaced its own | why no test notices it |
|---|---|---|"""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("module", nargs="?", default="", help="one module of the room, such as latches")
    parser.add_argument("--sample", type=int, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the choice")  # noqa: S311
    return parser.parse_args(words)


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        write_page()
    else:
        said = arguments(sys.argv[1:])
        sys.exit(main(said.room, said.module, said.sample, said.seed))
