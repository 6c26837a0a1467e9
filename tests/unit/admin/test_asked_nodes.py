"""All nodes of a cluster are asked within one deadline."""

import asyncio

from featuregate.config import Settings
from featuregate.net.cluster_metadata import fetch_broker_list
from featuregate.net.connection import Connection
from featuregate.net.controller import AT_ONCE, ask_nodes
from featuregate.testing import FakeCluster
from featuregate.wire.cluster import Node


def test_invariant_14_nodes_that_hang_cost_one_deadline_together() -> None:
    """A node that waits for its turn until then is not asked: each having a bound of its own, they would add up."""
    asked: list[int] = []

    async def hang(node: Node, _: Connection) -> None:
        asked.append(node.node_id)
        await asyncio.Event().wait()

    async def look(bootstrap: str) -> list[object]:
        settings = Settings.parse(bootstrap)
        now = asyncio.get_running_loop().time
        listed = (await fetch_broker_list(settings, None, now() + settings.total_timeout)).broker_list
        answers = await ask_nodes(settings, listed, listed.nodes, hang, now() + 2)
        return [answer for _, answer in answers]

    with FakeCluster(brokers=AT_ONCE + 3) as cluster:
        answers = asyncio.run(look(cluster.bootstrap))
    assert [type(answer) for answer in answers] == [TimeoutError] * (AT_ONCE + 3)
    assert len(asked) == AT_ONCE
