"""Ask every node of a cluster what it can do, all at the same time, each on a fresh connection.

A node that fails is data: a `ProbeResult` with a failure. Versions hold for one connection (KIP-35): none is kept open.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featuregate.config import Address
from featuregate.errors import DiscoveryError, FeatureGateError, TimedOut
from featuregate.net.cluster_metadata import BrokerList, Found, check_role, find, from_bootstrap, identity_of
from featuregate.net.connection import Connection
from featuregate.net.tls import context_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.config import Settings
    from featuregate.wire.api_versions import ApiVersionsResponse
    from featuregate.wire.cluster import Node
    from featuregate.wire.session import Negotiated

__all__ = ["BrokerList", "ClusterProbe", "ProbeResult", "probe_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What one node said, or why it said nothing: either ``response`` or ``failure`` is None."""

    node_id: int | None
    """None where the broker list is from_bootstrap, which tells no ids."""
    address: Address
    role: str
    response: ApiVersionsResponse | None
    version: int | None
    """Of ApiVersions, that the response came in."""
    failure: FeatureGateError | None
    seconds: float
    """From before connecting to the answer or the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProbe:
    """Who belongs to the cluster, and what each said, in the order of the broker list."""

    broker_list: BrokerList
    heard: tuple[ProbeResult, ...]


async def probe_all(settings: Settings, known: BrokerList | None) -> ClusterProbe:
    """Find every node of the cluster, and ask each.

    ``known`` is the broker list of the last poll; its nodes are the first to be asked for the list of now. The request
    tells nodes that know ApiVersions v5 which node we expect; another node refuses it (error 129).
    ``settings.total_timeout`` bounds it all; whoever has not answered by then has failed, too.

    Raises
    ------
    ConfigError
        Certificates or keys that the settings name cannot be used; nobody was asked.
    DiscoveryError
        Nobody answered, or nobody who answered could tell who belongs to the cluster; with the cause of each.
    """
    if settings.tls is not None:
        context_for(settings.tls)
    deadline = asyncio.get_running_loop().time() + settings.total_timeout
    found = None if settings.broker_list == "bootstrap" else await find(settings, known, deadline)
    broker_list = from_bootstrap(settings) if found is None else found.broker_list
    asking = _Asking(settings, broker_list, deadline)
    heard = await asking.run(found)
    if all(one.failure is not None for one in heard):
        raise DiscoveryError((one.address, one.failure) for one in heard if one.failure is not None)
    return ClusterProbe(broker_list=broker_list, heard=heard)


class _Asking:
    """The nodes of a broker list, asked by a bounded number of workers."""

    def __init__(self, settings: Settings, broker_list: BrokerList, deadline: float) -> None:
        self._settings = settings
        self._broker_list = broker_list
        self._deadline = deadline
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._heard: dict[int, ProbeResult] = {}

    async def run(self, found: Found | None) -> tuple[ProbeResult, ...]:
        """Ask all but the one that named them, whose answer is there already."""
        finder = self._finder(found) if found is not None else None
        if found is not None and finder is not None:
            self._hear(finder, found.seconds, said=found.negotiated)
        to_ask = [node for node in self._broker_list.nodes if node is not finder]
        queue = iter(to_ask)
        workers = [
            asyncio.ensure_future(self._work(queue)) for _ in range(min(self._settings.concurrency, len(to_ask)))
        ]
        try:
            if workers:
                await asyncio.wait(workers, timeout=max(0.0, self._deadline - self._clock()))
        finally:
            for worker in workers:
                worker.cancel()
            results = await asyncio.gather(*workers, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return tuple(self._heard.get(node.node_id) or self._too_late(node) for node in self._broker_list.nodes)

    def _finder(self, found: Found) -> Node | None:
        """Tell which node named the others: one has its address, or nobody knows, as behind a load balancer."""
        there = [node for node in self._broker_list.nodes if found.address == (node.host, node.port)]
        return there[0] if len(there) == 1 else None

    async def _work(self, queue: Iterator[Node]) -> None:
        for node in queue:
            began = self._clock()
            address = Address(node.host, node.port)
            try:
                negotiated = await self._ask(node, address)
            except FeatureGateError as failure:
                self._hear(node, self._clock() - began, failure=failure)
            else:
                self._hear(node, self._clock() - began, said=negotiated)

    async def _ask(self, node: Node, address: Address) -> Negotiated:
        with await Connection.open(address, self._settings, identity_of(self._broker_list, node)) as connection:
            negotiated = await connection.negotiate()
        check_role(address, self._settings, negotiated)
        return negotiated

    def _hear(
        self, node: Node, seconds: float, *, said: Negotiated | None = None, failure: FeatureGateError | None = None
    ) -> ProbeResult:
        heard = ProbeResult(
            node_id=node.node_id if node.node_id >= 0 else None,
            address=Address(node.host, node.port),
            role=self._settings.role,
            response=said.response if said else None,
            version=said.version if said else None,
            failure=failure,
            seconds=seconds,
        )
        self._heard[node.node_id] = heard
        return heard

    def _too_late(self, node: Node) -> ProbeResult:
        problem = f"{self._settings.total_timeout:g} s for all brokers ran out"
        failure = TimedOut(Address(node.host, node.port), "waiting for ApiVersions", problem)
        return self._hear(node, self._clock() - self._began, failure=failure)
