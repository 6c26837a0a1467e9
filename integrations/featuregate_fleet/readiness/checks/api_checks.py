"""The checks of requests: each takes evidence and returns rows. Pure.

A block stands on requests that were seen, and an ok on the absence of others: so each ok needs coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import METADATA_VERSION, CapturedRelease, api_name, captured
from featuregate_fleet.evidence.lines.request import API_VERSIONS
from featuregate_fleet.readiness.api_ranges import OLDER_API, DropApi, ServedApis
from featuregate_fleet.readiness.checks.coverage_checks import UNREADABLE
from featuregate_fleet.readiness.evidence import Evidence, RefusedVersion, Usage
from featuregate_fleet.readiness.rows import MOST_HOSTS, Row, Verdict, grouped

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

_END_TXN: Final = 26
_WRITE_TXN_MARKERS: Final = 27
_ANY: Final = 2**15
"""Above the highest version."""
_UNASKED: Final = 2
"""The version of WriteTxnMarkers that coordinators of 4.2.0 send to brokers of each release (KAFKA-20322)."""
_SENDS_UNASKED: Final = "4.2"
_WHOLE_LINES: Final = (
    "Collect whole lines: container runtimes split them at 16 kB, and 'featuregate fleet run' joins the parts if "
    "it has all of them."
)


def api_versions(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check what each client uses against what the brokers serve then.

    A version below the lowest blocks: a client uses the newest version that it shares with the broker, so it has no
    newer one. Where brokers serve no newer one themselves, that is unknown. A version above the highest is no more than
    a warning for a client that negotiates, because that client may have an older one, too. The same is true of an API
    that replaced an older one.

    Nodes use what the other node has, which is never below the lowest. A request that is may be of a client that is
    called like a node, and blocks as well.
    """
    of_nodes = (one for one in evidence.completed_by_nodes if apis.among_nodes or _is_too_old(one, apis))
    completed = [*evidence.completed, *of_nodes]
    judge = _judge(evidence, completed, apis, _negotiating(completed))
    # Where names were removed by a command, the software tells clients apart.
    for _, of_client in grouped(completed, lambda one: (*one.names, "" if any(one.names) else one.software)):
        used = [usage for usage in of_client if apis.concerns(usage.api_key)]
        findings = list(_lost(apis, judge, used))
        why = f"The client uses only versions that {apis.brokers} serves."
        ok = [client_row("api-versions", Verdict.OK, used, why, software=softwares(used))] if used else []
        yield from findings or ok


def _is_too_old(usage: Usage, apis: ServedApis) -> bool:
    served = apis.served(usage.api_key)
    return served is not None and usage.version < served.lowest


