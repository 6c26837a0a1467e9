"""The process that takes mutants to one door: python -m fuzzing.child MODULE DOOR SEED FIRST MUTANTS SECONDS FOLDER.

It writes into FOLDER/progress which mutant it is at, and a file for each mutant that fails.
"""

from __future__ import annotations

import importlib
import mmap
import resource
import struct
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from fuzzing.door import Door
from fuzzing.mutants import mutant

MOST_SECONDS = 1.0
"""Seconds of CPU that one mutant may take."""
MOST_BYTES = 256 * 1024 * 1024
"""Memory that one mutant may take, beyond what the process has at the beginning."""
ADDRESS_SPACE = 4 * 1024 * 1024 * 1024
"""Beyond that of the beginning: what bloats in one step gets a MemoryError, and the machine stays usable."""
MOST_FAILURES = 20


@dataclass
class Progress:
    """Where a child is; ``number`` is -1 until its first mutant."""

    number: int = -1
    worst_seconds: float = 0.0
    worst_bytes: int = 0
    ended: int = 0

    FORMAT = "<qdqq"

    def write(self, into: mmap.mmap) -> None:
        struct.pack_into(self.FORMAT, into, 0, self.number, self.worst_seconds, self.worst_bytes, self.ended)

    @classmethod
    def read(cls, data: bytes) -> Progress:
        return cls(*struct.unpack_from(cls.FORMAT, data))


def door_of(module: str, name: str) -> Door:
    doors: tuple[Door, ...] = importlib.import_module(module).DOORS
    return next(door for door in doors if door.name == name)


def problem_of(door: Door, data: bytes) -> str | None:
    """Take bytes to a door; return what is wrong."""
    began = time.process_time()
    try:
        door.enter(data)
    except door.documents:
        pass
    except Exception:  # noqa: BLE001 - whatever it is
        return traceback.format_exc()
    took = time.process_time() - began
    return f"it took {took:.2f} s of CPU" if took > MOST_SECONDS else None


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(door: Door, seed: int, first: int, mutants: int, seconds: float, folder: Path) -> None:
    examples = door.examples()
    for example in examples:  # what is imported and cached at the first use is no mutant's
        if problem := problem_of(door, example):
            keep(folder, -1, f"an example, before any change: {problem}", example)
    before, failures, progress = peak(), 0, Progress()
    limit_memory()
    until = time.monotonic() + seconds
    with (folder / "progress").open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        for number in range(first, first + mutants):
            progress.number = number
            progress.write(shared)
            data = mutant(door.change, examples, seed, number)
            began = time.process_time()
            problem = problem_of(door, data)
            progress.worst_seconds = max(progress.worst_seconds, time.process_time() - began)
            grown, before = peak() - before, max(before, peak())
            progress.worst_bytes = max(progress.worst_bytes, grown)
            if grown > MOST_BYTES:
                problem = f"it took {grown >> 20} MiB; {problem or ''}"
            if problem:
                keep(folder, number, problem, data)
                failures += 1
            if failures >= MOST_FAILURES or time.monotonic() > until:
                break
        progress.ended = 1
        progress.write(shared)


def limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, resource.RLIM_INFINITY))


def keep(folder: Path, number: int, problem: str, data: bytes) -> None:
    (folder / f"{number}.bin").write_bytes(data)
    (folder / f"{number}.txt").write_text(problem, encoding="utf-8", errors="backslashreplace")


if __name__ == "__main__":
    module, name, *numbers, seconds, folder = sys.argv[1:]
    seed, first, mutants = map(int, numbers)
    run(door_of(module, name), seed, first, mutants, float(seconds), Path(folder))
