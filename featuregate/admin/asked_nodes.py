"""Ask each node of a cluster on a connection of its own: many at once, and all of them within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from featuregate.errors import FeatureGateError
from featuregate.net.cluster_metadata import connect_to_node

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.net.connection import Connection
    from featuregate.net.probe import BrokerList
    from featuregate.wire.cluster import Node

AT_ONCE: Final = 50
T = TypeVar("T")


async def ask_nodes(
    settings: Settings,
    listed: BrokerList,
    nodes: Iterable[Node],
    ask: Callable[[Node, Connection], Awaitable[T]],
    deadline: float,
) -> list[tuple[Node, T | FeatureGateError | TimeoutError]]:
    """Return what each node answers by the deadline, on the clock of the loop, or why it does not."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(node: Node) -> tuple[Node, T | FeatureGateError | TimeoutError]:
        try:
            async with slots, asyncio.timeout_at(deadline):
                with await connect_to_node(settings, listed, node) as connection:
                    return node, await ask(node, connection)
        except (FeatureGateError, TimeoutError) as error:
            return node, error

    return await asyncio.gather(*map(one, nodes))
