"""Findings about configs of brokers that switch off what their features and APIs allow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from featuregate.cli.diagnosis.findings import DoctorFinding
from featuregate.gating.decisions import Reason, evaluate
from featuregate.requirements import ConfigHas, conditions_in, configs_in, presets

if TYPE_CHECKING:
    from featuregate.requirements.presets import Preset
    from featuregate.view.cluster_view import View

_SHOWN: Final = 3
_DENIED: Final = "CLUSTER_AUTHORIZATION_FAILED"
CONFIGS: Final = frozenset(name for preset in presets.all() for name in configs_in(preset))
"""The configs on which presets depend."""


def config_findings(view: View) -> Iterator[DoctorFinding]:
    """Yield the presets of which brokers have all features and APIs, and that a config switches off, or may."""
    for preset in presets.all():
        conditions = {str(part): part for part in conditions_in(preset) if isinstance(part, ConfigHas)}
        reasons = [reason for reason in evaluate(view, preset).reasons if reason.verdict != "open"]
        if reasons and all(reason.condition in conditions for reason in reasons):
            worst = min(reasons, key=lambda reason: reason.verdict != "closed")
            yield _finding(
                preset, conditions[worst.condition], [one for one in reasons if one.verdict == worst.verdict]
            )


def _finding(preset: Preset, condition: ConfigHas, reasons: Sequence[Reason]) -> DoctorFinding:
    where = ", ".join(sorted({reason.address or "cluster" for reason in reasons}))
    evidence = "; ".join(reason.text for reason in reasons[:_SHOWN])
    denied = any(_DENIED in reason.text for reason in reasons)
    if reasons[0].verdict == "closed":
        return DoctorFinding(
            severity="warning",
            code="config-closes",
            where=where,
            problem=f"A config of brokers switches {preset.name} off, though they have its features and APIs.",
            evidence=evidence,
            advice=f"add {condition.value} to {condition.name} on each broker and restart it, or keep clients from it",
        )
    return DoctorFinding(
        severity="note",
        code="config-unknown",
        where=where,
        problem=f"It is not known whether a config of brokers switches {preset.name} off.",
        evidence=evidence,
        advice=(
            "grant this client DESCRIBE_CONFIGS on the cluster" if denied else "check why the broker does not tell it"
        )
        + f"; gates over {preset.name} are unknown until then",
    )
