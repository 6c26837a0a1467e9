"""Fetch the broker list of a cluster from one of its nodes, and authenticate a connection to a node of the list.

The request is DescribeCluster where the node supports it (2.8 and newer, KIP-700), and Metadata elsewhere. Where
DescribeCluster does not list the address that was reached, Metadata is asked as well: a proxy may give clients its own
addresses in Metadata, which all of them use, and pass DescribeCluster on (grepplabs/kafka-proxy).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.budgets import MOST_NODES
from featuregate.config import Address, Settings
from featuregate.errors import (
    ConfigError,
    DiscoveryError,
    FeatureGateError,
    NetError,
    OtherCluster,
    RemoteWireError,
    TimedOut,
    UnsupportedVersion,
)
from featuregate.kafka_errors import broker_error, check_error
from featuregate.loops.short_loop import running_loop
from featuregate.net.connection import Connect, Connection, new_connection, open_negotiated
from featuregate.printable import some
from featuregate.values import replace
from featuregate.wire.cluster import BROKERS, CONTROLLERS, DescribeClusterRequest, Node
from featuregate.wire.session import ExpectedNode, Negotiated

if TYPE_CHECKING:
    from featuregate.roles import BrokerListSource

_STAGGER: Final = 0.5
"""Seconds without an answer before the next node is asked as well."""
_KNOWN_FIRST: Final = 3
"""Number of known nodes that are tried before the bootstrap list; the others come after it, since all may be gone."""
_LONGEST_NAME: Final = 255
"""Characters: the longest host name in DNS, and more than any cluster id has."""
_BROKER_NOT_AVAILABLE: Final = 8
_MISMATCHED_ENDPOINT_TYPE: Final = 114
_FENCED_FROM: Final = 2
_SHOWN: Final = 3
_METADATA: Final = 3
"""An API that every broker lists, and no KRaft controller."""
_VOTE: Final = 52
"""An API that every KRaft controller lists, and no broker."""


class BrokerList(NamedTuple):
    """The nodes of one cluster."""

    cluster_id: str | None
    """None where the brokers are too old to have one (before 0.10.1), or where the bootstrap list is used and the app
    names none."""
    controller_id: int | None
    """As the node reported it; a KRaft broker names any live broker."""
    nodes: tuple[Node, ...]
    """In the order of their ids. Nodes of a bootstrap list have the ids -1, -2 and so on, as in Kafka's clients."""
    source: BrokerListSource
    registered: bool
    """Whether the list includes nodes that are registered but down: from DescribeCluster v2 (4.0), and where it is the
    bootstrap list, which names every node."""
    differs: str = ""
    """The nodes of which Metadata and DescribeCluster give other addresses; those of Metadata are in the list."""


class FetchedBrokerList(NamedTuple):
    """A broker list, with the address and the ApiVersions response of the node that gave it."""

    broker_list: BrokerList
    address: Address
    expected: ExpectedNode | None
    """The node that the request named."""
    negotiated: Negotiated
    seconds: float
    """Time from before connecting to the ApiVersions response."""
    peer: tuple[str, int] | None
    """Where the connection ended, after name resolution."""


class Candidate(NamedTuple):
    """An address to connect to, and the node that is expected there."""

    address: Address
    expected: ExpectedNode | None


def address_of(node: Node) -> Address:
    """Return the address at which a node listens."""
    return Address(node.host, node.port)


def bootstrap_broker_list(settings: Settings) -> BrokerList:
    """Return the bootstrap list as a broker list, for an app whose bootstrap list names every node."""
    nodes = tuple(
        Node(node_id=-at, host=address.host, port=address.port) for at, address in enumerate(settings.bootstrap, 1)
    )
    return BrokerList(
        cluster_id=settings.cluster_id, controller_id=None, nodes=nodes, source="bootstrap", registered=True
    )


