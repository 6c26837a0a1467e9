"""A door under watch: its child is killed where one mutant takes too long or too much, and another one goes on."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from fuzzing.child import MOST_BYTES, Progress, door_of, keep
from fuzzing.mutants import mutant

TESTS = Path(__file__).parents[1]
POLL = 0.02
PATIENCE = 20.0
"""Seconds of processor time for one mutant; for the imports of a child three times as many."""
STANDSTILL = 30
"""How many times as many of the clock: a busy machine may give a child little time, and one that waits takes none."""


@dataclass(kw_only=True)
class Row:
    """What a door has gone through. ``failures`` are numbers of mutants; -1 stands for an example."""

    door: str
    seed: int
    mutants: int
    seconds: float
    worst_seconds: float
    worst_bytes: int
    failures: list[int]
    folder: Path


def watch(
    module: str, name: str, seed: int, outputs: Path, *, seconds: float, mutants: int, patience: float = PATIENCE
) -> Row:
    folder = outputs / f"{name.replace(' ', '-')}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    began, first = time.monotonic(), 0
    worst = Progress()
    while first < mutants and (left := seconds - (time.monotonic() - began)) > 0:
        ended, why = _child(module, name, seed, first, mutants - first, left, folder, patience)
        worst.worst_seconds = max(worst.worst_seconds, ended.worst_seconds)
        worst.worst_bytes = max(worst.worst_bytes, ended.worst_bytes)
        first = max(first, ended.number + 1)
        if why is None:
            break
        door = door_of(module, name)
        data = mutant(door.change, door.examples(), seed, ended.number) if ended.number >= 0 else b""
        keep(folder, ended.number, why, data)
        if ended.number < 0 or len(list(folder.glob("*.bin"))) > 20:
            break
    return Row(
        door=name,
        seed=seed,
        mutants=first,
        seconds=time.monotonic() - began,
        worst_seconds=worst.worst_seconds,
        worst_bytes=worst.worst_bytes,
        failures=sorted(int(path.stem) for path in folder.glob("*.bin")),
        folder=folder,
    )


def _child(
    module: str, name: str, seed: int, first: int, mutants: int, seconds: float, folder: Path, patience: float
) -> tuple[Progress, str | None]:
    """Run a child to its end; return where it was, and why it ended before its time."""
    shared = folder / "progress"
    shared.write_bytes(b"\xff" * 8 + bytes(24))
    words = [sys.executable, "-m", "fuzzing.child", module, name, *map(str, (seed, first, mutants, seconds, folder))]
    places = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    with (
        (folder / "output").open("wb") as output,
        subprocess.Popen(
            words, env={**os.environ, "PYTHONPATH": os.pathsep.join(places)}, stdout=output, stderr=output
        ) as child,
    ):
        try:
            why = _watched(child, shared, patience)
        finally:
            child.kill()
    ended = Progress.read(shared.read_bytes())
    if why is None and not ended.ended:
        said = (folder / "output").read_text(encoding="utf-8", errors="replace")
        why = f"the process ended with {child.returncode}: {said[-2000:]}"
    return ended, why


def _watched(child: subprocess.Popen[bytes], shared: Path, patience: float) -> str | None:
    """Wait for a child to end; say why it must not go on."""
    process, base = psutil.Process(child.pid), 0
    at, since, used = -1, time.monotonic(), 0.0
    while True:
        try:
            child.wait(POLL)
        except subprocess.TimeoutExpired:
            pass
        else:
            return None
        now = Progress.read(shared.read_bytes()).number
        try:
            memory, took = process.memory_info().rss, sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
        if now != at:
            at, since, used, base = now, time.monotonic(), took, max(base, memory)
        if at >= 0 and memory - base > MOST_BYTES:
            return f"it took {(memory - base) >> 20} MiB"
        bound = patience if at >= 0 else 3 * PATIENCE
        if took - used > bound or time.monotonic() - since > STANDSTILL * bound:
            return (
                f"no end within {took - used:.1f} s of the processor, and {time.monotonic() - since:.0f} s of the clock"
            )
