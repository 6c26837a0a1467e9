"""What the software of a client does beyond the requests that were logged, by the catalog's table of clients. Pure.

A log of an hour has the calls that a client makes all the time. It lacks those of a start without a committed offset,
of a rebalance or of an admin: so a client that ran steadily may stop after the move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.catalog import api_name
from featuregate.catalog.clients import client_of_software
from featuregate.clients.declared import client
from featuregate.clients.fit import Client, Finding, Fit, fit_of, upgrade_for
from featuregate.clients.releases import releases_of
from featuregate_fleet.readiness.checks.api_checks import client_name, grouped, who_and_when
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.readiness.api_ranges import ReleaseApis
    from featuregate_fleet.readiness.evidence import Evidence, Usage

_CONSUMING: Final = frozenset({1, 2, 8, 9, 11, 12, 13, 14})
"""Fetch, ListOffsets, OffsetCommit, OffsetFetch, and the classic protocol of groups."""
_OURS: Final = "featuregate"
"""Its own tests run it on each release."""
_LOOKS_UP: Final = frozenset({2})
"""ListOffsets, which a consumer calls where no offset is committed."""
_STARTS: Final = frozenset({18, 22})
"""ApiVersions and InitProducerId, with which a producer begins."""
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
    depends on a setting: on the SASL mechanism of a client that logs in. Software that was not measured is unknown
    where its requests do not show all that it does: that the table does not have it says nothing. What it cannot do on
    the present brokers either has a row of its own, because the move does not bring that about.
    """
    present = _present_releases(evidence.view)
    completed = [usage for usage in evidence.usage if usage.outcome == "completed" and usage.software_name]
    for _, of_client in grouped(
        completed, lambda usage: (usage.principal or "", usage.client_id or "", usage.software)
    ):
        name, version = of_client[0].software_name or "", of_client[0].software_version or ""
        known = client_of_software(name, version)
        fit = fit_of(client(*known), apis.release.release) if known else None
        if fit is not None and fit.basis:
            yield from _rows(fit, of_client, apis, present)
        elif name != _OURS and set(present) != {apis.release.release}:
            yield from _not_measured(fit, of_client, apis)


def _rows(fit: Fit, of_client: list[Usage], apis: ReleaseApis, present: tuple[str, ...]) -> Iterator[Row]:
    seen = frozenset(usage.api_key for usage in of_client)
    findings = [each for each in fit.findings if _concerns(each, seen, of_client[0].principal)]
    failing_now = _failing_on_all(fit.client, present) if findings else frozenset()
    for verdict, found in (
        (Verdict.BLOCK, [each for each in findings if each.fate == "fails" and not each.optional]),
        (Verdict.UNKNOWN, [each for each in findings if each.fate == "unknown"]),
        (Verdict.WARN, [each for each in findings if each.fate == "fails" and each.optional]),
    ):
        if by_move := [each for each in found if each.step not in failing_now]:
            yield _row(verdict, fit, by_move, of_client, apis)
        if as_before := [each for each in found if each.step in failing_now]:
            yield _of_now(_row(verdict, fit, as_before, of_client, apis), as_before, of_client, present)


def _not_measured(fit: Fit | None, of_client: list[Usage], apis: ReleaseApis) -> Iterator[Row]:
    """Yield a row for software of which no measured release is known, unless its requests show all that it does."""
    seen = frozenset(usage.api_key for usage in of_client)
    hidden = []
    if logs_in(of_client[0].principal):
        hidden.append("the mechanism with which it logs in")
    if not seen & (_LOOKS_UP if seen & _CONSUMING else _STARTS):
        hidden.append("the calls with which it starts")
    if hidden:
        who, measured = client_name(of_client[0]), fit.findings[0].why if fit else "this software was not measured"
        yield Row(
            check="client-software",
            verdict=Verdict.UNKNOWN,
            subject=who,
            why=f"{of_client[0].software}: {measured}. The log does not show {' and '.join(hidden)}.",
            do=f"Try {who} with {apis.brokers}.",
            software=of_client[0].software,
            **who_and_when(of_client),
        )


def _present_releases(view: View | None) -> tuple[str, ...]:
    """Return the releases that the brokers run; none where a broker did not answer: it may run any release."""
    known = view is not None and view.answering and len(view.answering) == len(view.brokers)
    return releases_of(view) if view is not None and known else ()


def _failing_on_all(of: Client, releases: tuple[str, ...]) -> frozenset[str]:
    """Return the steps that a client cannot do on any of the releases; nothing where no release is known."""
    failing = [{each.step for each in fit_of(of, one).findings if each.fate == "fails"} for one in releases]
    return frozenset(set.intersection(*failing)) if failing else frozenset()


def _of_now(row: Row, findings: list[Finding], of_client: list[Usage], present: tuple[str, ...]) -> Row:
    """Return a row that says that the move does not bring about what a client cannot do."""
    brokers = " and ".join(present)
    why = f"{row.why} It does not do this on Kafka {brokers} either, which the brokers run now."
    used = ", if it uses this" if row.verdict is Verdict.WARN else ""
    return replace(row, why=why, do=f"{_upgrade(of_client, findings)}{used}, whether the brokers move or not.")


def _upgrade(of_client: list[Usage], findings: list[Finding]) -> str:
    who, newer = client_name(of_client[0]), upgrade_for(findings)
    return f"Upgrade {who} to {newer} or newer" if newer else f"Upgrade or stop {who}"


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
    upgrade = _upgrade(of_client, findings)
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
