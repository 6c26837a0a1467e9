"""Who belongs to the cluster: one node is asked, and names the others.

DescribeCluster where the node knows it (2.8 and newer, KIP-700), Metadata elsewhere.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.config import Address
from featuregate.errors import (
    ConfigError,
    DiscoveryError,
    FeatureGateError,
    RemoteWireError,
    TimedOut,
    UnsupportedVersion,
)
from featuregate.kafka_errors import broker_error
from featuregate.net.connection import Connection
from featuregate.net.race import race
from featuregate.printable import shown
from featuregate.wire.cluster import BROKERS, CONTROLLERS, DescribeClusterRequest, MetadataRequest, Node
from featuregate.wire.session import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from featuregate.config import Settings
    from featuregate.roles import BrokerListSource
    from featuregate.wire.session import Negotiated

__all__ = ["BrokerList", "Found", "check_role", "find", "from_bootstrap", "identity_of"]

_STAGGER: Final = 0.5
"""Seconds before the next node is asked beside one that says nothing."""
_KNOWN_FIRST: Final = 3
"""So many known nodes are tried before the bootstrap list, and the others after it: all may be gone."""
_MOST_NODES: Final = 10_000
_LONGEST_NAME: Final = 255
"""Characters: of a host as DNS has it, and more than any cluster id has."""
_BROKER_NOT_AVAILABLE: Final = 8
_MISMATCHED_ENDPOINT_TYPE: Final = 114
_FENCED_FROM: Final = 2
_VOTE: Final = 52
"""An API that every KRaft controller lists, and no broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerList:
    """The nodes of one cluster."""

    cluster_id: str | None
    """None: the brokers are too old to say (before 0.10.1), or the bootstrap list is used and the app names none."""
    controller_id: int | None
    """What was said about it; a KRaft broker names some broker that is alive."""
    nodes: tuple[Node, ...]
    """By node id. Of a bootstrap broker list the ids are not known: -1, -2 and so on, as Kafka's clients count them."""
    source: BrokerListSource
    registered: bool
    """Whether nodes that are registered but down are among them: so where DescribeCluster v2 told (4.0), and for a
    listed broker list, which names all there are. Else whoever is down is missing here."""


class Found(NamedTuple):
    """A broker list, and what the node that gave it said about itself on the way."""

    broker_list: BrokerList
    address: Address
    negotiated: Negotiated
    seconds: float
    """How long that node took to say it, from before connecting."""


class _Candidate(NamedTuple):
    address: Address
    identity: Identity | None


def from_bootstrap(settings: Settings) -> BrokerList:
    """Make the broker list of an app that says that its bootstrap list names every node."""
    nodes = tuple(
        Node(node_id=-at, host=address.host, port=address.port) for at, address in enumerate(settings.bootstrap, 1)
    )
    return BrokerList(
        cluster_id=settings.cluster_id, controller_id=None, nodes=nodes, source="bootstrap", registered=True
    )


async def find(settings: Settings, known: BrokerList | None, deadline: float) -> Found:
    """Ask one node after another who they all are; the first that tells is believed.

    Known nodes come first, told whom we expect there, then the bootstrap list. A node that says nothing holds up the
    next one for half a second only. ``deadline`` is a time of the running loop.

    Raises
    ------
    DiscoveryError
        Nobody told; with the cause of each.
    """
    causes: list[tuple[Address, FeatureGateError]] = []

    async def attempt(candidate: _Candidate) -> Found | None:
        address = candidate.address
        try:
            return await _ask_for_all(candidate, settings)
        except FeatureGateError as error:
            causes.append((address, error))
        except asyncio.CancelledError:  # another one was faster, and this does not matter; or time ran out
            problem = f"{settings.total_timeout:g} s for all of it ran out"
            causes.append((address, TimedOut(address, "finding who belongs to the cluster", problem)))
            raise
        return None

    attempts = (partial(attempt, candidate) for candidate in _candidates(settings, known))
    found = None
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            found = await race(attempts, stagger=_STAGGER, dispose=lambda _: None)
    if found is None:
        raise DiscoveryError({(address, str(error)): (address, error) for address, error in causes}.values())
    return found


def check_role(address: Address, settings: Settings, negotiated: Negotiated) -> None:
    """Refuse a controller where brokers are wanted, and the reverse: their answers mean different things.

    Controllers list Vote and never Metadata; brokers the reverse. Raises `ConfigError`.
    """
    listed_apis = negotiated.response.api_ranges
    if settings.role == "broker" and _VOTE in listed_apis and MetadataRequest.API_KEY not in listed_apis:
        raise _wrong_endpoint(address, settings.role)
    if settings.role == "controller" and MetadataRequest.API_KEY in listed_apis:
        raise _wrong_endpoint(address, settings.role)


