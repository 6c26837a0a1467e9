"""What the software of clients does on another release, by the catalog's table of measured clients. Pure.

A client is judged by what its requests in a log show, or the listener to which it is connected. A log of an hour has
the calls that a client makes all the time. It lacks those of a start without a committed offset, of a rebalance or of
an admin: so a client that ran steadily may stop after the move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import api_name
from featuregate.catalog.clients import client_of_software, rows_without_a_name
from featuregate.clients.declared import client
from featuregate.clients.fit import Client, Finding, Fit, fit_of, upgrade_for
from featuregate.printable import some
from featuregate.view.releases import releases_of
from featuregate_fleet.evidence.lines.request import API_VERSIONS
from featuregate_fleet.readiness.checks.api_checks import client_name, client_row
from featuregate_fleet.readiness.rows import Row, Verdict, grouped

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.readiness.api_ranges import ReleaseApis
    from featuregate_fleet.readiness.evidence import Evidence, Usage

_CONSUMING: Final = frozenset({1, 2, 8, 9, 11, 12, 13, 14})
"""Fetch, ListOffsets, OffsetCommit, OffsetFetch, and the classic protocol of groups."""
OURS: Final = "featuregate"
"""Its own tests run it on each release."""
MOST_SOFTWARES: Final = 1000
"""The softwares that are judged: clients say any name and version, and each takes milliseconds."""
_LOOKS_UP: Final = frozenset({2})
"""ListOffsets, which a consumer calls where no offset is committed."""
_FETCH: Final = 1
_STARTS: Final = frozenset({API_VERSIONS, 22})
"""ApiVersions and InitProducerId, with which a producer begins."""
_METADATA: Final = 3
_OF_IDLE: Final = frozenset({_METADATA, 17, API_VERSIONS, 36})
"""What a producer does that sends nothing for an hour: Metadata, and a login. A consumer fetches all the time."""
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
cached_fit: Final = lru_cache(maxsize=1024)(fit_of)
"""Thousands of clients are of a few releases."""
_RARE: Final = "The log of a client that runs steadily does not show it."


def what_breaks(
    fit: Fit,
    apis: ReleaseApis,
    who: str,
    *,
    does: Callable[[Finding], bool],
    needs: Callable[[Finding], bool],
    otherwise: Verdict,
    present: tuple[str, ...] = (),
    more: Iterable[Finding] = (),
) -> Iterator[tuple[Verdict, list[Finding], str, str]]:
    """Yield what a client cannot do and what was not measured of it, each with why and what to do; a block first.

    ``does``: whether it may do what a finding is about; ``needs``: whether it cannot do without. What fails otherwise
    has another verdict. What it cannot do on the ``present`` releases either is not brought about by the move.
    """
    findings = [each for each in (*fit.findings, *more) if does(each)]
    failing_now = _failing_on_all(fit.client, present) if findings else frozenset()
    fails = [each for each in findings if each.fate == "fails"]
    for verdict, found, said, provided in (
        (Verdict.BLOCK, [each for each in fails if needs(each)], "cannot do this", ""),
        (otherwise, [each for each in fails if not needs(each)], "does not do this", ", if it uses this"),
        (Verdict.UNKNOWN, [each for each in findings if each not in fails], "was not measured", ""),
    ):
        for as_before, on in ((False, ()), (True, present)):
            same = [each for each in found if (each.step in failing_now) is as_before]
            if not same:
                continue
            about = "; ".join(f"{each.title}: {each.why}" for each in same) + fit.by_neighbours
            why = f"{fit.client.name} {fit.client.version} {said} on {apis.brokers}: {about}."
            newer = upgrade_for(same)
            do = f"Upgrade {who} to {newer} or newer" if newer else f"Upgrade or stop {who}"
            do += f"{provided}, {'whether the brokers move or not' if on else f'before the brokers {apis.step}'}."
            if on:
                why += f" It does not do this on Kafka {' and '.join(on)} either, which the brokers run now."
            elif same[0] not in fails:
                do = f"Try {who} with {apis.brokers}."
            yield verdict, same, why, do


def is_login(finding: Finding) -> bool:
    """Return whether a finding is about a SASL mechanism."""
    return finding.step.startswith("sasl-")


# ---------------------------------------------------------------- by the requests of a log


def client_software(evidence: Evidence, apis: ReleaseApis) -> Iterator[Row]:
    """Check the software that clients report (KIP-511) against what was measured of it.

    It blocks where the software cannot do what the client is seen to do, be it with other calls; it warns where it
    depends on a setting: on the SASL mechanism of a client that logs in. Software that was not measured is unknown
    where its requests do not show all that it does: that the table does not have it says nothing. What it cannot do on
    the present brokers either has a row of its own, because the move does not bring that about. A client that reports
    no software is judged by the measured releases that report none and send the same requests. Of the softwares, those
    with the most requests are judged, and the others are unknown.
    """
    present = _present_releases(evidence.view)
    is_move = set(present) != {apis.release.release}
    reporting = {usage.names for usage in evidence.completed if usage.software_name}
    counts = Counter[str]()
    for usage in evidence.completed:
        counts[usage.software] += usage.count if usage.software_name else 0
    judged = {"", *(software for software, _ in counts.most_common(MOST_SOFTWARES))}
    if others := [usage for usage in evidence.completed if usage.software not in judged]:
        why = f"{len(counts.keys() - judged)} more softwares sent requests than the {MOST_SOFTWARES} that are judged."
        about: dict[str, Any] = {"subject": "other software", "client_id": None, "principal": None}
        do = "Look at what its clients report."
        yield client_row("client-software", Verdict.UNKNOWN, others, why, do, **about)
    for _, of_client in grouped(evidence.completed, lambda usage: (*usage.names, usage.software)):
        name, version = of_client[0].software_name or "", of_client[0].software_version or ""
        if not name:
            if is_move:
                yield from _without_a_name(of_client, apis, present, is_alone=of_client[0].names not in reporting)
            continue
        if of_client[0].software not in judged:
            continue
        known = client_of_software(name, version)
        fit = cached_fit(client(*known), apis.release.release) if known else None
        if fit is not None and fit.basis:
            yield from _rows(fit, of_client, apis, present)
        elif name != OURS and is_move:
            yield from _not_measured(fit, of_client, apis)


def _rows(fit: Fit, of_client: list[Usage], apis: ReleaseApis, present: tuple[str, ...]) -> Iterator[Row]:
    called, principal = frozenset(usage.api_key for usage in of_client), of_client[0].principal
    does, needs = (lambda each: _concerns(each, called, principal)), (lambda each: not each.optional)
    told = what_breaks(
        fit, apis, client_name(of_client[0]), does=does, needs=needs, otherwise=Verdict.WARN, present=present
    )
    for verdict, found, why, do in told:
        keyed = next(((api_name(each.api), each.versions) for each in found if each.api is not None), (None, ()))
        said = f"{why} {_RARE}" if verdict is Verdict.BLOCK else why
        yield _row(verdict, of_client, said, do, api=keyed[0], versions=keyed[1])


def _without_a_name(
    of_client: list[Usage], apis: ReleaseApis, present: tuple[str, ...], *, is_alone: bool
) -> Iterator[Row]:
    """Yield what measured clients cannot do then that report no software either, and send the same requests.

    It is unknown which of them the client is, and a warning where it depends on a setting. Where no such client was
    measured on the release, its software was not, unless it is not alone with its names: one that reports its software
    may do so on some of its connections (franz-go issue 1296). Nothing is said of a client that its requests block.
    """
    sent = {(usage.api_key, usage.version) for usage in of_client if usage.api_key != API_VERSIONS}
    if any(apis.lacks(*one) for one in sent):
        return
    similar = (client(row.client, row.version) for row, all_sent in rows_without_a_name() if sent <= all_sent)
    alike = [one for one in similar if cached_fit(one, apis.release.release).basis]
    if not alike and is_alone:
        yield from _not_measured(None, of_client, apis)
    seen = frozenset(usage.api_key for usage in of_client)
    if is_alone and _METADATA in seen and seen <= _OF_IDLE:
        seen |= _SEEN_BY["produce"]
    if _FETCH not in seen:  # many a client commits offsets in the same way
        seen -= _CONSUMING
    failing: dict[Client, list[Finding]] = {}
    for one in alike:
        now = _failing_on_all(one, present)
        failing[one] = [
            each
            for each in cached_fit(one, apis.release.release).findings
            if each.step not in now and _concerns(each, seen, of_client[0].principal)
        ]
    if about := [f"{one}: {', '.join(each.title for each in found)}" for one, found in failing.items() if found]:
        why = "It reports no software. Clients that send these requests, too, cannot do this on"
        why = f"{why} {apis.brokers}, or were not measured:"
        depends = all(each.optional and each.fate == "fails" for found in failing.values() for each in found)
        do = f"Look which software {client_name(of_client[0])} is, and try it with {apis.brokers}."
        verdict = Verdict.WARN if depends else Verdict.UNKNOWN
        yield _row(verdict, of_client, f"{why} {some(about, separator='; ')}. {_RARE}", do)


def _not_measured(fit: Fit | None, of_client: list[Usage], apis: ReleaseApis) -> Iterator[Row]:
    """Yield a row for software of which no measured release is known, unless its requests show all that it does."""
    seen = frozenset(usage.api_key for usage in of_client)
    hidden = []
    if logs_in(of_client[0].principal):
        hidden.append("the mechanism with which it logs in")
    if not seen & (_LOOKS_UP if seen & _CONSUMING else _STARTS):
        hidden.append("the calls with which it starts")
    if hidden:
        measured = fit.findings[0].why if fit else "this software was not measured"
        software = of_client[0].software or "software without a name"
        why = f"{software}: {measured}. The log does not show {' and '.join(hidden)}."
        yield _row(Verdict.UNKNOWN, of_client, why, f"Try {client_name(of_client[0])} with {apis.brokers}.")


def _present_releases(view: View | None) -> tuple[str, ...]:
    """Return the releases that the brokers run; none where a broker did not answer: it may run any release."""
    known = view is not None and view.answering and len(view.answering) == len(view.brokers)
    return releases_of(view) if view is not None and known else ()


def _failing_on_all(of: Client, releases: tuple[str, ...]) -> frozenset[str]:
    """Return the steps that a client cannot do on any of the releases; nothing where no release is known."""
    failing = [{each.step for each in cached_fit(of, one).findings if each.fate == "fails"} for one in releases]
    return frozenset(set.intersection(*failing)) if failing else frozenset()


def _concerns(finding: Finding, seen: frozenset[int], principal: str | None) -> bool:
    """Return whether a client does what a finding is about, as far as its requests show."""
    if is_login(finding):
        return logs_in(principal)
    return bool(_SEEN_BY.get(finding.step, frozenset()) & seen)


def logs_in(principal: str | None) -> bool:
    """Return whether a principal may be from SASL: it is neither anonymous nor the subject of a certificate."""
    name = (principal or "").partition(":")[2]
    return bool(name) and name != "ANONYMOUS" and "CN=" not in name


def _row(verdict: Verdict, of_client: list[Usage], why: str, do: str, **of_api: Any) -> Row:
    return client_row("client-software", verdict, of_client, why, do, software=of_client[0].software, **of_api)
