"""DescribeAcls (key 29): who may do what on which resource. It needs DESCRIBE on the cluster.

Source: ``DescribeAclsRequest.json`` and ``DescribeAclsResponse.json`` of Apache Kafka 4.4.0. v0, of brokers before 2.0,
is not supported.
"""

from typing import Final

from featuregate.wire.message import Request, Response
from featuregate.wire.schema import Flexible, Int8, Int16, Int32, structure

_ANY: Final = 1
"""The value of ``ResourceType``, ``PatternType``, ``AclOperation`` and ``AclPermissionType`` that matches all."""


@structure
class AclDescription(Flexible):
    """What one principal may do, or must not."""

    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@structure
class DescribeAclsResource(Flexible):
    """The ACLs of one resource."""

    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    acls: tuple[AclDescription, ...]


@structure
class DescribeAclsResponse(Response, api=(29, "DescribeAcls"), versions=(1, 3), flexible_from=2):
    """The ACLs of the cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    resources: tuple[DescribeAclsResource, ...] = ()


@structure
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """Request all ACLs, or those that are so."""

    resource_type_filter: Int8 = _ANY
    resource_name_filter: str | None = None
    pattern_type_filter: Int8 = _ANY
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: Int8 = _ANY
    permission_type: Int8 = _ANY
