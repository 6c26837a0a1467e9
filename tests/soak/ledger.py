"""The ledger of all runs: a file with one line of JSON for each run, oldest first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soak.reports import Report


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a harness: what it counted, with which seed, on what, and why it failed.

    ``inputs`` and ``outputs`` are messages, ``seconds`` the duration. ``lost``, ``duplicated`` and ``changed`` are
    numbers of inputs, None where the run ended before inputs and outputs were compared. ``failure`` is None for a run
    that passed. ``note`` is written by hand, where the cause of a failure is known.
    """

    time: str
    commit: str
    harness: str
    seed: int
    inputs: int
    outputs: int
    faults: dict[str, int]
    lost: int | None
    duplicated: int | None
    changed: int | None
    seconds: int
    versions: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    note: str = ""

    @classmethod
    def of(cls, report: Report, **more: Any) -> Run:
        """Return the run with the counts of its last report, and what ``more`` says."""
        return cls(**{name: count for name, count in asdict(report).items() if name != "kafka"}, **more)

    @property
    def has_balance(self) -> bool:
        """Whether inputs and outputs were compared."""
        return self.lost is not None


def append(ledger: Path, run: Run) -> None:
    """Add a run."""
    with ledger.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def read(ledger: Path) -> list[Run]:
    """Read all runs; none where there is no ledger yet."""
    if not ledger.exists():
        return []
    return [Run(**json.loads(line)) for line in ledger.read_text(encoding="utf-8").splitlines()]
