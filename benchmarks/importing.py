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

__all__ = ["run"]

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


def cpu(code: str) -> float:
    """Give the milliseconds of processor time instead."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def brought() -> list[str]:
    """Name the heavy modules that an import brings in."""
    code = "import json, sys, featuregate; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    return sorted(set(HEAVY) & set(json.loads(shown.stdout)))


def run(rounds: int) -> Section:
    ours, theirs = "import featuregate", "pass"
    process(ours)  # writes the bytecode
    wall = take_turns("import", rounds, {code: partial(process, code) for code in (ours, theirs)}, "ms")
    busy = take_turns("import, CPU", rounds, {code: partial(cpu, code) for code in (ours, theirs)}, "ms")
    heavy = brought()
    return Section(
        name="import",
        title="Importing",
        rows=(
            row("`import featuregate` beyond `python -c pass`", wall[ours], wall[theirs], Bar(40, "<= 40 ms")),
            row("the same, processor time", busy[ours], busy[theirs], None),
            each(0, "heavy modules that it brings in", Sample("featuregate", "modules", (float(len(heavy)),))),
        ),
        notes=(f"Heavy are {', '.join(HEAVY)}. Brought in: {', '.join(heavy) or 'none'}.",),
    )


def row(what: str, ours: Sample, theirs: Sample, bar: Bar | None) -> Row:
    more = tuple(mine - other for mine, other in zip(ours.values, theirs.values, strict=True))
    return Row(what=what, ours=ours, peer=theirs, score=Sample("difference", "ms", more), bar=bar)
