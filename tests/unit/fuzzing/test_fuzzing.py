"""The harness that takes mutants to doors: what it makes, and what it catches."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("uvicorn")

from fuzzing.__main__ import main
from fuzzing.child import problem_of
from fuzzing.doors import DOORS
from fuzzing.mutants import LONGEST, mutant, of_words
from fuzzing.watching import watch

if TYPE_CHECKING:
    from fuzzing.door import Door

each_door = pytest.mark.parametrize("door", DOORS, ids=[door.name for door in DOORS])


@each_door
def test_no_mutant_gets_an_undocumented_error(door: Door) -> None:
    """A few mutants at each door; `make fuzz` takes many."""
    examples = door.examples()
    for example in examples:
        assert problem_of(door, example) is None
    for number in range(200 if door.documents else 60):
        assert problem_of(door, mutant(door.change, examples, 20261126, number)) is None, f"mutant {number}"


@each_door
def test_the_same_seed_makes_the_same_mutants(door: Door) -> None:
    """Mutants do not depend on those before them, and another seed makes others."""
    examples = door.examples()
    made = [mutant(door.change, examples, 7, number) for number in range(20)]
    assert [mutant(door.change, examples, 7, number) for number in reversed(range(20))] == made[::-1]
    assert [mutant(door.change, examples, 8, number) for number in range(20)] != made


def test_a_mutant_takes_little_memory_to_make():
    """Else its memory would count as that of the door."""
    tracemalloc.start()
    try:
        for number in range(100):
            mutant(of_words(b"a"), (b"a" * LONGEST,), 7, number)
        assert tracemalloc.get_traced_memory()[1] < 16 * LONGEST
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "problem", "patience"),
    [
        ("raises", "TypeError: a mutant", 20),
        ("endless", "no end within 0.", 0.3),
        ("waits", "no end within 0.0 s of the processor", 0.02),
        ("bloats", " MiB", 20),
    ],
)
def test_a_door_that_misbehaves_is_caught(tmp_path: Path, name: str, problem: str, patience: float) -> None:
    """An error that is not documented, no end, or too much memory: the mutant is kept with what it did."""
    row = watch("misbehaving_doors", name, 3, tmp_path, seconds=60, mutants=1, patience=patience)
    assert row.mutants == 1
    assert row.failures == [0]
    assert problem in (row.folder / "0.txt").read_text()
    assert (row.folder / "0.bin").read_bytes() != b"aaaaaaaa"


def test_a_run_is_in_the_ledger_and_on_its_page(tmp_path: Path) -> None:
    """A line for each door and seed, and the sums of each door."""
    ledger = tmp_path / "fuzz.jsonl"
    for seed in (3, 4):
        assert (
            main(
                [
                    "--only",
                    "requirement",
                    "--mutants",
                    "5",
                    f"--seed={seed}",
                    f"--ledger={ledger}",
                    f"--outputs={tmp_path}",
                ]
            )
            == 0
        )
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [(line["door"], line["seed"], line["mutants"], line["failures"]) for line in lines] == [
        ("requirement", 3, 5, []),
        ("requirement", 4, 5, []),
    ]
    page = (tmp_path / "fuzz.md").read_text()
    assert "| requirement | 2 | 10 |" in page
    assert "| **all** | 2 | 10 |" in page
