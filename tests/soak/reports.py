"""What a fault harness reports to a soak while it runs: lines of JSON in the file that ``SOAK_REPORTS`` names."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPORTS = "SOAK_REPORTS"
"""The environment variable with the path of the file; where it is not set, nothing is written."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The counts of a run so far; the last report of a run has its balance too.

    ``lost``, ``duplicated`` and ``changed`` are numbers of inputs, None until inputs and outputs were compared.
    ``faults`` are the faults that the app survived: it went on after each of them.
    """

    inputs: int = 0
    outputs: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    kafka: list[str] = field(default_factory=list)
    lost: int | None = None
    duplicated: int | None = None
    changed: int | None = None


def write(report: Report) -> None:
    if path := os.environ.get(REPORTS):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(report)) + "\n")


def last_report(path: Path) -> Report:
    """Read the last report; a line that is half written is left for later."""
    if not path.exists():
        return Report()
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    return Report(**json.loads(lines[-1])) if lines else Report()
