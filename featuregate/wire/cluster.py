"""DescribeCluster (key 60, KIP-700): the nodes of a cluster.

It came with 2.8, learned to describe controllers in v1 (KIP-919) and fenced brokers in v2 (KIP-1073). Source:
``DescribeClusterRequest.json`` and its response of Apache Kafka 4.4.0. The request asks for no authorized operations.
"""

from typing import Annotated, Final

from featuregate.wire.message import Request, Response
from featuregate.wire.schema import Boolean, Flexible, Int8, Int16, Int32, Versions, structure

BROKERS: Final = 1
"""``EndpointType`` of brokers."""
CONTROLLERS: Final = 2
"""``EndpointType`` of controllers."""

NOT_ASKED: Final = -(2**31)
"""Value for authorized operations that were not requested; Metadata of 2.4 has 0."""


@structure
class Node(Flexible):
    """One broker or controller, and where it listens."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: Annotated[Boolean, Versions(2)] = False
    """Registered but not in use; only in DescribeCluster v2."""


@structure
class DescribeClusterResponse(Response, api=(60, "DescribeCluster"), versions=(0, 2), flexible_from=0):
    """The brokers or the controllers of a cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    """114 (MISMATCHED_ENDPOINT_TYPE): the request was for controllers and reached a broker, or the reverse."""
    error_message: str | None = None
    endpoint_type: Annotated[Int8, Versions(1, ignorable=False)] = BROKERS
    cluster_id: str = ""
    controller_id: Int32 = -1
    """From a controller: the leader. From a broker: any live broker."""
    brokers: tuple[Node, ...] = ()
    """The nodes; controllers where the request was for them."""
    cluster_authorized_operations: Int32 = NOT_ASKED


@structure
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Request the brokers or the controllers of a cluster."""

    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Annotated[Int8, Versions(1, ignorable=False)] = BROKERS
    """`BROKERS` or `CONTROLLERS`; older versions describe brokers only."""
    include_fenced_brokers: Annotated[Boolean, Versions(2, ignorable=False)] = False
    """Whether to include registered brokers that are not in use; older versions leave them out."""
