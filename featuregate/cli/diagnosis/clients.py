"""Findings about the clients that are installed here: what they cannot do with this cluster, as measured. Pure.

Beside it: which setting of theirs would break them, and for which preset, which the cluster has, they are too old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from featuregate.catalog.clients import version_numbers
from featuregate.cli.diagnosis.findings import DoctorFinding
from featuregate.clients.fit import SASL, Client, Fit, fit_of, newer_for, upgrade_for
from featuregate.clients.releases import releases_of
from featuregate.gating.decisions import evaluate
from featuregate.requirements import presets

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View


def client_findings(view: View, clients: Iterable[Client], mechanism: str | None) -> Iterator[DoctorFinding]:
    """Yield what each client cannot do on a release that a broker runs, and which were not measured."""
    if view.role != "broker" or not view.answering:
        return
    sasl = mechanism if f"sasl-{mechanism}" in SASL else None
    for client in clients:
        fits = [fit_of(client, release, sasl=sasl) for release in releases_of(view)]
        yield from (_finding(fit, mechanism) for fit in fits if _matters(fit, mechanism))
        yield from (_unmeasured(fit) for fit in fits[-1:] if not fit.basis)
        yield from (_pin_finding(fit) for fit in fits[-1:] if fit.pin is not None)
        yield from _preset_findings(view, client)


def _unmeasured(fit: Fit) -> DoctorFinding:
    return DoctorFinding(
        severity="note",
        code="client-not-measured",
        where=str(fit.client),
        problem=f"Whether it works on Kafka {fit.release} is not known.",
        evidence="; ".join(each.why for each in fit.findings),
        advice="try it with a broker of this release: a lookup of offsets, a rebalance, a login",
    )


def _pin_finding(fit: Fit) -> DoctorFinding:
    return DoctorFinding(
        severity="note",
        code="client-setting",
        where=str(fit.client),
        problem=f"With {f'an api_version below {fit.pin}' if fit.pin else 'any api_version'} it does not work on Kafka "
        f"{fit.release}.",
        evidence=f"measured of {' and '.join(fit.basis)}",
        advice="leave api_version out of its settings: it asks the broker then",
    )


def _preset_findings(view: View, client: Client) -> Iterator[DoctorFinding]:
    """Yield the presets that the cluster has, and for which a newer release of the client is needed, or better."""
    for preset in presets.all():
        newer, needed = newer_for(preset, client), preset.clients.get(client.name)
        if newer is None or needed is None or not evaluate(view, preset).open:
            continue
        if version_numbers(client.version) < version_numbers(needed):
            yield _too_old(client, preset, newer, "does not do all of it", f"seen with {needed} or newer")
        else:
            yield _too_old(client, preset, newer, "has a preview of it", f"ready, say its makers, in {newer} or newer")


def _too_old(client: Client, preset: presets.Preset, newer: str, problem: str, evidence: str) -> DoctorFinding:
    return DoctorFinding(
        severity="note",
        code="client-too-old",
        where=str(client),
        problem=f"The cluster has {preset.name}, and this release of the client {problem}.",
        evidence=f"{preset.title}: {evidence}",
        advice=f"install {client.name} {newer} or newer before an app uses it",
    )


def _matters(fit: Fit, mechanism: str | None) -> bool:
    """Return whether a client breaks, or what it lacks may concern this app: not a login where it does not log in."""
    optional = [each for each in fit.findings if mechanism or not each.step.startswith("sasl-")]
    return fit.verdict == "breaks" or (fit.verdict == "depends" and bool(optional))


def _finding(fit: Fit, mechanism: str | None) -> DoctorFinding:
    findings = [each for each in fit.findings if each.fate == "fails"]
    if fit.verdict == "breaks":
        findings = [each for each in findings if not each.optional or each.step == f"sasl-{mechanism}"]
    newer = upgrade_for(findings)
    return DoctorFinding(
        severity="warning" if fit.verdict == "breaks" else "note",
        code="client-breaks" if fit.verdict == "breaks" else "client-lacks",
        where=str(fit.client),
        problem=f"It cannot do this on Kafka {fit.release}: {', '.join(each.title for each in findings)}.",
        evidence="; ".join(f"{each.title}: {each.why}" for each in findings) + fit.by_neighbours,
        advice=f"install {newer} or newer" if newer else "use another client for it",
    )
