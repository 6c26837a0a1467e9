"""What the software of a client does beyond the requests that were logged, by the catalog's table of clients. Pure.

A log of an hour has the calls that a client makes all the time. It lacks those of a start without a committed offset,
of a rebalance or of an admin: so a client that ran steadily may stop after the move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.catalog import api_name
from featuregate.catalog.clients import client_of_software
from featuregate.clients.declared import client
from featuregate.clients.fit import Finding, Fit, fit_of, upgrade_for
from featuregate_fleet.readiness.checks.api_checks import client_name, grouped, who_and_when
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate_fleet.readiness.api_ranges import ReleaseApis
    from featuregate_fleet.readiness.evidence import Evidence, Usage

_CONSUMING: Final = frozenset({1, 2, 8, 9, 11, 12, 13, 14})
"""Fetch, ListOffsets, OffsetCommit, OffsetFetch, and the classic protocol of groups."""
_SEEN_BY: Final = {
    "produce": frozenset({0}),
    **dict.fromkeys(("consume", "commit", "offsets", "rebalance"), _CONSUMING),
    "zstd": frozenset({0}),
    "admin": frozenset({19, 20, 32, 37}),
    "transactions": frozenset({22, 24, 25, 26, 28}),
    "kip848": frozenset({68}),
    "share": frozenset({76, 78, 79}),
}
"""The APIs of which one shows that a client does what a step is about, or something like it."""
_RARE: Final = "The log of a client that runs steadily does not show it."


def client_software(evidence: Evidence, apis: ReleaseApis) -> Iterator[Row]:
    """Check the software that clients report (KIP-511) against what was measured of it.

    It blocks where the software cannot do what the client is seen to do, be it with other calls; it warns where it
    depends on a setting: on the SASL mechanism of a client that logs in. Software that was not measured has no row.
    """
    completed = [usage for usage in evidence.usage if usage.outcome == "completed" and usage.software_name]
    for _, of_client in grouped(
        completed, lambda usage: (usage.principal or "", usage.client_id or "", usage.software)
    ):
        name, version = of_client[0].software_name or "", of_client[0].software_version or ""
        if known := client_of_software(name, version):
            fit = fit_of(client(*known), apis.release.release)
            yield from _rows(fit, of_client, apis)


def _rows(fit: Fit, of_client: list[Usage], apis: ReleaseApis) -> Iterator[Row]:
    seen = frozenset(usage.api_key for usage in of_client)
    findings = [each for each in fit.findings if _concerns(each, seen, of_client[0].principal)]
    for verdict, found in (
        (Verdict.BLOCK, [each for each in findings if each.fate == "fails" and not each.optional]),
        (Verdict.UNKNOWN, [each for each in findings if each.fate == "unknown"]),
        (Verdict.WARN, [each for each in findings if each.fate == "fails" and each.optional]),
    ):
        if found:
            yield _row(verdict, fit, found, of_client, apis)


def _concerns(finding: Finding, seen: frozenset[int], principal: str | None) -> bool:
    """Return whether a client does what a finding is about, as far as its requests show."""
    if finding.step.startswith("sasl-"):
        return logs_in(principal)
    shown_by = _SEEN_BY.get(finding.step, frozenset())
    return bool(shown_by & seen)


def logs_in(principal: str | None) -> bool:
    """Return whether a principal may be from SASL: it is neither anonymous nor the subject of a certificate."""
    name = (principal or "").partition(":")[2]
    return bool(name) and name != "ANONYMOUS" and "CN=" not in name


def _row(verdict: Verdict, fit: Fit, findings: list[Finding], of_client: list[Usage], apis: ReleaseApis) -> Row:
    who, software = client_name(of_client[0]), f"{fit.client.name} {fit.client.version}"
    about = "; ".join(f"{each.title}: {each.why}" for each in findings) + fit.by_neighbours
    newer = upgrade_for(findings)
    upgrade = f"Upgrade {who} to {newer} or newer" if newer else f"Upgrade or stop {who}"
    said = {
        Verdict.BLOCK: f"{software} cannot do this on {apis.brokers}: {about}. {_RARE}",
        Verdict.UNKNOWN: f"{software} was not measured on {apis.brokers}: {about}.",
        Verdict.WARN: f"{software} does not do this on {apis.brokers}: {about}.",
    }
    do = {
        Verdict.BLOCK: f"{upgrade}, before the brokers {apis.step}.",
        Verdict.UNKNOWN: f"Try {who} with {apis.brokers}.",
        Verdict.WARN: f"{upgrade}, if it uses this, before the brokers {apis.step}.",
    }
    keyed = next((each for each in findings if each.api is not None), None)
    return Row(
        check="client-software",
        verdict=verdict,
        subject=who,
        why=said[verdict],
        do=do[verdict],
        software=of_client[0].software,
        api=api_name(keyed.api) if keyed and keyed.api is not None else None,
        versions=keyed.versions if keyed else (),
        **who_and_when(of_client),
    )
