"""Brokers with loggers, whose levels can be read and changed (KIP-412)."""

from collections.abc import Callable
from typing import Any

from scripted import ScriptedCluster, ScriptedNode

from featuregate.wire.configs import (
    AlterConfigsResult,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsResponse,
)

LOGGER = "kafka.request.logger"
RESOURCE_TYPE = 8


class Loggers(ScriptedCluster):
    """Three brokers with loggers. Each knows its own alone, as in Kafka."""

    def __init__(self) -> None:
        super().__init__(3)
        self.logger = LOGGER
        self.levels = dict.fromkeys(self.nodes, "WARN")
        self.changes: list[tuple[int, str]] = []
        self.on_change: Callable[[int], Any] = lambda _: None
        self.says = self.answer

    def answer(self, request: Any, node: ScriptedNode) -> Any:
        (resource,) = request.resources
        assert (resource.resource_type, resource.resource_name) == (RESOURCE_TYPE, str(node.node_id))
        result: dict[str, Any] = {"resource_type": RESOURCE_TYPE, "resource_name": resource.resource_name}
        if isinstance(request, DescribeConfigsRequest):
            assert resource.configuration_keys == (self.logger,)
            config = ConfigEntry(name=self.logger, value=self.levels[node.node_id])
            return DescribeConfigsResponse(results=(DescribeConfigsResult(configs=(config,), **result),))
        (config,) = resource.configs
        assert config.name == self.logger
        self.changes.append((node.node_id, config.value))
        self.levels[node.node_id] = config.value
        special = self.on_change(node.node_id)
        return special or IncrementalAlterConfigsResponse(responses=(AlterConfigsResult(**result),))
