"""From the evidence of metrics to rows of a report, each as strong as its evidence and never stronger. Pure.

An ok says that nothing was seen, so it needs all hours of all brokers, a measured release of each software, and logins
that can be judged. What no metric can show is listed, too.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import API_NAMES, captured
from featuregate.printable import some
from featuregate_fleet.evidence.lines.request import API_VERSIONS
from featuregate_fleet.metrics.evidence import (
    KEYS,
    OF_NODES,
    BrokerCoverage,
    MetricsEvidence,
    RequestCount,
    host_names,
)
from featuregate_fleet.metrics.software_verdicts import software_rows, works
from featuregate_fleet.metrics.spellings import NAMELESS, Connected, Deprecated, Meaning, Requests
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.rows import Row, Verdict, in_order, worst

if TYPE_CHECKING:
    from featuregate_fleet.metrics.listeners import BrokerListener

_FORWARDED: Final = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 74, 80, 81})
"""APIs that a broker forwards to a controller, which counts the request once more (KIP-590)."""
CONFIGURATION: Final = """\
includeObjectNames:
- "kafka.network:type=RequestMetrics,name=RequestsPerSec,*"
- "kafka.network:type=RequestMetrics,name=DeprecatedRequestsPerSec,*"
- "kafka.server:type=socket-server-metrics,clientSoftwareName=*,*"
- "kafka.server:type=app-info,*"
rules: [{pattern: ".*"}]"""
"""A configuration of jmx_exporter with what a verdict needs: 0.07 % of a core at a scrape each 15 s."""
_ADD: Final = f"Let the exporter have these metrics, as by this configuration of jmx_exporter:\n{CONFIGURATION}"
BLIND_SPOTS: Final = (
    "requests that a broker refused or could not read, and all that a client sends before its login, are in no metric",
    "a client that was not connected in this time, such as a yearly job, or that came and went between two samples",
    "what an old client would do that it did not do in this time, where it does not name its software",
    "requests after the last sample before a broker was stopped",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """Whether a move to a release is safe, as far as metrics say."""

    verdict: Verdict
    rows: tuple[Row, ...]
    """The worst first."""
    blind_spots: tuple[str, ...]
    """What an ok does not cover; for each verdict the same."""
    evidence: MetricsEvidence

    @property
    def coverage(self) -> dict[str, Any]:
        """What a command prints of the brokers, with times as they are."""
        evidence = self.evidence
        return {"brokers": [*map(asdict, evidence.brokers)], "since": evidence.since, "until": evidence.until}


def judge(
    evidence: MetricsEvidence,
    apis: ReleaseApis,
    listeners: Mapping[str, BrokerListener],
    brokers: Mapping[str, str] | int | None,
) -> MetricsReport:
    """Run all checks.

    ``listeners``: what is known of them, by name. ``brokers``: the hosts of all brokers of the cluster by their ids, or
    how many there are. None: that is not known, so that nothing is ok.
    """
    found = [
        *_requests(evidence, apis),
        *_newer(evidence, apis),
        *_only_deprecated(evidence, apis),
        *software_rows(evidence, apis, listeners),
        *_coverage(evidence),
        *_all_brokers(evidence, brokers),
    ]
    blind_spots: tuple[str, ...] = BLIND_SPOTS
    if restarts := sum(one.restarts for one in evidence.brokers):
        seconds = max((one.interval or 0) for one in evidence.brokers)
        blind_spots += (f"of these there were {restarts} in this time: up to {seconds:.0f} s before each are lost",)
    verdict = worst(row.verdict for row in found)
    return MetricsReport(verdict=verdict, rows=in_order(found), blind_spots=blind_spots, evidence=evidence)


def _requests(evidence: MetricsEvidence, apis: ReleaseApis) -> Iterator[Row]:
    """Check each API and version that was used. A version below the lowest that is served has no newer one."""
    by_api: defaultdict[int, list[RequestCount]] = defaultdict(list)
    for one in evidence.requests:
        if one.key is not None and not one.of_nodes and one.key != API_VERSIONS:
            by_api[one.key].append(one)
    if others := sorted({one.api for one in evidence.requests if one.key is None and not one.of_nodes}):
        why = "Requests have a name that is not of an API that featuregate knows."
        yield Row("api-versions", Verdict.UNKNOWN, some(others, 5), why, "Upgrade featuregate.")
    found = [
        _low_row(evidence, apis, key, low)
        for key, used in sorted(by_api.items())
        if (low := [one for one in used if one.version < apis.lowest(key)])
    ]
    yield from found
    if not found and by_api:
        total = sum(one.count for of_api in by_api.values() for one in of_api)
        why = f"No request of a version that {apis.brokers} does not serve was counted."
        yield Row("api-versions", Verdict.OK, "requests", why, count=total)


def _only_deprecated(evidence: MetricsEvidence, apis: ReleaseApis) -> Iterator[Row]:
    """Name old versions that the metric of deprecated requests has alone, where rules leave out a part of the other."""
    counted = {(one.key, one.version) for one in evidence.requests if not one.of_nodes}
    for one in evidence.deprecated:
        key = KEYS.get(one.api)
        if key is not None and one.version < apis.lowest(key) and (key, one.version) not in counted:
            why = f"{apis.describe(key, (one.version,))} The metric of all requests does not count them."
            do = "Let the rules of the exporter have all requests by API and version."
            yield Row("api-versions", Verdict.UNKNOWN, one.client, why, do)


def _low_row(evidence: MetricsEvidence, apis: ReleaseApis, key: int, low: Sequence[RequestCount]) -> Row:
    api, versions = API_NAMES[key], tuple(sorted({one.version for one in low}))
    clients = {one.client for one in evidence.deprecated if one.api == api and one.version in versions} or {NAMELESS}
    named = sorted(clients - {NAMELESS})
    count = sum(one.count for one in low)
    count = -(-count // 2) if key in _FORWARDED else count
    last, first = max(one.until for one in low), min((one.after for one in low if one.after), default=None)
    when = f"between {first:%Y-%m-%d %H:%M} and" if all(one.after for one in low) else "since it was started, until"
    doubt = ""
    if not _serve_newer(evidence, apis, key, low):
        doubt = " The brokers may serve nothing newer, so that it may have newer versions, too."
    where = some(sorted({one.broker for one in low}))
    return Row(
        check="api-versions",
        verdict=Verdict.UNKNOWN if doubt else Verdict.BLOCK,
        subject=" and ".join([*named, *(clients & {NAMELESS})]),
        why=f"{apis.describe(key, versions)} At least {count} {'request' if count == 1 else 'requests'} on broker "
        f"{where} {when} {last:%Y-%m-%d %H:%M} UTC.{doubt}",
        do=_find(evidence, api, apis, named),
        software=", ".join(named) or None,
        api=api,
        versions=versions,
        stop_serving_release=apis.dropped_in(key, versions[0]),
        count=count,
        first_seen=first,
        last_seen=last,
    )


def _serve_newer(evidence: MetricsEvidence, apis: ReleaseApis, key: int, low: Iterable[RequestCount]) -> bool:
    """Return whether a broker that answered an old version serves a newer one, so that its client has none."""
    of_brokers, lowest = evidence.releases, apis.lowest(key)
    releases = (captured()[of_brokers[broker]] for broker in {one.broker for one in low})
    return any((release.served(key) or (0, -1))[1] >= lowest for release in releases)


def _find(evidence: MetricsEvidence, api: str, apis: ReleaseApis, named: Sequence[str]) -> str:
    if named:
        return f"Upgrade {' and '.join(named)}, or stop it, before the brokers {apis.step}."
    topics = sorted({topic for one in evidence.brokers for call, topic in one.converted if call == api.lower()})
    hint = f" Messages were converted for an old client of topic {some(topics, 5)}." if topics else ""
    return (
        f"Find who sends {api}: 'featuregate fleet logging on --level info --for 30m' logs deprecated requests alone "
        f"on brokers from 3.9.1 on; before, --level debug logs all.{hint}"
    )


def _newer(evidence: MetricsEvidence, apis: ReleaseApis) -> Iterator[Row]:
    """Say that a move is a downgrade, where brokers answered what the target does not know."""
    for one in evidence.requests:
        has = apis.served(one.key) if one.key is not None else None
        if one.key is None or one.key == API_VERSIONS or (has is None and one.of_nodes):
            continue
        if has is None or one.version > has.highest:
            why = f"Broker {one.broker} answers {one.api} {one.version}, which {apis.brokers} does not: is it newer?"
            do = "For a downgrade, levels and records decide, too: ask 'featuregate readiness --downgrade-to'."
            row = Row("newer-brokers", Verdict.UNKNOWN, "the cluster", why, do)
            yield replace(row, api=one.api, versions=(one.version,), count=one.count)
            return


def _coverage(evidence: MetricsEvidence) -> Iterator[Row]:
    """Check each target: whether its counters are known for all hours, and whether it has all of the metrics."""
    for one in evidence.brokers:
        lacking = functools.partial(Row, "coverage", Verdict.UNKNOWN, f"broker {one.broker}")
        lost = [*(f"the rules of the exporter dropped {each}" for each in one.unusable)]
        lost += [f"{one.unread} lines cannot be read"] if one.unread else []
        if one.problem:
            yield lacking(f"Its metrics cannot be used: {one.problem}.", "Let them be read, or leave them out.")
            continue
        if not one.has_requests:
            why = "It has no metric of requests by API and version, or nobody has asked this broker anything."
            if one.unusable:
                why = f"The rules of its exporter dropped the label {', '.join(one.unusable)}: nothing can be known."
            yield lacking(why, _ADD)
            continue
        if lost:
            yield lacking(f"Some of its metrics say nothing: {', '.join(lost)}.", _ADD)
        first = f", not from {one.holes[0]:%Y-%m-%d %H:%M} UTC on" if one.holes else ""
        by_log = f", {one.by_log} of them by its request log" if one.by_log else ""
        why = f"Its counters are known for {one.hours} of {one.of_hours} hours{by_log}{first}."
        if one.started is None:
            why = "No metric says when it started, so that a restart may hide requests."
            yield lacking(why, "Let the exporter have kafka.server:type=app-info, or run it in the broker.")
        elif one.holes:
            yield lacking(why, "Ask again when there are more, or for a shorter time by --since.")
        else:
            yield Row("coverage", Verdict.OK, f"broker {one.broker}", why)


def _all_brokers(evidence: MetricsEvidence, brokers: Mapping[str, str] | int | None) -> Iterator[Row]:
    """Check that the targets are the brokers of the cluster, all of them and no others."""
    found = [one for one in evidence.brokers if one.is_broker]
    if not found:
        why, do = "No metric of a broker was found.", "Look at what the exporter shows, and what --match chooses."
    elif brokers is None:
        why, do = "Nothing says which brokers the cluster has.", "Give --bootstrap-server, or --brokers NUMBER."
    elif isinstance(brokers, int) and len(found) != brokers:
        why = f"{len(found)} of the targets answered what only brokers do, and the cluster has {brokers} brokers."
        do = "Name the metrics of each broker, and of no other cluster."
    elif not isinstance(brokers, int) and (why := _mismatch([ids_of(one, brokers) for one in found], found, brokers)):
        do = "Name the page of each broker by its id, as in --metrics 1=http://broker-1:9404/metrics, or choose the "
        do += "cluster by --match; or give --brokers."
    else:
        return
    yield Row("coverage", Verdict.UNKNOWN, "the cluster", why, do)


def ids_of(one: BrokerCoverage, brokers: Mapping[str, str]) -> set[str]:
    """Return the ids that a target may have: its own, or those of hosts that one broker alone has."""
    if one.broker in brokers:
        return {one.broker}
    hosts = {node_id: host_names(host) for node_id, host in brokers.items()}
    of_host = ([node_id for node_id, names in hosts.items() if name in names] for name in one.hosts)
    return {ids[0] for ids in of_host if len(ids) == 1}


def _mismatch(ids: Sequence[set[str]], found: Sequence[BrokerCoverage], brokers: Mapping[str, str]) -> str:
    """Return what the ids of targets lack to be those of the cluster, each once; empty where nothing."""
    count = Counter(each for one in ids for each in one)
    if missing := brokers.keys() - count.keys():
        targets = some(one.broker for one in found) or "none"
        return f"No metrics are known to be of broker {some(sorted(missing))}; the targets are {targets}."
    if others := [one.broker for one, known in zip(found, ids, strict=True) if not known]:
        return f"{some(others)} answers what only brokers do, and is not known to be of this cluster."
    twice = sorted(each for each, times in count.items() if times > 1)
    return f"Several targets may be broker {some(twice)}: one of them may be of another cluster." if twice else ""


def decides(meaning: Meaning, apis: ReleaseApis | None = None) -> bool:
    """Return whether a metric may decide: the other ones only show that something was there.

    Without ``apis`` about a move to any release that is known, for which a table keeps all software.
    """
    match meaning:
        case Requests(api, version) | Deprecated(api, version):
            if (key := KEYS.get(api)) is None:
                return api not in OF_NODES
            return version < (apis.lowest(key) if apis else _highest_lowest(key))
        case Connected(software, software_version):
            return apis is None or not works(software, software_version, apis)
        case _:
            return False


@functools.cache
def _highest_lowest(key: int) -> int:
    return max(ReleaseApis(release).lowest(key) for release in captured().values())
