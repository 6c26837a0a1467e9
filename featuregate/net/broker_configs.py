"""Ask one broker for the values of some of its configs (DescribeConfigs), after it has answered ApiVersions.

It needs DESCRIBE_CONFIGS on the cluster. A broker answers for itself only, and refuses the id of another one. What
fails here does not make the broker silent: the values are unknown, and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.errors import FeatureGateError, NetError, RemoteWireError
from featuregate.kafka_errors import broker_error, check_error
from featuregate.net.cluster_metadata import authenticate

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.net.connection import Connection
    from featuregate.wire.configs import DescribeConfigsResult


class ConfigAnswer(NamedTuple):
    """The value of one config; or None, and why there is none."""

    value: str | None
    problem: str = ""
    exists: bool = True


_CLUSTER_AUTHORIZATION_FAILED: Final = 31
_LONGEST_VALUE: Final = 1000
"""Characters."""


async def fetch_configs(
    connection: Connection, settings: Settings, node_id: int, names: Collection[str]
) -> Mapping[str, ConfigAnswer]:
    """Return the value of each of these configs, or why it is unknown. Never raises a `FeatureGateError`."""
    if node_id < 0:
        problem = "a bootstrap list has no node ids, and only a broker's id names its configs"
        return dict.fromkeys(names, ConfigAnswer(None, problem))
    try:
        await authenticate(connection, settings)
        return await _ask(connection, node_id, names)
    except (NetError, RemoteWireError) as error:
        connection.close()
        problem = str(error)
    except FeatureGateError as error:
        problem = str(error)
    return dict.fromkeys(names, ConfigAnswer(None, problem))


async def _ask(connection: Connection, node_id: int, names: Collection[str]) -> Mapping[str, ConfigAnswer]:
    from featuregate.wire.configs import (  # noqa: PLC0415 - most gates need no config
        BROKER,
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(node_id), configuration_keys=tuple(sorted(names))
    )
    response = await connection.request(DescribeConfigsRequest(resources=(resource,)))
    for result in response.results:
        check_configs(result)
    own = [result for result in response.results if result.resource_name == str(node_id)]
    if not own:
        raise RemoteWireError(f"no result for broker {node_id}", "DescribeConfigs response: results", 0)
    answers = dict.fromkeys(names, ConfigAnswer(None, "this broker has no such config", exists=False))
    for result in own:
        answers |= {config.name: _value(config.value) for config in result.configs if config.name in answers}
    return answers


def check_configs(result: DescribeConfigsResult) -> None:
    """Raise what a broker answered in place of configs."""
    if result.error_code == _CLUSTER_AUTHORIZATION_FAILED:
        raise broker_error(result.error_code, "grant DESCRIBE_CONFIGS on the cluster")
    check_error(result)


def _value(value: str | None) -> ConfigAnswer:
    if value is None:
        return ConfigAnswer(None, "the broker does not show its value")
    if len(value) > _LONGEST_VALUE or not value.isprintable():
        return ConfigAnswer(None, f"its value is longer than {_LONGEST_VALUE} characters, or cannot be printed")
    return ConfigAnswer(value)
