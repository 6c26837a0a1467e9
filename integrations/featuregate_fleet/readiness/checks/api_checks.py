"""The checks: each takes evidence and returns rows. Pure.

A block stands on requests that were seen, and an ok on the absence of others: so each ok needs coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import METADATA_VERSION, CapturedRelease, api_name, captured
from featuregate_fleet.readiness.api_ranges import API_VERSIONS, OLDER_API, ServedApis
from featuregate_fleet.readiness.checks.negotiating import Negotiating
from featuregate_fleet.readiness.checks.newest_served import NewestServed
from featuregate_fleet.readiness.evidence import Evidence, RefusedVersion, Usage
from featuregate_fleet.readiness.rows import MOST_HOSTS, Row, Verdict

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

_END_TXN: Final = 26
_WRITE_TXN_MARKERS: Final = 27
_UNASKED: Final = 2
"""The version of WriteTxnMarkers that coordinators of 4.2.0 send to brokers of each release (KAFKA-20322)."""
_SENDS_UNASKED: Final = "4.2"


# ---------------------------------------------------------------- clients


def api_versions(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check what each client uses against what the brokers serve then.

    A version below the lowest blocks: a client uses the newest version that it shares with the broker, so it has no
    newer one. Where brokers serve no newer one themselves, that is unknown. A version above the highest is no more than
    a warning for a client that negotiates, because that client may have an older one, too. The same is true of an API
    that replaced an older one.
    """
    seen = evidence.usage + evidence.node_usage if apis.among_nodes else evidence.usage
    completed = [usage for usage in seen if usage.outcome == "completed"]
    newest = NewestServed.of(evidence, completed, apis)
    negotiates = Negotiating.of(completed)
    for _, of_client in grouped(completed, _client_key):
        used = [usage for usage in of_client if apis.concerns(usage.api_key)]
        findings = [
            client_row(apis, key, same, verdict, softwares(same))
            for key, of_api in grouped(used, lambda usage: usage.api_key)
            for verdict, same in grouped(of_api, lambda usage: judge(apis, newest, negotiates.does(usage), usage))
            if verdict is not Verdict.OK
        ]
        yield from findings or ([_ok_row(apis, used, softwares(used))] if used else [])


def _client_key(usage: Usage) -> tuple[str, str, str]:
    """Return what tells clients apart: principal and client id; the software where names were removed by a command."""
    names = usage.principal or "", usage.client_id or ""
    return (*names, "" if any(names) else usage.software)


def judge(apis: ServedApis, newest: NewestServed, negotiates: bool, usage: Usage) -> Verdict:  # noqa: FBT001 - bound by partial
    """Return what one version of an API says of a client that may negotiate."""
    has = apis.served(usage.api_key)
    if has is None:
        return Verdict.WARN if negotiates and usage.api_key in OLDER_API else Verdict.BLOCK
    if usage.version < has.lowest:
        return Verdict.UNKNOWN if newest.may_be(usage) else Verdict.BLOCK
    if usage.version > has.highest:
        return Verdict.WARN if negotiates else Verdict.BLOCK
    return Verdict.OK


_NOTHING_NEWER: Final = " Brokers may serve nothing newer, so that it may have newer versions, too."


def client_row(apis: ServedApis, key: int, used: list[Usage], verdict: Verdict, software: str | None) -> Row:
    """Return the row of a client and an API of which some versions are not served."""
    versions = tuple(sorted({usage.version for usage in used}))
    client, unknown = client_name(used[0]), ""
    if verdict is Verdict.WARN:
        older = f"use {OLDER_API[key]} instead" if apis.served(key) is None else "have older versions, too"
        do = f"Try {client} with {apis.brokers}: it negotiates, and may {older}."
    elif verdict is Verdict.UNKNOWN:
        unknown = _NOTHING_NEWER
        do = f"Let brokers serve newer versions of {api_name(key)}, and log requests again, with --bootstrap-server."
    else:
        do = f"Upgrade {client}, or stop it, before the brokers {apis.step}."
    return Row(
        check="api-versions",
        verdict=verdict,
        subject=client,
        why=apis.describe(key, versions) + unknown,
        do=do,
        api=api_name(key),
        versions=versions,
        stop_serving_release=apis.dropped_in(key, versions[0]),
        software=software,
        **who_and_when(used),
    )


def _ok_row(apis: ServedApis, used: list[Usage], software: str | None) -> Row:
    return Row(
        check="api-versions",
        verdict=Verdict.OK,
        subject=client_name(used[0]),
        why=f"The client uses only versions that {apis.brokers} serves.",
        software=software,
        **who_and_when(used),
    )


