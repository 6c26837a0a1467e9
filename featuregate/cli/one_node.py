"""One node's own answer, and no other's: what ``describe --node-id`` shows (KIP-1160)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate.cli.exit_codes import CommandError
from featuregate.cli.tables import runs
from featuregate.config import Address
from featuregate.net.cluster_metadata import check_role, find, identity_of
from featuregate.net.connection import Connection
from featuregate.net.probe import ProbeResult
from featuregate.sources.brokers import broker_answer
from featuregate.view.cluster_view import merge

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.view.cluster_view import View

__all__ = ["NoSuchNode", "view_of_node"]


class NoSuchNode(CommandError):
    """The cluster lists no node of this id."""


def view_of_node(settings: Settings, node_id: int) -> View:
    """Ask the node of this id, and merge its answer with nobody's.

    Brokers that can check it are told whom we expect (KIP-1242), so that none answers in another's place.

    Raises
    ------
    NoSuchNode
        The cluster has no such node.
    FeatureGateError
        Nobody says where the node is, or it does not answer.
    """
    return asyncio.run(_ask(settings, node_id))


async def _ask(settings: Settings, node_id: int) -> View:
    broker_list = (await find(settings, None, asyncio.get_running_loop().time() + settings.total_timeout)).broker_list
    node = next((node for node in broker_list.nodes if node.node_id == node_id), None)
    if node is None:
        there = runs(node.node_id for node in broker_list.nodes)
        raise NoSuchNode(f"this cluster has no {settings.role} {node_id}; its {settings.role}s are: {there}")
    address = Address(node.host, node.port)
    with await Connection.open(address, settings, identity_of(broker_list, node)) as connection:
        negotiated = await connection.negotiate()
    check_role(address, settings, negotiated)
    at = datetime.now(UTC).timestamp()
    heard = ProbeResult(
        node_id=node_id,
        address=address,
        role=settings.role,
        response=negotiated.response,
        version=negotiated.version,
        failure=None,
        seconds=0.0,
    )
    return merge(
        [broker_answer(heard, answered_at=at)],
        cluster_id=broker_list.cluster_id,
        controller_id=broker_list.controller_id,
        role=settings.role,
        seen_at=at,
    )
