"""Answers that prove no node, because several nodes have the address that gave them.

Behind a proxy or a balancer one address leads to several backends. A broker that compares its id with the expected one
(ApiVersions v5, KIP-1242) proves that it is the node. Any other answer may be that of another backend. Controllers do
not compare ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from featuregate.config import Address, Settings
from featuregate.errors import SharedAddress
from featuregate.net.cluster_metadata import BrokerList, address_of, expected_node
from featuregate.wire.api_versions import IDENTITY_FROM

if TYPE_CHECKING:
    from featuregate.net.probe import ProbeResult
    from featuregate.wire.cluster import Node

_SHOWN: Final = 5
_ADVICE: Final = (
    "give each an address of its own (advertised.listeners), or set featuregate.trust.shared.addresses=true "
    "if whatever listens there answers for all of them"
)


def without_shared(
    settings: Settings, broker_list: BrokerList, results: Mapping[int, ProbeResult]
) -> dict[int, ProbeResult]:
    """Replace each answer that proves no node by a failure; ``results`` are by the id in the broker list.

    Two nodes share an address if the broker list has the same one for both, in any spelling. Without TLS they share it
    also if the connections to both ended at one address, because then nothing in them tells the nodes apart. With TLS a
    router can, by the name that the client sends (SNI), so names that differ count as addresses that differ.
    """
    if settings.trust_shared_addresses:
        return dict(results)
    listed = _by_place((address_of(node), node) for node in broker_list.nodes)
    peers = () if settings.tls is not None else broker_list.nodes
    ended = _by_place(
        (Address(*result.peer), node)
        for node in peers
        if (result := results.get(node.node_id)) is not None and result.peer is not None
    )
    checked = dict(results)
    for node in broker_list.nodes:
        result = results.get(node.node_id)
        if result is None or result.response is None or _proves_its_node(settings, broker_list, node, result):
            continue
        sharing = listed[_place(address_of(node))]
        if settings.tls is None and result.peer is not None:
            sharing = sharing | ended[_place(Address(*result.peer))]
        if len(sharing) > 1:
            checked[node.node_id] = _unproven(settings, result, [sharing[key] for key in sorted(sharing)])
    return checked


def _proves_its_node(settings: Settings, broker_list: BrokerList, node: Node, result: ProbeResult) -> bool:
    named = settings.check_node and expected_node(broker_list, node) is not None
    return settings.role == "broker" and named and (result.version or 0) >= IDENTITY_FROM


def _unproven(settings: Settings, result: ProbeResult, nodes: Sequence[Node]) -> ProbeResult:
    names = [str(address_of(node)) if node.node_id < 0 else str(node.node_id) for node in nodes]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    where = f"the address {result.address}"
    if len({address_of(node) for node in nodes}) > 1 and result.peer is not None:
        where = f"one address, {Address(*result.peer)}"
    problem = (
        f"{settings.role}s {', '.join(names[:_SHOWN])}{more} share {where}, and an answer in ApiVersions "
        f"v{result.version} does not prove which of them gave it: {_ADVICE}"
    )
    return result._replace(response=None, version=None, configs={}, failure=SharedAddress(result.address, problem))


def _by_place(nodes: Iterable[tuple[Address, Node]]) -> Mapping[tuple[str, int], dict[int, Node]]:
    found: dict[tuple[str, int], dict[int, Node]] = {}
    for address, node in nodes:
        found.setdefault(_place(address), {})[node.node_id] = node
    return found


def _place(address: Address) -> tuple[str, int]:
    """Return one spelling of an address: names without case and final dot, IPv6 in its short form, IPv4 as IPv4."""
    host = address.host.lower().rstrip(".")
    if ":" in host:
        from ipaddress import IPv6Address  # noqa: PLC0415 - most addresses are names

        with suppress(ValueError):
            literal = IPv6Address(host)
            host = str(literal.ipv4_mapped or literal)
    return host, address.port
