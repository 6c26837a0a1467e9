"""Ask brokers, controllers and topics for ``min.insync.replicas``, with its sources (DescribeConfigs).

It needs DESCRIBE_CONFIGS on the cluster, and on topics. What fails is in the result: it is unknown then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from featuregate.admin.effects import MIN_INSYNC, ConfigValue, InSyncConfigs, raises_elr
from featuregate.errors import FeatureGateError
from featuregate.kafka_errors import NONE, UNKNOWN_SERVER_ERROR, broker_error
from featuregate.net.broker_configs import check_configs
from featuregate.net.cluster_metadata import BrokerList, connect_to_node, fetch_broker_list
from featuregate.net.controller import ask_nodes
from featuregate.printable import shown, some
from featuregate.wire.configs import (
    BROKER,
    TOPIC,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from featuregate.wire.metadata import ListTopicsRequest

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.config import Settings
    from featuregate.net.connection import Connection
    from featuregate.view.cluster_view import View
    from featuregate.wire.cluster import Node

_TOPICS_AT_ONCE: Final = 500
_OF_TOPIC: Final = 1
"""``ConfigSource`` of a value that a topic has itself."""
_Values = dict[int, tuple[ConfigValue, ...]]


async def fetch_what_changes(
    updates: Iterable[Update], view: View, settings: Settings, controllers: Settings | None
) -> InSyncConfigs | None:
    """Read the configs that updates change, too; None where they change none, or nodes have no ids.

    ``view``, ``settings``: the cluster, and how it was reached: by its brokers or its controllers. ``controllers``: how
    to reach the controllers too.
    """
    if not raises_elr(updates, view.finalized) or settings.broker_list == "bootstrap":
        return None
    problems: list[str] = []
    found: dict[str, _Values] = {"broker": {}, "controller": {}}
    topics: dict[str, str | None] = {}
    topics_problem = ""
    for place in (settings, *([] if controllers is None else [controllers])):
        deadline = asyncio.get_running_loop().time() + place.total_timeout
        try:
            listed = (await fetch_broker_list(place, None, deadline)).broker_list
        except FeatureGateError as error:
            problems.append(f"{MIN_INSYNC} of the {place.role}s was not read: {error}")
            continue
        found[place.role] = await _ask_all(place, listed, deadline, problems)
        if place.role == "broker":
            topics, topics_problem = await _topics(place, listed)
    return InSyncConfigs(
        brokers=found["broker"],
        controllers=found["controller"],
        topics=topics,
        problems=tuple(problems),
        topics_problem=topics_problem,
    )


async def _ask_all(settings: Settings, listed: BrokerList, deadline: float, problems: list[str]) -> _Values:
    found: _Values = {}
    for node, values in await ask_nodes(settings, listed, listed.nodes, _of_node, deadline):
        if isinstance(values, tuple):
            found[node.node_id] = values
        elif isinstance(values, TimeoutError):
            problems.append(f"{settings.role} {node.node_id} did not say its {MIN_INSYNC} in time")
        else:
            problems.append(f"{MIN_INSYNC} of {settings.role} {node.node_id} was not read: {values}")
    return found


async def _of_node(node: Node, connection: Connection) -> tuple[ConfigValue, ...]:
    for result in await _describe(connection, BROKER, [str(node.node_id)]):
        check_configs(result)
        if result.resource_name == str(node.node_id) and (values := _values(result)):
            return values
    raise broker_error(UNKNOWN_SERVER_ERROR, f"it names no {MIN_INSYNC}")


async def _topics(settings: Settings, listed: BrokerList) -> tuple[dict[str, str | None], str]:
    """Return each topic's own value, None for none, and which topics are unknown; one broker that is up knows all."""
    node = min(listed.nodes, key=lambda node: node.is_fenced)
    found: dict[str, str | None] = {}
    refused: list[str] = []
    try:
        async with asyncio.timeout(settings.total_timeout):
            with await connect_to_node(settings, listed, node) as connection:
                topics = (await connection.request(ListTopicsRequest())).topics
                names = [topic.name for topic in topics if topic.name and topic.error_code == NONE]
                for at in range(0, len(names), _TOPICS_AT_ONCE):
                    for result in await _describe(connection, TOPIC, names[at : at + _TOPICS_AT_ONCE]):
                        name = shown(result.resource_name)
                        if result.error_code != NONE:
                            refused.append(name)
                            continue
                        own = (value.value for value in _values(result) if value.source == _OF_TOPIC)
                        found[name] = next(own, None)
    except TimeoutError:
        return found, f"the {settings.total_timeout:g} s in total have passed"
    except FeatureGateError as error:
        return found, str(error)
    return found, f"the client may not see {some(refused)}" if refused else ""


async def _describe(connection: Connection, kind: int, names: list[str]) -> tuple[DescribeConfigsResult, ...]:
    resources = tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=(MIN_INSYNC,))
        for name in names
    )
    return (await connection.request(DescribeConfigsRequest(resources=resources, include_synonyms=True))).results


def _values(result: DescribeConfigsResult) -> tuple[ConfigValue, ...]:
    """Return the value that holds, and then those that it hides."""
    for config in result.configs:
        if config.name == MIN_INSYNC:
            values = [(each.value, each.source) for each in config.synonyms] or [(config.value, config.config_source)]
            return tuple(ConfigValue(shown(value or ""), source) for value, source in values)
    return ()
