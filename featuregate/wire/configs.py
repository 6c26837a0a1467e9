"""DescribeConfigs (key 32) and IncrementalAlterConfigs (key 44): read and change configs.

KIP-133 defined DescribeConfigs, KIP-339 IncrementalAlterConfigs (2.3), and KIP-412 the levels of a broker's loggers as
configs (2.4). Source: ``DescribeConfigsRequest.json``, ``IncrementalAlterConfigsRequest.json`` and their responses of
Apache Kafka 4.4.0.

DescribeConfigs v0 is not supported: brokers from 1.1 on know v1, and none before 2.4 has loggers as configs.
"""

from typing import Annotated, Final

from featuregate.wire.message import Request, Response
from featuregate.wire.schema import Boolean, Flexible, Int8, Int16, Int32, Versions, structure

BROKER: Final = 4
"""``ResourceType`` of a broker; the name of the resource is its node id."""
TOPIC: Final = 2
"""``ResourceType`` of a topic."""
BROKER_LOGGER: Final = 8
"""``ResourceType`` of the loggers of a broker; the name of the resource is the broker's node id (KIP-412)."""
SET: Final = 0
"""``ConfigOperation`` that sets a value (``AlterConfigOp.OpType``)."""

_UNKNOWN_SOURCE: Final = -1


@structure
class DescribeConfigsResource(Flexible):
    """The resource whose configs are requested."""

    resource_type: Int8
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None
    """The names of configs; None for all of them."""


@structure
class ConfigSynonym(Flexible):
    """Where else a config has a value."""

    name: str
    value: str | None
    source: Int8


@structure
class ConfigEntry(Flexible):
    """One config, and its value."""

    name: str
    value: str | None
    """None where the value is sensitive."""
    read_only: Boolean = False
    config_source: Int8 = _UNKNOWN_SOURCE
    is_sensitive: Boolean = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: Annotated[Int8, Versions(3)] = 0
    documentation: Annotated[str | None, Versions(3)] = None


@structure
class DescribeConfigsResult(Flexible):
    """The configs of one resource, or why there are none."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str
    configs: tuple[ConfigEntry, ...] = ()


@structure
class DescribeConfigsResponse(Response, api=(32, "DescribeConfigs"), versions=(1, 4), flexible_from=4):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


@structure
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Request configs. Those of a broker and of its loggers need DESCRIBE_CONFIGS on the cluster."""

    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: Boolean = False
    include_documentation: Annotated[Boolean, Versions(3, ignorable=False)] = False


@structure
class AlterableConfig(Flexible):
    """The new value of one config."""

    name: str
    config_operation: Int8 = SET
    value: str | None


@structure
class AlterConfigsResource(Flexible):
    """The resource whose configs are changed."""

    resource_type: Int8
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@structure
class AlterConfigsResult(Flexible):
    """The result for one resource: all of its changes, or none."""

    error_code: Int16 = 0
    error_message: str | None = None
    resource_type: Int8
    resource_name: str


@structure
class IncrementalAlterConfigsResponse(Response, api=(44, "IncrementalAlterConfigs"), versions=(0, 1), flexible_from=1):
    """One result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResult, ...] = ()


@structure
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Change configs, and leave the others as they are. Loggers of a broker need ALTER_CONFIGS on the cluster."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: Boolean = False