async def fetch_broker_list(
    settings: Settings, known: BrokerList | None, deadline: float, connect: Connect = new_connection
) -> FetchedBrokerList:
    """Ask one node after another for the broker list, and return the first that arrives.

    Known nodes come first, then the bootstrap list. A node that does not answer delays the next one by half a second
    only. ``deadline`` is a time of the running loop. Raises `DiscoveryError`: no node gave the list; with the cause of
    each.
    """
    loop = running_loop()
    causes: list[tuple[Address, FeatureGateError]] = []
    unanswered: list[Address] = []

    async def attempt(candidate: Candidate) -> FetchedBrokerList | None:
        address = candidate.address
        unanswered.append(address)
        try:
            return await _fetch_from(candidate, settings, connect)
        except FeatureGateError as error:
            unanswered.remove(address)
            causes.append((address, error))
        return None

    attempts = (partial(attempt, candidate) for candidate in _candidates(settings, known))
    fetched = None
    with suppress(TimeoutError):
        async with loop.timeout_at(deadline):
            fetched = await loop.race(attempts, stagger=_STAGGER, dispose=lambda _: None)
    if fetched is None:
        problem = f"the {settings.total_timeout:g} s in total have passed"
        causes += [(address, TimedOut(address, "fetching the broker list", problem)) for address in unanswered]
        raise DiscoveryError({(address, str(error)): (address, error) for address, error in causes}.values())
    return fetched


def check_role(address: Address, settings: Settings, negotiated: Negotiated) -> None:
    """Refuse a controller where the settings name brokers, and the reverse: their answers mean different things.

    Controllers list Vote and never Metadata; brokers the reverse. Raises `ConfigError`.
    """
    listed_apis = negotiated.response.api_ranges
    if settings.role == "broker" and _VOTE in listed_apis and _METADATA not in listed_apis:
        raise _wrong_endpoint(address, settings.role)
    if settings.role == "controller" and _METADATA in listed_apis:
        raise _wrong_endpoint(address, settings.role)


def _wrong_endpoint(address: Address, role: str) -> ConfigError:
    if role == "broker":
        return ConfigError(
            "bootstrap.servers", f"{address} is a controller: use bootstrap.controllers, or --bootstrap-controller"
        )
    return ConfigError("bootstrap.controllers", f"{address} is a broker: use bootstrap.servers, or --bootstrap-server")


def _candidates(settings: Settings, known: BrokerList | None) -> Iterable[Candidate]:
    """Order the nodes to ask. Another cluster may use a bootstrap address now, so no node is expected there."""
    seen: list[Candidate] = []
    if known is not None and known.source == "cluster":
        from random import SystemRandom  # noqa: PLC0415 - a command asks once, and knows no nodes before

        alive = [node for node in known.nodes if not node.is_fenced]
        # Clients with the same broker list must not all ask the same broker first.
        shuffled = SystemRandom().sample(alive, len(alive))
        seen = [Candidate(address_of(node), expected_node(known, node)) for node in shuffled]
    bootstrap = [Candidate(address, None) for address in settings.bootstrap]
    return dict.fromkeys([*seen[:_KNOWN_FIRST], *bootstrap, *seen[_KNOWN_FIRST:]])


def expected_node(broker_list: BrokerList, node: Node) -> ExpectedNode | None:
    """Return the cluster id and node id to expect at a node's address; None where either is unknown."""
    return ExpectedNode(broker_list.cluster_id, node.node_id) if broker_list.cluster_id and node.node_id >= 0 else None


async def _fetch_from(candidate: Candidate, settings: Settings, connect: Connect) -> FetchedBrokerList:
    clock = running_loop().time
    began = clock()
    async with connect(candidate.address, settings, candidate.expected) as (connection, negotiated):
        seconds = clock() - began
        check_role(candidate.address, settings, negotiated)
        await authenticate(connection, settings)
        broker_list = _with_cluster_id(
            await _describe(connection, settings.role), candidate.address, settings.cluster_id
        )
    return FetchedBrokerList(broker_list, candidate.address, candidate.expected, negotiated, seconds, connection.peer)


