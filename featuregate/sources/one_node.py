"""Ask one node alone: what ``describe --node-id`` shows (KIP-1160)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from featuregate.errors import FeatureGateError
from featuregate.net.cluster_metadata import fetch_broker_list
from featuregate.net.probe import probe_node
from featuregate.sources.brokers import broker_answers
from featuregate.view.names import runs

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.sources.source import BrokerAnswers


class NoSuchNode(FeatureGateError):
    """The cluster lists no node of this id. The text lists the ids that it has."""


class OneNodeSource:
    """Asks a broker for the list, and then one node of it.

    The request names the node that we expect (KIP-1242), so that a node that checks this does not answer for another.
    """

    def __init__(self, settings: Settings, node_id: int) -> None:
        self._settings = settings
        self._node_id = node_id

    def __str__(self) -> str:
        return f"node {self._node_id} of {','.join(map(str, self._settings.bootstrap))}"

    @property
    def timeout(self) -> float:
        """Seconds for the list and the node together (``total_timeout``)."""
        return self._settings.total_timeout

    async def fetch(self) -> BrokerAnswers:
        """Ask the node.

        Raises
        ------
        NoSuchNode
            The cluster has no such node.
        FeatureGateError
            No broker sends the broker list, or the node does not answer.
        """
        settings = self._settings
        deadline = asyncio.get_running_loop().time() + settings.total_timeout
        broker_list = (await fetch_broker_list(settings, None, deadline)).broker_list
        node = next((node for node in broker_list.nodes if node.node_id == self._node_id), None)
        if node is None:
            there = runs(node.node_id for node in broker_list.nodes)
            raise NoSuchNode(f"this cluster has no {settings.role} {self._node_id}; its {settings.role}s are: {there}")
        result = await probe_node(settings, broker_list, node)
        if result.failure is not None:
            raise result.failure
        return broker_answers(broker_list, [result], settings.role)
