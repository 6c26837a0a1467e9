"""What `import featuregate` costs a fresh process, beyond what the interpreter takes for itself."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from functools import partial

from measuring import Bar, Row, Sample, Section, each, take_turns

HEAVY = (
    "asyncio",
    "ssl",
    "socket",
    "requests",
    "cachetools",
    "filelock",
    "scramp",
    "rich",
    "confluent_kafka",
    "pyspark",
)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Installed packages have their bytecode cached, so ours may be, too."""


def process(code: str) -> float:
    """Run code in a new interpreter, and give the milliseconds until it has ended."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)
    return (time.perf_counter() - began) * 1e3


START = "import sys; from featuregate.cli.script import featuregate; sys.exit(featuregate())"
"""What the installed script does."""


def cpu(code: str, *arguments: str) -> float:
    """Give the milliseconds of processor time instead; the code has these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def brought(code: str) -> list[str]:
    """Name the heavy modules that an import brings in."""
    code = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    return sorted(set(HEAVY) & set(json.loads(shown.stdout)))


def run(rounds: int) -> Section:
    ours, all_of_it, theirs = "import featuregate", "from featuregate import *", "pass"
    codes = (ours, all_of_it, theirs)
    process(all_of_it)  # writes the bytecode
    wall = take_turns("import", rounds, {code: partial(process, code) for code in codes}, "ms")
    busy = take_turns("import, CPU", rounds, {code: partial(cpu, code) for code in codes}, "ms")
    heavy = brought(all_of_it)
    return Section(
        name="import",
        title="Importing",
        rows=(
            row("`import featuregate` beyond `python -c pass`", wall[ours], wall[theirs], Bar(40, "<= 40 ms")),
            row("the same, processor time", busy[ours], busy[theirs], None),
            row("every name of it, beyond `python -c pass`", wall[all_of_it], wall[theirs], None),
            row("the same, processor time", busy[all_of_it], busy[theirs], None),
            each(0, "heavy modules that every name brings in", Sample("featuregate", "modules", (float(len(heavy)),))),
        ),
        notes=(
            (
                "The package imports a name when it is first used, so the first row is not what an app pays in the "
                "end: `from featuregate import *` imports them all, and an app pays what lies between, by what it uses."
            ),
            f"Heavy are {', '.join(HEAVY)}. Brought in by all names: {', '.join(heavy) or 'none'}.",
        ),
    )


def row(what: str, ours: Sample, theirs: Sample, bar: Bar | None) -> Row:
    more = tuple(mine - other for mine, other in zip(ours.values, theirs.values, strict=True))
    return Row(what=what, ours=ours, peer=theirs, score=Sample("difference", "ms", more), bar=bar)