def _wrong_endpoint(address: Address, role: str) -> ConfigError:
    if role == "broker":
        return ConfigError(
            "bootstrap.servers", f"{address} is a controller: use bootstrap.controllers, or --bootstrap-controller"
        )
    return ConfigError("bootstrap.controllers", f"{address} is a broker: use bootstrap.servers, or --bootstrap-server")


def _candidates(settings: Settings, known: BrokerList | None) -> Iterable[_Candidate]:
    """Order whom to ask. The bootstrap list is asked without an identity: another cluster may live there now."""
    seen: list[_Candidate] = []
    if known is not None and known.source == "cluster":
        alive = [node for node in known.nodes if not node.is_fenced]
        # Many clients with the same broker list must not all ask the same broker first.
        shuffled = random.sample(alive, len(alive))
        seen = [_Candidate(Address(node.host, node.port), identity_of(known, node)) for node in shuffled]
    bootstrap = [_Candidate(address, None) for address in settings.bootstrap]
    return dict.fromkeys([*seen[:_KNOWN_FIRST], *bootstrap, *seen[_KNOWN_FIRST:]])


def identity_of(broker_list: BrokerList, node: Node) -> Identity | None:
    """Say whom we expect at a node's address, where we know."""
    return Identity(broker_list.cluster_id, node.node_id) if broker_list.cluster_id and node.node_id >= 0 else None


async def _ask_for_all(candidate: _Candidate, settings: Settings) -> Found:
    clock = asyncio.get_running_loop().time
    began = clock()
    with await Connection.open(candidate.address, settings, candidate.identity) as connection:
        negotiated = await connection.negotiate()
        seconds = clock() - began
        check_role(candidate.address, settings, negotiated)
        await connection.authenticate()
        broker_list = _identified(await _describe(connection, settings.role), candidate.address, settings.cluster_id)
    return Found(broker_list, candidate.address, negotiated, seconds)


def _identified(broker_list: BrokerList, address: Address, expected: str | None) -> BrokerList:
    """Give a cluster that tells no id the one that the app names, and refuse one that tells another."""
    if expected is None or broker_list.cluster_id == expected:
        return broker_list
    if broker_list.cluster_id is None:
        return replace(broker_list, cluster_id=expected)
    raise ConfigError("cluster_id", f"{address} belongs to cluster {broker_list.cluster_id}, not to {expected}")


async def _describe(connection: Connection, role: str) -> BrokerList:
    endpoint_type = BROKERS if role == "broker" else CONTROLLERS
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    try:
        version = connection.version_for(request)
    except UnsupportedVersion:
        if role == "broker":
            return await _describe_by_metadata(connection)
        raise
    with_fenced = version >= _FENCED_FROM and role == "broker"
    response = await connection.request(replace(request, include_fenced_brokers=with_fenced))
    if response.error_code == _MISMATCHED_ENDPOINT_TYPE:
        raise _wrong_endpoint(connection.address, role)
    if response.error_code:
        raise broker_error(response.error_code, shown(response.error_message or ""))
    return _broker_list(response.cluster_id, response.controller_id, response.brokers, registered=with_fenced)


async def _describe_by_metadata(connection: Connection) -> BrokerList:
    response = await connection.request(MetadataRequest())
    if response.error_code:
        raise broker_error(response.error_code)
    return _broker_list(response.cluster_id, response.controller_id, response.brokers, registered=False)


def _broker_list(
    cluster_id: str | None, controller_id: int, nodes: tuple[Node, ...], *, registered: bool
) -> BrokerList:
    if not nodes:
        raise broker_error(_BROKER_NOT_AVAILABLE, "it knows of no brokers yet, so it is probably starting")
    if len(nodes) > _MOST_NODES:
        raise RemoteWireError(f"{len(nodes)} nodes are more than any cluster has", "brokers", 0)
    if not _is_name(cluster_id or ""):
        raise RemoteWireError("this is no cluster id", "cluster_id", 0)
    for node in nodes:
        if not _is_name(node.host) or " " in node.host:
            raise RemoteWireError(f"the host of node {node.node_id} is none", "brokers.host", 0)
    by_id = {node.node_id: node for node in sorted(nodes, key=lambda node: node.node_id)}
    return BrokerList(
        cluster_id=cluster_id or None,
        controller_id=controller_id if controller_id >= 0 else None,
        nodes=tuple(by_id.values()),
        source="cluster",
        registered=registered,
    )


def _is_name(text: str) -> bool:
    """Tell what may be one from what would bloat the resolver, or garble a log or a terminal."""
    return len(text) <= _LONGEST_NAME and text.isprintable()
