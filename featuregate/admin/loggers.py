"""The level of one logger of each broker: read it, and change it while the broker runs (KIP-412).

Each request goes to the broker itself: no other one knows its loggers. To read needs DESCRIBE_CONFIGS on the cluster,
to change ALTER_CONFIGS on the cluster. Brokers have it from 2.4 on. A level is back to that of the broker's
configuration after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from featuregate.config import Settings
from featuregate.errors import FeatureGateError
from featuregate.kafka_errors import UNKNOWN_SERVER_ERROR, broker_error, check_error
from featuregate.loops import run_blocking
from featuregate.net.cluster_metadata import BrokerList, connect_to_node, fetch_broker_list
from featuregate.wire.configs import (
    BROKER_LOGGER,
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.wire.cluster import Node

_LIST_SECONDS: Final = 30.0
"""To get the list of brokers."""
REQUEST_LOGGER: Final = "kafka.request.logger"
"""Logs requests: all of them at DEBUG, from 3.9.1 on the deprecated ones at INFO (KAFKA-18272)."""
LEVELS: Final = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
"""The levels that a broker accepts, from the least to the most (``LogLevelConfig.java``)."""

_INVALID_CONFIG: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogLevel:
    """The level of the logger of one broker, or why it is not known: either ``level`` or ``failure`` is None."""

    broker: int
    """The node id."""
    level: str | None
    failure: FeatureGateError | None = None


class LogLevels:
    """The levels of one logger on each broker of a cluster. It holds no connection.

    Raises `ConfigError`: a property that is used here has a value that cannot be used.

    Parameters
    ----------
    config
        What :class:`featuregate.Discoverer` takes, for brokers (``bootstrap.servers``).
    logger
        The name of the logger.
    """

    def __init__(self, config: Mapping[str, Any] | str | Path, *, logger: str = REQUEST_LOGGER) -> None:
        self._settings = Settings.parse(config, total_timeout=_LIST_SECONDS)
        self._logger = logger
        self._brokers: BrokerList | None = None

    def __repr__(self) -> str:
        return f"<LogLevels of {self._logger} on {', '.join(map(str, self._settings.bootstrap))}>"

    def read(self) -> Iterator[BrokerLogLevel]:
        """Ask one broker after another, in the order of their ids.

        Raises `DiscoveryError`: no broker gave the list of brokers.
        """
        for node in self._nodes():
            yield self._result(node, lambda node=node: self._read(node))

    def change(self, levels: Mapping[int, str]) -> Iterator[BrokerLogLevel]:
        """Give brokers new levels, one broker after another: ``levels`` maps node ids to levels.

        A broker that is not listed any more is left out. Raises as :meth:`read`.
        """
        for node in self._nodes():
            if node.node_id in levels:
                yield self._result(node, lambda node=node: self._change(node, levels[node.node_id]))

    # ------------------------------------------------------------------ how

    def _nodes(self) -> tuple[Node, ...]:
        """Fetch the list of brokers again: one may have restarted at another address."""
        self._brokers = run_blocking(self._fetch)
        return self._brokers.nodes

    async def _fetch(self) -> BrokerList:
        deadline = asyncio.get_running_loop().time() + self._settings.total_timeout
        return (await fetch_broker_list(self._settings, self._brokers, deadline)).broker_list

    def _result(self, node: Node, work: Any) -> BrokerLogLevel:
        try:
            return BrokerLogLevel(broker=node.node_id, level=run_blocking(work))
        except FeatureGateError as failure:
            return BrokerLogLevel(broker=node.node_id, level=None, failure=failure)

    async def _read(self, node: Node) -> str:
        resource = DescribeConfigsResource(
            resource_type=BROKER_LOGGER, resource_name=str(node.node_id), configuration_keys=(self._logger,)
        )
        response = await self._ask(node, DescribeConfigsRequest(resources=(resource,)))
        for result in response.results:
            check_error(result)
            for config in result.configs:
                if config.name == self._logger and config.value in LEVELS:
                    return str(config.value)
        raise broker_error(_INVALID_CONFIG, f"the broker names no level of {self._logger}")

    async def _change(self, node: Node, level: str) -> str:
        resource = AlterConfigsResource(
            resource_type=BROKER_LOGGER,
            resource_name=str(node.node_id),
            configs=(AlterableConfig(name=self._logger, value=level),),
        )
        response = await self._ask(node, IncrementalAlterConfigsRequest(resources=(resource,)))
        if not response.responses:
            raise broker_error(UNKNOWN_SERVER_ERROR, "the broker did not say whether the level was changed")
        for result in response.responses:
            check_error(result)
        return level

    async def _ask(self, node: Node, request: Any) -> Any:
        assert self._brokers is not None, "nodes come from the list"
        with await connect_to_node(self._settings, self._brokers, node) as connection:
            return await connection.request(request)
