"""What the software that is connected to listeners does on another release, by the table of measured clients. Pure.

A broker knows the name of a software before the login, and no request shows a login. So a client whose login will fail
is found by its name, together with the mechanisms that its listener allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.catalog.clients import client_of_software
from featuregate.clients.declared import client
from featuregate.printable import some
from featuregate_fleet.metrics.evidence import MOST_PAIRS, MetricsEvidence, SoftwareUse
from featuregate_fleet.metrics.listeners import BrokerListener
from featuregate_fleet.metrics.spellings import UNKNOWN
from featuregate_fleet.readiness.checks.software_checks import (
    MOST_SOFTWARES,
    OURS,
    cached_fit,
    is_login,
    what_breaks,
)
from featuregate_fleet.readiness.rows import Row, Verdict, grouped

if TYPE_CHECKING:
    from featuregate.clients.fit import Client, Finding
    from featuregate_fleet.readiness.api_ranges import ReleaseApis

_OF_NODES: Final = frozenset({"apache-kafka-java", "unknown"})
"""What brokers and controllers are called that connect to one another."""
_SOFTWARE: Final = "client-software"
_LOGINS: Final = "logins"


def software_rows(
    evidence: MetricsEvidence, apis: ReleaseApis, listeners: Mapping[str, BrokerListener]
) -> Iterator[Row]:
    """Check each software on each listener, and say of which none is known.

    Where there are more than are judged, it is those of listeners that are named first, and of one those with the most
    connections.
    """
    found, left = (one for one in evidence.software_in_use if one.name != OURS), MOST_SOFTWARES
    for name, uses in grouped(found, lambda one: one.listener):
        listener = listeners.get(name, BrokerListener())
        if listener.of_nodes and {one.name for one in uses} <= _OF_NODES:
            continue
        judged = uses if len(uses) <= left else sorted(uses, key=lambda one: -one.most)[:left]
        left -= len(judged)
        rows = [row for one in judged if (row := _of_software(one, listener, apis))]
        if more := len(uses) - len(judged):
            why = f"{more} more softwares are connected to it than the {MOST_SOFTWARES} that are judged."
            do = "Look at what its clients report."
            rows.append(Row(_SOFTWARE, Verdict.UNKNOWN, f"software on listener {name}", why, do))
        named = [one.text for one in uses if one.is_named]
        yield from rows
        if listener.mechanisms is None and named:
            why = (
                "Whether its clients can log in depends on the SASL mechanisms that it allows, and these are not known."
            )
            do = f"Give --bootstrap-server, or --listener {name}=SCRAM-SHA-256; {name}=none for one without SASL."
            yield Row(_LOGINS, Verdict.UNKNOWN, f"listener {name}", why, do)
        elif named and not rows:
            logins = f", also log in by {some(sorted(listener.mechanisms))}" if listener.mechanisms else ""
            why = f"All software that was seen works on {apis.brokers}{logins}: {some(named, 5)}."
            yield Row(_SOFTWARE, Verdict.OK, f"listener {name}", why)
    yield from _gaps(evidence)


def _of_software(one: SoftwareUse, listener: BrokerListener, apis: ReleaseApis) -> Row | None:
    if not one.is_named:
        return _unnamed(one, apis)
    known = client_of_software(one.name, one.version)
    if known is None or one.version == UNKNOWN:
        why = f"{one.text} is connected to listener {one.listener}, and was not measured."
        return _row(_SOFTWARE, Verdict.UNKNOWN, one, why, f"Try {one.text} with {apis.brokers}.")
    fit, allowed = cached_fit(client(*known), apis.release.release), listener.mechanisms
    is_sure = allowed is not None and len(allowed) == 1
    found = what_breaks(
        fit,
        apis,
        one.text,
        does=lambda each: not is_login(each) or allowed is None or each.step.removeprefix("sasl-") in allowed,
        needs=lambda each: is_sure if is_login(each) else not each.optional,
        otherwise=Verdict.UNKNOWN,
        more=_never_measured(fit.client, apis.release.release, allowed or frozenset(), fit.findings),
    )
    verdict, findings, why, do = next(found, (None, [], "", ""))
    if verdict is None:
        return None
    logins = [each for each in findings if is_login(each)]
    allows = some(sorted(allowed or ())) or "mechanisms that are not known"
    why = f"{why}{f' The listener allows {allows}.' if logins else ''} {_connected(one)}"
    # If it is not connected now, it may have been replaced.
    verdict = verdict if one.most else Verdict.UNKNOWN
    return _row(_LOGINS if logins == findings else _SOFTWARE, verdict, one, why, do)


def _never_measured(of: Client, release: str, allowed: Iterable[str], known: Collection[Finding]) -> Iterator[Finding]:
    """Yield the mechanisms by which no login was measured to work, of which the move takes nothing away."""
    for mechanism in sorted(allowed):
        for each in cached_fit(of, release, sasl=mechanism).findings:
            if each.step == f"sasl-{mechanism}" and each not in known:
                yield replace(each, fate="unknown", why="no login was measured to work")


def _unnamed(one: SoftwareUse, apis: ReleaseApis) -> Row:
    why = (
        "Clients that do not say what they are use this listener: their requests are counted, and neither their logins "
        f"nor what they do seldom can be judged. {_connected(one)}"
    )
    if not one.most:  # Kafka counts each connection so until it names its software
        why = "A page counts each connection here before it says its software, and not whether a client never says it."
    do = (
        f"Find them in a request log, by 'featuregate fleet logging on --for 30m', before the brokers {apis.step}; "
        f"ask a Prometheus, which sees who stays so, or say --listener {one.listener}=brokers if they alone use it."
    )
    return _row(_SOFTWARE, Verdict.UNKNOWN, one, why, do)


def _connected(one: SoftwareUse) -> str:
    place = f"connected to listener {one.listener} of broker {some(one.brokers)}"
    if one.most:
        return f"It is {place}, with up to {one.most} connection{'s' if one.most > 1 else ''}."
    return f"It was {place} since that started, and at no sample."


def _gaps(evidence: MetricsEvidence) -> Iterator[Row]:
    """Say where software is hidden: without the metric, and where a network thread has all that it counts."""
    for one in evidence.brokers:
        if one.is_broker and not one.has_software:
            why = "It has no metric of connected software (brokers have it from 2.5 on), or not in each hour: logins "
            why += "cannot be judged."
            do = "Let the exporter have kafka.server:type=socket-server-metrics,clientSoftwareName=*."
            yield Row(_SOFTWARE, Verdict.UNKNOWN, f"software of broker {one.broker}", why, do)
        for listener in one.full_listeners:
            why = f"A network thread of broker {one.broker} counts {MOST_PAIRS} softwares, and may hide others."
            do = "Look at the request log, by 'featuregate fleet logging on --for 30m'."
            yield Row(_SOFTWARE, Verdict.UNKNOWN, f"software on listener {listener}", why, do)


def _row(check: str, verdict: Verdict, one: SoftwareUse, why: str, do: str) -> Row:
    subject, times = one.text if one.is_named else f"{one.text} on listener {one.listener}", one.connections
    software = one.text if one.is_named else None
    return Row(check, verdict, subject, why, do, software=software, first_seen=min(times), last_seen=max(times))


def works(name: str, version: str, apis: ReleaseApis) -> bool:
    """Return whether a software does all that was measured of it, so that it decides nothing."""
    known = client_of_software(name, version)
    return name == OURS or (known is not None and cached_fit(client(*known), apis.release.release).verdict == "works")