def inter_broker(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Say which requests are not held against a client, because brokers and controllers sent them to one another."""
    if apis.among_nodes:
        return
    for listener, used in grouped(evidence.node_usage, lambda usage: usage.listener or ""):
        names = sorted({usage.client_id or "" for usage in used})
        known = f"{len(names)} client ids, such as {names[0]!r}" if len(names) > 1 else f"the client id {names[0]!r}"
        yield Row(
            check="inter-broker",
            verdict=Verdict.OK,
            subject=f"nodes on listener {listener!r}" if listener else "nodes",
            why=f"Brokers and controllers sent requests with {known}: they use what the other node has.",
            **who_and_when(used)
            | {"client_id": ", ".join(names), "principal": _either(usage.principal for usage in used)},
        )


def refused_requests(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check what brokers refuse already.

    The log of refused requests has no client id: other requests on the same connection may say who it is.
    """
    refused = [usage for usage in evidence.usage if usage.outcome == "refused" and apis.concerns(usage.api_key)]
    for (host, key, version), used in grouped(refused, lambda u: (u.client_host or "", u.api_key, u.version)):
        has = apis.served(key)
        too_old = has is not None and version < has.lowest
        here = f"a client at {host}" if host else "a client"
        known = sorted(evidence.refused_clients.get(RefusedVersion(host or None, key, version), ()), key=str)
        do = f"Find the client at {host or 'the address in the log'}: the log of refused requests has no client id."
        if known:
            here = f"{_either(_named(each.client_id, each.principal) for each in known)} at {host}"
            do = f"Upgrade {here}: it sent other requests on the connection that the broker closed."
        after = "refuses the version, too" if apis.lacks(key, version) else "serves it"
        yield Row(
            check="refused-requests",
            verdict=Verdict.BLOCK if too_old else Verdict.WARN,
            subject=here,
            why=f"A broker refused {api_name(key)} {version}, and {apis.brokers} {after}.",
            do=do,
            api=api_name(key),
            versions=(version,),
            stop_serving_release=apis.dropped_in(key, version),
            software=_either(each.software for each in known),
            **who_and_when(used)
            | {
                "client_id": _either(each.client_id for each in known),
                "principal": _either(each.principal for each in known) or used[0].principal,
            },
        )


def newer_brokers(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Say that a move is a downgrade, where brokers serve a version that the target does not know yet.

    A broker of the target may not start with the finalized levels (KIP-778), and its coordinators may not read the
    records of newer ones (KIP-915).
    """
    served = evidence.usage + evidence.node_usage
    newer = [
        usage for usage in served if usage.outcome == "completed" and _is_newer(apis, usage.api_key, usage.version)
    ]
    answering = evidence.view.answering if evidence.view else ()
    told = {(key, found.max) for broker in answering for key, found in broker.api_ranges.items()}
    versions = [(usage.api_key, usage.version) for usage in newer] or sorted(
        one for one in told if _is_newer(apis, *one)
    )
    if versions:
        key, version = versions[0]
        yield Row(
            check="newer-brokers",
            verdict=Verdict.UNKNOWN,
            subject="the cluster",
            why=f"The brokers serve {api_name(key)} {version}, and are newer than {apis.brokers}.",
            do="Ask --downgrade-to, which looks at finalized levels and at the records of coordinators, too.",
            api=api_name(key),
            versions=(version,),
            count=sum(usage.count for usage in newer),
            first_seen=min((usage.first_seen for usage in newer), default=None),
            last_seen=max((usage.last_seen for usage in newer), default=None),
        )


def _is_newer(apis: ServedApis, api_key: int, version: int) -> bool:
    has = apis.served(api_key)
    return has is not None and version > has.highest and api_key != API_VERSIONS


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
    used = [usage for usage in evidence.usage if usage.api_key == _END_TXN and usage.outcome == "completed"]
    for _, of_client in grouped(used, lambda usage: (usage.principal or "", usage.client_id or "")):
        yield Row(
            check="transactions",
            verdict=Verdict.WARN,
            subject=client_name(of_client[0]),
            why="Its transactions may stay open while brokers of 4.2.0 and older ones run together, because the older "
            f"ones refuse {api_name(_WRITE_TXN_MARKERS)} {_UNASKED} (KAFKA-20322).",
            do="Use 4.2.1 in place of 4.2.0, or roll the brokers without a pause, at a time of low load.",
            api=api_name(_END_TXN),
            versions=tuple(sorted({usage.version for usage in of_client})),
            **who_and_when(of_client),
        )


# ---------------------------------------------------------------- shared by checks


def grouped(usage: Iterable[Usage], key: Callable[[Usage], Any]) -> list[tuple[Any, list[Usage]]]:
    """Return usage by a key, in the order of the keys."""
    return [(found, list(same)) for found, same in groupby(sorted(usage, key=key), key)]


def who_and_when(used: list[Usage]) -> dict[str, Any]:
    """Return the fields of a row that say whose requests these are, how many, and when they were sent."""
    # A broker forwards some requests to a controller, which logs them once more.
    counted = [usage for usage in used if not usage.forwarded] or used
    hosts = sorted({usage.client_host for usage in counted if usage.client_host})
    return {
        "client_id": used[0].client_id,
        "principal": used[0].principal,
        "count": sum(usage.count for usage in counted),
        "first_seen": min(usage.first_seen for usage in used),
        "last_seen": max(usage.last_seen for usage in used),
        "hosts": tuple(hosts[:MOST_HOSTS]),
        "host_count": len(hosts),
    }


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
    """Return the texts of those clients of which it is one; None without any."""
    return " or ".join(sorted({text for text in texts if text})) or None
