"""The real kafka-features for many argument lists: in one JVM where Java can compile, else in a process for each.

Starting a JVM takes a second or two; the code that runs is the released tool's either way.
"""

import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from featuregate.testing.local_kafka.commands import Installation, write_logging

LAUNCHER = Path(__file__).parent / "data" / "java" / "ManyCommands.java"
SECONDS = 600.0


class Printed(NamedTuple):
    code: int
    out: str
    err: str


def run_many(version: str, lists: Sequence[Sequence[str]], folder: Path) -> list[Printed]:
    write_logging(folder, "OFF")
    installation = Installation.of(version, folder)
    file = folder / "lists"
    file.write_text("".join(" ".join(b64encode(word.encode()).decode() for word in words) + "\n" for words in lists))
    done = subprocess.run(
        installation.tool(str(LAUNCHER), [file]), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode == 0:
        return [_printed(line) for line in done.stdout.splitlines()]
    if "compiler" not in done.stderr:
        raise AssertionError(f"{LAUNCHER.name} failed: {done.stderr}")
    return [run_one(installation, words) for words in lists]


def run_one(installation: Installation, words: Sequence[str]) -> Printed:
    command = installation.tool("org.apache.kafka.tools.FeatureCommand", words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    return Printed(done.returncode, done.stdout, done.stderr)


def _printed(line: str) -> Printed:
    code, out, err = line.split(" ")
    return Printed(int(code), _decoded(out), _decoded(err))


def _decoded(text: str) -> str:
    return b64decode(text[1:]).decode()