def cut_requests(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check each client of which lines were cut: their heads are evidence that can block, and never ok.

    A client whose lines are all long has no other ones. The line has no principal, so that a client id is one client
    here. Nodes have client ids of their own, and send nothing that is too old.
    """
    since, nodes = evidence.since, {usage.client_id for usage in evidence.node_usage}
    completed = evidence.completed
    cut = [usage for usage in evidence.cut if since is None or usage.last_seen >= since]
    of_clients = [one for one in cut if apis.among_nodes or one.client_id not in nodes or _is_too_old(one, apis)]
    asking = {one.client_id for one in (*completed, *of_clients) if one.software_name or one.api_key == API_VERSIONS}
    judge = _judge(evidence, completed, apis, lambda one: bool(one.client_id) and one.client_id in asking)
    whole_lines = dict(grouped(completed, _client_id))
    for client_id, lines in grouped(of_clients, _client_id):
        whole = whole_lines.get(client_id, [])
        if concerned := [usage for usage in lines if apis.concerns(usage.api_key)]:
            yield from _lost(apis, judge, concerned, whole)
            lost, read = (sum(usage.count for usage in each) for each in (lines, whole))
            verdict = Verdict.UNKNOWN if lost > UNREADABLE * (lost + read) else Verdict.WARN
            why = f"{lost} of {lost + read} lines of this client id were cut: only their heads are known."
            yield client_row("cut-requests", verdict, lines, why, _WHOLE_LINES)


def _client_id(usage: Usage) -> str:
    return usage.client_id or ""


def _lost(
    apis: ServedApis, judge: Callable[[Usage], Verdict], used: list[Usage], others: Sequence[Usage] = ()
) -> Iterator[Row]:
    """Yield a row for each API of which a client uses versions that may not be served; ``others`` name its software."""
    for key, of_api in grouped(used, attrgetter("api_key")):
        for verdict, same in grouped(of_api, judge):
            if verdict is not Verdict.OK:
                yield _lost_row(apis, key, same, verdict, softwares([*others, *same]))


def _lost_row(apis: ServedApis, key: int, used: list[Usage], verdict: Verdict, software: str | None) -> Row:
    versions = tuple(sorted({usage.version for usage in used}))
    client, unknown = client_name(used[0]), ""
    if verdict is Verdict.WARN:
        older = f"use {OLDER_API[key]} instead" if apis.served(key) is None else "have older versions, too"
        do = f"Try {client} with {apis.brokers}: it negotiates, and may {older}."
    elif verdict is Verdict.UNKNOWN:
        unknown = " Brokers may serve nothing newer, so that it may have newer versions, too."
        do = f"Let brokers serve newer versions of {api_name(key)}, and log requests again, with --bootstrap-server."
    else:
        do = f"Upgrade {client}, or stop it, before the brokers {apis.step}."
    why = apis.describe(key, versions) + unknown
    fields = {"api": api_name(key), "versions": versions, "software": software}
    dropped_in = apis.dropped_in(key, versions[0])
    return client_row("api-versions", verdict, used, why, do, stop_serving_release=dropped_in, **fields)


def _negotiating(completed: Iterable[Usage]) -> Callable[[Usage], bool]:
    """Return what says of a request whether its client asks for API versions before it chooses one.

    Principal, client id, software and host tell apps apart that share a client id. Clients without any name may be
    several: that one of them asks says nothing of the others.
    """
    seen = set[tuple[str | None, ...]]()
    for usage in completed:
        named = any(usage.names)
        if usage.software_name or (named and usage.api_key == API_VERSIONS):
            app = (*usage.names, usage.software)
            seen |= {app, (*app, usage.client_host), *([usage.names] if named else [])}

    def negotiates(usage: Usage) -> bool:
        app = (*usage.names, usage.software)
        if usage.forwarded:  # it has the connection of a broker
            return usage.names in seen
        if usage.client_host is None:
            return app in seen
        return not seen.isdisjoint({(*app, usage.client_host), (*app, None)})

    return negotiates


def _judge(
    evidence: Evidence, completed: Iterable[Usage], apis: ServedApis, negotiates: Callable[[Usage], bool]
) -> Callable[[Usage], Verdict]:
    """Return what judges one version of an API that a client uses, which may negotiate.

    A version that may be the newest one that brokers serve says nothing of newer ones that the client may have. Brokers
    answered which that is. Otherwise it may be the newest one that is used of an API that is to be dropped, if a
    release serves no newer one. A broker sends no newer version than it serves.
    """
    newest: dict[int, range] = {}
    for broker in evidence.view.answering if evidence.view else ():
        for key, versions in broker.api_ranges.items():
            known = newest.get(key, range(versions.max, _ANY))
            newest[key] = range(min(versions.max, known.start), _ANY)
    if isinstance(apis, DropApi) and evidence.view is None:
        used = max((usage.version for usage in completed if usage.api_key == apis.api_key), default=0)
        if used in {release.apis.get(apis.api_key, (0, -1))[1] for release in captured().values()}:
            newest[apis.api_key] = range(used, used + 1)
    of_nodes = frozenset(evidence.node_usage)

    def judge(usage: Usage) -> Verdict:
        has = apis.served(usage.api_key)
        if has is None:
            return Verdict.WARN if usage.api_key in OLDER_API and negotiates(usage) else Verdict.BLOCK
        if usage.version < has.lowest:
            may_be_newest = usage.version in newest.get(usage.api_key, ())
            return Verdict.UNKNOWN if may_be_newest and usage not in of_nodes else Verdict.BLOCK
        if usage.version > has.highest:
            return Verdict.WARN if negotiates(usage) else Verdict.BLOCK
        return Verdict.OK

    return judge


def inter_broker(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Say which requests are not held against a client, because brokers and controllers sent them to one another."""
    if apis.among_nodes:
        return
    for listener, used in grouped(evidence.node_usage, lambda usage: usage.listener or ""):
        names = sorted({usage.client_id or "" for usage in used})
        known = f"{len(names)} client ids, such as {names[0]!r}" if len(names) > 1 else f"the client id {names[0]!r}"
        why = f"Brokers and controllers sent requests with {known}: they use what the other node has."
        subject = f"nodes on listener {listener!r}" if listener else "nodes"
        who: dict[str, Any] = {"client_id": ", ".join(names), "principal": _either(usage.principal for usage in used)}
        yield client_row("inter-broker", Verdict.OK, used, why, subject=subject, **who)


def refused_requests(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check what brokers refuse already.

    The log of refused requests has no client id: other requests on the same connection may say who it is.
    """
    refused = [usage for usage in evidence.usage if usage.outcome == "refused" and apis.concerns(usage.api_key)]
    for (host, key, version), used in grouped(refused, lambda u: (u.client_host or "", u.api_key, u.version)):
        has = apis.served(key)
        here = f"a client at {host}" if host else "a client"
        known = sorted(evidence.refused_clients.get(RefusedVersion(host or None, key, version), ()), key=str)
        do = f"Find the client at {host or 'the address in the log'}: the log of refused requests has no client id."
        if known:
            here = f"{_either(_named(each.client_id, each.principal) for each in known)} at {host}"
            do = f"Upgrade {here}: it sent other requests on the connection that the broker closed."
        after = "refuses the version, too" if apis.lacks(key, version) else "serves it"
        yield client_row(
            "refused-requests",
            Verdict.BLOCK if has is not None and version < has.lowest else Verdict.WARN,
            used,
            f"A broker refused {api_name(key)} {version}, and {apis.brokers} {after}.",
            do,
            subject=here,
            api=api_name(key),
            versions=(version,),
            stop_serving_release=apis.dropped_in(key, version),
            software=_either(each.software for each in known),
            client_id=_either(each.client_id for each in known),
            principal=_either(each.principal for each in known) or used[0].principal,
        )


def newer_brokers(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Say that a move is a downgrade, where brokers serve a version that the target does not know yet.

    A broker of the target may not start with the finalized levels (KIP-778), and its coordinators may not read the
    records of newer ones (KIP-915).
    """

    def is_newer(api_key: int, version: int) -> bool:
        has = apis.served(api_key)
        return has is not None and version > has.highest and api_key != API_VERSIONS

    completed = [*evidence.completed, *evidence.completed_by_nodes]
    newer = [usage for usage in completed if is_newer(usage.api_key, usage.version)]
    answering = evidence.view.answering if evidence.view else ()
    told = sorted({(key, found.max) for broker in answering for key, found in broker.api_ranges.items()})
    versions = [(usage.api_key, usage.version) for usage in newer] or [one for one in told if is_newer(*one)]
    if versions:
        key, version = versions[0]
        yield Row(
            "newer-brokers",
            Verdict.UNKNOWN,
            "the cluster",
            f"The brokers serve {api_name(key)} {version}, and are newer than {apis.brokers}.",
            "Ask --downgrade-to, which looks at finalized levels and at the records of coordinators, too.",
            api=api_name(key),
            versions=(version,),
            count=sum(usage.count for usage in newer),
            first_seen=min((usage.first_seen for usage in newer), default=None),
            last_seen=max((usage.last_seen for usage in newer), default=None),
        )


def transactions(evidence: Evidence, view: View, target: CapturedRelease) -> Iterator[Row]:
    """Check whether transactions go on while the brokers are rolled.

    A coordinator of 4.2.0 does not ask which versions of WriteTxnMarkers the other brokers serve, as releases from
    4.2.1 on do (KAFKA-20322). Brokers before 4.2 refuse its markers, and the transaction is open until they are rolled.
    """
    serve = [target.apis.get(_WRITE_TXN_MARKERS), *(each.api_ranges.get(_WRITE_TXN_MARKERS) for each in view.answering)]
    run = [target.features.get(METADATA_VERSION), *(each.supported.get(METADATA_VERSION) for each in view.answering)]
    newest = captured()[_SENDS_UNASKED].features[METADATA_VERSION][1]
    sends = any(levels and levels[1] == newest for levels in run)
    refuses = any(versions is None or versions[1] < _UNASKED for versions in serve)
    if not (sends and refuses):
        return
    why = (
        "Its transactions may stay open while brokers of 4.2.0 and older ones run together, because the older ones "
        f"refuse {api_name(_WRITE_TXN_MARKERS)} {_UNASKED} (KAFKA-20322)."
    )
    do = "Use 4.2.1 in place of 4.2.0, or roll the brokers without a pause, at a time of low load."
    used = [usage for usage in evidence.completed if usage.api_key == _END_TXN]
    for _, same in grouped(used, attrgetter("names")):
        versions = tuple(sorted({usage.version for usage in same}))
        yield client_row("transactions", Verdict.WARN, same, why, do, api=api_name(_END_TXN), versions=versions)


# ---------------------------------------------------------------- shared by checks of requests


def client_row(check: str, verdict: Verdict, used: list[Usage], why: str, do: str = "", **fields: Any) -> Row:
    """Return a finding about requests: whose they are, how many, and when they were sent, unless ``fields`` say it."""
    # A broker forwards some requests to a controller, which logs them once more.
    counted = [usage for usage in used if not usage.forwarded] or used
    hosts = sorted({usage.client_host for usage in counted if usage.client_host})
    of_usage = {
        "subject": client_name(used[0]),
        "client_id": used[0].client_id,
        "principal": used[0].principal,
        "count": sum(usage.count for usage in counted),
        "first_seen": min(usage.first_seen for usage in used),
        "last_seen": max(usage.last_seen for usage in used),
        "hosts": tuple(hosts[:MOST_HOSTS]),
        "host_count": len(hosts),
    }
    return Row(check, verdict, why=why, do=do, **of_usage | fields)


def softwares(used: Iterable[Usage]) -> str | None:
    """Return the software of requests; None where none of them names it."""
    return ", ".join(sorted({usage.software for usage in used} - {""})) or None


def client_name(usage: Usage) -> str:
    """Return the name of a client in a report."""
    return _named(usage.client_id, usage.principal)


def _named(client_id: str | None, principal: str | None) -> str:
    name = f"client {client_id!r}" if client_id else "a client without an id"
    return f"{name} of {principal}" if principal else name


def _either(texts: Iterable[str | None]) -> str | None:
    return " or ".join(sorted({text for text in texts if text})) or None
