"""The findings of ``doctor``: about the configuration, the connection to each bootstrap address, and the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

Severity = Literal["error", "warning", "note"]
_ORDER: Final[Mapping[Severity, int]] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One problem, or one fact that is good to know."""

    severity: Severity
    code: str
    """For programs: ``broker-silent``. docs/reference/command-line.md lists all codes."""
    where: str = "cluster"
    """Or a broker, an address, or ``configuration``."""
    problem: str
    """A sentence."""
    evidence: str
    """What was observed."""
    advice: str
    """What to do."""


error_finding: Final = partial(DoctorFinding, severity="error")
warning_finding: Final = partial(DoctorFinding, severity="warning")
note_finding: Final = partial(DoctorFinding, severity="note")


def worst_first(findings: Iterable[DoctorFinding]) -> list[DoctorFinding]:
    """Sort by severity, and keep the order within a severity."""
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])