def _with_cluster_id(broker_list: BrokerList, address: Address, expected: str | None) -> BrokerList:
    """Use the id that the app names where the cluster reports none, and refuse a cluster that reports another."""
    if expected is None or broker_list.cluster_id == expected:
        return broker_list
    if broker_list.cluster_id is None:
        return broker_list._replace(cluster_id=expected)
    raise OtherCluster(address, broker_list.cluster_id, expected)


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
    check_error(response)
    described = _broker_list(response.cluster_id, response.controller_id, response.brokers, registered=with_fenced)
    if role == "controller" or connection.address in map(address_of, described.nodes):
        return described
    try:
        return _as_clients_see(described, await _describe_by_metadata(connection))
    except (NetError, RemoteWireError):
        connection.close()  # an answer may still be on its way
        return described
    except FeatureGateError:
        return described


def _as_clients_see(described: BrokerList, seen: BrokerList) -> BrokerList:
    """Give nodes the addresses of Metadata. A proxy may give nodes other ids, too: then its list counts alone."""
    addresses = {node.node_id: address_of(node) for node in seen.nodes}
    before = {node.node_id: address_of(node) for node in described.nodes}
    if not addresses.keys() <= before.keys():
        return seen._replace(differs="Metadata lists other node ids than DescribeCluster")
    differing = [node_id for node_id, address in addresses.items() if address != before[node_id]]
    if not differing:
        return described
    names = some((f"{before[each]} and {addresses[each]} for node {each}" for each in differing), _SHOWN)
    nodes = (
        replace(node, host=address.host, port=address.port) if (address := addresses.get(node.node_id)) else node
        for node in described.nodes
    )
    return described._replace(nodes=tuple(nodes), differs=f"DescribeCluster and Metadata give {names}")


async def _describe_by_metadata(connection: Connection) -> BrokerList:
    from featuregate.wire.metadata import MetadataRequest  # noqa: PLC0415 - only brokers before 2.8 need it

    response = await connection.request(MetadataRequest())
    check_error(response)
    return _broker_list(response.cluster_id, response.controller_id, response.brokers, registered=False)


def _broker_list(
    cluster_id: str | None, controller_id: int, nodes: tuple[Node, ...], *, registered: bool
) -> BrokerList:
    if not nodes:
        raise broker_error(_BROKER_NOT_AVAILABLE, "the broker list is empty, so the node is probably starting")
    if len(nodes) > MOST_NODES:
        raise RemoteWireError(f"{len(nodes)} nodes are more than a cluster can have", "brokers", 0)
    if not _is_name(cluster_id or ""):
        raise RemoteWireError("not a valid cluster id", "cluster_id", 0)
    for node in nodes:
        if not _is_name(node.host) or " " in node.host:
            raise RemoteWireError(f"node {node.node_id} has no valid host", "brokers.host", 0)
    by_id = {node.node_id: node for node in sorted(nodes, key=lambda node: node.node_id)}
    return BrokerList(
        cluster_id=cluster_id or None,
        controller_id=controller_id if controller_id >= 0 else None,
        nodes=tuple(by_id.values()),
        source="cluster",
        registered=registered,
    )


def _is_name(text: str) -> bool:
    """Refuse text that is too long for the resolver, or that would garble a log or a terminal."""
    return len(text) <= _LONGEST_NAME and text.isprintable()


async def connect_to_node(settings: Settings, broker_list: BrokerList, node: Node) -> Connection:
    """Return a connection that is negotiated and authenticated; the caller closes it.

    Raises `FeatureGateError`: no connection in time, another node or role than expected, no authentication. The
    connection is closed.
    """
    address = address_of(node)
    connection, negotiated = await open_negotiated(address, settings, expected_node(broker_list, node))
    try:
        check_role(address, settings, negotiated)
        await authenticate(connection, settings)
    except BaseException:
        connection.close()
        raise
    return connection


async def authenticate(connection: Connection, settings: Settings) -> None:
    """Authenticate a connection once, where a mechanism is set. Raises as :func:`featuregate.net.sasl.authenticate`."""
    if settings.sasl is not None and not connection.authenticated:
        from featuregate.net import sasl  # noqa: PLC0415 - a tenth of the start of a command, for secured clusters only

        await sasl.authenticate(connection, settings.sasl, settings.request_timeout)
        connection.authenticated = True
