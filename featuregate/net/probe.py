"""Send ApiVersions to every node of a cluster, concurrently.

A node that fails is data: a `ProbeResult` with a failure.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.budgets import MOST_POLL_ELEMENTS
from featuregate.config import Address, Settings
from featuregate.errors import DiscoveryError, FeatureGateError, RemoteWireError, SharedAddress, TimedOut
from featuregate.loops.short_loop import running_loop
from featuregate.net.broker_configs import ConfigAnswer, fetch_configs
from featuregate.net.cluster_metadata import (
    BrokerList,
    FetchedBrokerList,
    address_of,
    bootstrap_broker_list,
    check_role,
    expected_node,
    fetch_broker_list,
)
from featuregate.net.connection import Connect, new_connection
from featuregate.printable import some
from featuregate.values import replace
from featuregate.wire.api_versions import IDENTITY_FROM, ApiVersionsResponse

if TYPE_CHECKING:
    from featuregate.wire.cluster import Node
    from featuregate.wire.session import Negotiated

NO_CONFIGS: Final[Mapping[str, ConfigAnswer]] = MappingProxyType({})


class ProbeResult(NamedTuple):
    """The answer or the failure of one node: either ``response`` or ``failure`` is None."""

    node_id: int | None
    """None where the broker list is the bootstrap list, which has no ids."""
    address: Address
    role: str
    response: ApiVersionsResponse | None
    version: int | None
    """Version of ApiVersions in which the response came."""
    failure: FeatureGateError | None
    seconds: float
    """Time from before connecting to the answer or the failure."""
    peer: tuple[str, int] | None = None
    """Where the connection ended, after name resolution; None where there was no answer."""
    configs: Mapping[str, ConfigAnswer] = NO_CONFIGS
    """The configs for which the node was asked."""


class ClusterProbe(NamedTuple):
    """The broker list of a cluster, and one result for each node, in the order of that list."""

    broker_list: BrokerList
    results: tuple[ProbeResult, ...]


class _Asking(NamedTuple):
    """What all answers of one probe share."""

    pool: AnswerPool
    configs: Collection[str] = ()


async def probe_all(
    settings: Settings, known: BrokerList | None, connect: Connect = new_connection, configs: Collection[str] = ()
) -> ClusterProbe:
    """Fetch the broker list, and send ApiVersions to each node in it.

    ``known`` is the broker list of the last poll; its nodes are the first to be asked for the current list. Nodes that
    know ApiVersions v5 get the id of the node that the client expects; another node refuses the request (error 129).
    The answer of any other node counts as a failure where several nodes have its address. Each broker is also asked for
    the values of ``configs``, if there are any. ``settings.total_timeout`` limits the whole call; a node that has not
    answered by then has failed. Raises `ConfigError`: certificates or keys that the settings name cannot be used;
    nothing was sent. Raises `DiscoveryError`: no node answered, or no node that answered gave the broker list; with the
    cause of each.
    """
    if settings.tls is not None:
        from featuregate.net.tls import context_for  # noqa: PLC0415 - only TLS waits for it

        context_for(settings.tls)
    loop = running_loop()
    clock = loop.time
    deadline = clock() + settings.total_timeout
    fetched = (
        None if settings.broker_list == "bootstrap" else await fetch_broker_list(settings, known, deadline, connect)
    )
    broker_list = bootstrap_broker_list(settings) if fetched is None else fetched.broker_list
    began = clock()
    asking = _Asking(AnswerPool(), configs)
    results: dict[int, ProbeResult] = {}
    if fetched is not None and not configs and (source := _source_node(fetched)) is not None:
        response = asking.pool.shared(fetched.negotiated.response)
        negotiated = replace(fetched.negotiated, response=response)
        results[source.node_id] = _result(settings, source, negotiated, fetched.seconds, fetched.peer)
    queue = iter([node for node in broker_list.nodes if node.node_id not in results])

    async def probe_from_queue() -> None:
        for node in queue:
            if clock() >= deadline:  # the timer below comes only when the loop is idle for a moment
                return
            await _probe(settings, broker_list, node, connect, results, asking)

    workers = min(settings.concurrency, len(broker_list.nodes))
    await loop.together((probe_from_queue() for _ in range(workers)), deadline)
    for node in broker_list.nodes:
        if node.node_id not in results:
            problem = f"the {settings.total_timeout:g} s for all brokers have passed"
            failure = TimedOut(address_of(node), "waiting for ApiVersions", problem)
            results[node.node_id] = _result(settings, node, failure, clock() - began)
    failed = [results[node.node_id] for node in broker_list.nodes if results[node.node_id].failure is not None]
    if len(failed) == len(results):
        causes = [(result.address, result.failure) for result in failed if result.failure is not None]
        raise DiscoveryError(causes, None if fetched is None else str(fetched.address))
    proven = without_shared(settings, broker_list, results)
    return ClusterProbe(broker_list, tuple(proven[node.node_id] for node in broker_list.nodes))


async def _probe(
    settings: Settings,
    broker_list: BrokerList,
    node: Node,
    connect: Connect,
    results: dict[int, ProbeResult],
    asking: _Asking,
) -> None:
    """Send ApiVersions to one node, and put its answer or its failure into ``results`` at once.

    A connection that is kept is authenticated after the answer: if the time for all brokers ends meanwhile, the answer
    counts.
    """
    clock = running_loop().time
    began = clock()
    address = address_of(node)
    try:
        async with connect(address, settings, expected_node(broker_list, node)) as (connection, answered):
            check_role(address, settings, answered)
            negotiated = replace(answered, response=asking.pool.shared(answered.response))
            results[node.node_id] = result = _result(settings, node, negotiated, clock() - began, connection.peer)
            if asking.configs and settings.role == "broker":
                found = await fetch_configs(connection, settings, node.node_id, asking.configs)
                results[node.node_id] = result._replace(configs=found)
    except FeatureGateError as failure:
        results[node.node_id] = _result(settings, node, failure, clock() - began)


def _source_node(fetched: FetchedBrokerList) -> Node | None:
    """Return the node that gave the broker list, so that it is not asked twice.

    None where no single node has its address, for example behind a load balancer. None also where the node can compare
    its id with the expected one (KIP-1242), and the request did not name it: a balancer may have the address of a node.
    """
    candidates = [node for node in fetched.broker_list.nodes if fetched.address == (node.host, node.port)]
    if len(candidates) != 1:
        return None
    named = fetched.expected == expected_node(fetched.broker_list, candidates[0])
    return candidates[0] if named or fetched.negotiated.version < IDENTITY_FROM else None


def _result(
    settings: Settings,
    node: Node,
    outcome: Negotiated | FeatureGateError,
    seconds: float,
    peer: tuple[str, int] | None = None,
) -> ProbeResult:
    failure = outcome if isinstance(outcome, FeatureGateError) else None
    negotiated = None if isinstance(outcome, FeatureGateError) else outcome
    return ProbeResult(
        node_id=node.node_id if node.node_id >= 0 else None,
        address=address_of(node),
        role=settings.role,
        response=negotiated.response if negotiated else None,
        version=negotiated.version if negotiated else None,
        failure=failure,
        seconds=seconds,
        peer=peer,
    )


class AnswerPool:
    """Takes the answers of one poll: those that are alike share their content, and all together have a budget."""

    def __init__(self, most: int = MOST_POLL_ELEMENTS) -> None:
        self._most = self._left = most
        self._known: dict[Hashable, Mapping[Any, Any]] = {}

    def shared(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        """Return the answer with the objects of equal answers before it.

        Raises `RemoteWireError`: the answers of this poll that are not alike have more API ranges and features than its
        budget.
        """
        api_ranges, supported, finalized = (
            self._known.get(key := frozenset(content.items())) or self._new(key, content)
            for content in (response.api_ranges, response.supported, response.finalized)
        )
        return replace(response, api_ranges=api_ranges, supported=supported, finalized=finalized)

    def _new(self, key: Hashable, content: Mapping[Any, Any]) -> Mapping[Any, Any]:
        if len(content) > self._left:
            problem = f"more than the {self._most} API ranges and features that are believed of one poll"
            raise RemoteWireError(problem, "ApiVersions response", 0)
        self._left -= len(content)
        self._known[key] = content
        return content


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
    where = f"the address {result.address}"
    if len({address_of(node) for node in nodes}) > 1 and result.peer is not None:
        where = f"one address, {Address(*result.peer)}"
    problem = (
        f"{settings.role}s {some(names, _SHOWN)} share {where}, and an answer in ApiVersions "
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
    if ":" in host:  # without IDNA: it takes 7 ms for the worst name, and a broker may list 5,000
        from ipaddress import IPv6Address  # noqa: PLC0415 - most addresses are names

        with suppress(ValueError):
            literal = IPv6Address(host)
            host = str(literal.ipv4_mapped or literal)
    return host, address.port
