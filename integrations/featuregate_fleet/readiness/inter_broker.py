"""Tells the requests of brokers and controllers apart from those of clients. Pure.

No line says that a request is of a node. What shows it together: a client id that nodes use, an API that they send
under it, no other software than theirs, and a listener and a principal that agree with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate_fleet.readiness.api_ranges import is_internal

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence, Usage

_SHAPES: Final = {
    re.compile(r"broker-(\d+)-fetcher-\d+"): frozenset({1, 2, 18, 23}),
    re.compile(r"broker-(\d+)-txn-marker-sender"): frozenset({18, 27}),
    re.compile(r"AddPartitionsManager-client-(\d+)"): frozenset({18, 24}),
    re.compile(r"Persister-client-(\d+)"): frozenset({10, 18}),
    re.compile(r"raft-client-(\d+)"): frozenset({1, 18}),
    re.compile(r"(\d+)"): frozenset({18, 19, 24}),
}
"""The client ids of nodes, with the APIs that nodes send under them, without internal ones: ReplicaFetcherThread,
TransactionMarkerChannelManager, AddPartitionsToTxnManager, PersisterStateManager, KafkaRaftManager and
NodeToControllerChannelManager, and ControllerChannelManager before 4.0 (seen on 3.2.3, 3.9.2 and 4.2.0)."""
_SOFTWARE: Final = frozenset({None, "apache-kafka-java"})


def tell_apart(evidence: Evidence) -> Evidence:
    """Return the evidence with the requests of nodes separated from those of clients."""
    found = set(of_nodes(evidence.usage, evidence.brokers_known))
    return replace(
        evidence,
        usage=tuple(usage for usage in evidence.usage if usage not in found),
        node_usage=(*evidence.node_usage, *(usage for usage in evidence.usage if usage in found)),
    )


def of_nodes(usages: Iterable[Usage], brokers: Collection[str]) -> tuple[Usage, ...]:
    """Return the requests of brokers and controllers; internal APIs, which a client has no use for, are left out.

    The client id alone proves nothing, because clients choose it. A request agrees with what nodes do if its principal
    sent an internal API on this listener, which needs CLUSTER_ACTION: under the same number, if its client id is one.
    It also does on the one other listener on which most brokers are named, two at least, if its principal speaks for
    several of ``brokers``, or if no other principal speaks for the same one.
    """
    completed = [usage for usage in usages if usage.outcome == "completed" and not usage.forwarded]
    internal = [usage for usage in completed if is_internal(usage.api_key)]
    of_nodes_alone = {(*usage.place, usage.client_id) for usage in internal}
    places = {usage.place for usage in internal}
    named = [(usage, node) for usage in completed if (node := _node(usage)) is not None]
    claims: defaultdict[str | None, defaultdict[str, set[str | None]]] = defaultdict(lambda: defaultdict(set))
    speaks_for: defaultdict[tuple[str | None, str | None], set[str]] = defaultdict(set)
    for usage, node in named:
        # A number is a client id of many apps, too. Controllers have a listener of their own, which identifies them.
        if node in brokers and node != usage.client_id and usage.place not in places:
            claims[usage.listener][node].add(usage.principal)
            speaks_for[usage.place].add(node)
    most = max((len(nodes) for nodes in claims.values()), default=0)
    homes = {listener for listener, nodes in claims.items() if len(nodes) == most > 1}

    def agrees(usage: Usage, node: str) -> bool:
        if usage.place in places:  # without authentication, apps have the listener and principal of brokers
            return node != usage.client_id or (*usage.place, node) in of_nodes_alone
        if len(homes) != 1 or usage.listener not in homes or node not in brokers:
            return False
        return len(speaks_for[usage.place]) > 1 or claims[usage.listener][node] == {usage.principal}

    return tuple(usage for usage, node in named if agrees(usage, node))


def _node(usage: Usage) -> str | None:
    """Return the number in a client id of a node; None of any other request."""
    if usage.software_name not in _SOFTWARE:
        return None
    for shape, apis in _SHAPES.items():
        if (found := shape.fullmatch(usage.client_id or "")) and usage.api_key in apis:
            return found[1]
    return None
