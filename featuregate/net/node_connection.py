"""Connect to one node of a broker list, up to the point where it takes requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.net.cluster_metadata import BrokerList, address_of, check_role, expected_node
from featuregate.net.connections import authenticate, open_negotiated

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.net.connection import Connection
    from featuregate.wire.cluster import Node


async def connect(settings: Settings, broker_list: BrokerList, node: Node) -> Connection:
    """Return a connection that is negotiated and authenticated; the caller closes it.

    Raises
    ------
    FeatureGateError
        No connection in time, another node or role than expected, no authentication. The connection is closed.
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
