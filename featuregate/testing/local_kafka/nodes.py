"""The nodes of one cluster: format, start, watch and stop their processes."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from featuregate.errors import LocalKafkaError
from featuregate.polling.discovery import discover
from featuregate.testing.cluster_ids import random_cluster_id
from featuregate.testing.local_kafka.commands import Installation, format_arguments, write_logging
from featuregate.testing.local_kafka.config import ClusterConfig, NodeConfig, jaas, node_properties, properties_text
from featuregate.testing.local_kafka.probe import membership, serves
from featuregate.testing.local_kafka.processes import HOST, ChildProcess, ProcessGroup, ProcessState, wait_until
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.testing.local_kafka.zookeeper import ZooKeeperProcess
from featuregate.version import how_to_install

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.roles import Role

STORAGE_TOOL = "kafka.tools.StorageTool"

STOP_TIMEOUT = 30.0
"""Seconds that a node has to stop by itself. Without a quorum it would wait much longer."""

TOOL_TIMEOUT = 120.0
"""Seconds that a tool of Kafka may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One node at this moment."""

    node_id: int
    roles: tuple[Role, ...]
    version: str
    """The release of its current or next process."""
    host: str
    port: int
    """The listener for clients; that of a controller for a node without one."""
    internal_port: int
    """The plaintext listener for other brokers and tools."""
    controller_port: int | None
    """The listener of the controller; None for other nodes."""
    pid: int | None
    """None before its first start."""
    state: ProcessState
    """``exited`` if the process ended by itself."""
    log: Path
    """The log of all its starts."""


class KafkaNode:
    """One node: its configuration and its current process, with its files in the folder of the cluster."""

    def __init__(self, config: NodeConfig, version: str, folder: Path) -> None:
        self.config = config
        self.version = version
        self.child: ChildProcess | None = None
        self.home = folder / f"node-{config.node_id}"
        """The folder of its properties and its data."""
        self.log = folder / f"{self.home.name}.log"
        """Holds all its starts."""

    @property
    def state(self) -> ProcessState:
        """The state of the process."""
        return self.child.state if self.child else "stopped"

    @property
    def info(self) -> NodeInfo:
        """The node at this moment."""
        config = self.config
        return NodeInfo(
            node_id=config.node_id,
            roles=config.roles,
            version=self.version,
            host=HOST,
            port=config.client_port if config.is_broker else config.controller_port,
            internal_port=config.probe_port,
            controller_port=config.controller_port if config.is_controller else None,
            pid=self.child.pid if self.child else None,
            state=self.state,
            log=self.log,
        )


class KafkaNodes:
    """The nodes of one cluster, with a folder and a group of processes that live until ``close()``."""

    def __init__(self, config: ClusterConfig, version: str) -> None:
        self.config = config
        self._processes = ProcessGroup("kafka")
        self.by_id = {node.node_id: KafkaNode(node, version, self.folder) for node in config.nodes}
        self._zookeeper: ZooKeeperProcess | None = None
        if config.zookeeper_port is not None:
            self._zookeeper = ZooKeeperProcess(config.zookeeper_port, self._processes)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        write_logging(self.folder, self.config.log_level, self.config.log_levels)
        if self.config.tls:
            issue_certificates(self.folder)
        if self.config.sasl:
            self._jaas.touch(0o600)
            self._jaas.write_text(jaas(self.config))

    @property
    def folder(self) -> Path:
        """The folder of the cluster."""
        return self._processes.folder

    @property
    def _jaas(self) -> Path:
        return self.folder / "jaas.conf"

    def close(self) -> None:
        """Kill all processes and delete the folder. A second call does nothing."""
        self._processes.close()

    # ------------------------------------------------------------ start

    def create(self) -> str | None:
        """Start a new cluster on nodes without data. Return its id; None for releases without one."""
        cluster_id = None
        if self._zookeeper is not None:
            self._zookeeper.start()
            self._add_scram_users(self._zookeeper)
        else:
            cluster_id = random_cluster_id()
            for formatted in [self._format(node, cluster_id) for node in self.by_id.values()]:
                formatted()
        for node in self.by_id.values():
            self.launch(node)
        self.wait_until_ready()
        return cluster_id or self._fetch_cluster_id()  # with ZooKeeper, the first broker has chosen it

    def delete(self) -> None:
        """Kill all processes of the cluster, and delete its data."""
        for node in self.by_id.values():
            if node.child:
                node.child.kill()
            shutil.rmtree(node.home, ignore_errors=True)
        if self._zookeeper is not None:
            self._zookeeper.delete()

    def _add_scram_users(self, zookeeper: ZooKeeperProcess) -> None:
        if (mechanism := self.config.scram) is None:
            return
        version = next(iter(self.by_id.values())).version
        for name, password in self.config.users.items():
            where = ("--zookeeper", zookeeper.address, "--entity-type", "users", "--entity-name", name)
            what = ("--alter", "--add-config", f"{mechanism}=[password={password}]")
            done = self.run_tool(version, "kafka.admin.ConfigCommand", (*where, *what))
            if done.returncode != 0:
                raise LocalKafkaError(f"the {mechanism} user {name} was not added", done.stdout + done.stderr)

    def _format(self, node: KafkaNode, cluster_id: str) -> Callable[[], None]:
        """Start to format the storage of one KRaft node. The returned function waits for the end."""
        installed = Installation.of(node.version, self.folder)
        arguments = format_arguments(self.config, self._write_properties(node, installed), cluster_id)
        log = self.folder / f"{node.home.name}-format.log"
        child = self._processes.start(installed.tool(STORAGE_TOOL, arguments), log=log)

        def finish() -> None:
            if not child.wait(TOOL_TIMEOUT) or child.exit_code != 0:
                raise LocalKafkaError(f"the storage of Kafka {node.version} was not formatted", child.last_lines(50))

        return finish

    def launch(self, node: KafkaNode) -> None:
        """Start one node without waiting for it."""
        if node.state in ("running", "paused"):
            raise LocalKafkaError(f"node {node.config.node_id} is running already")
        installed = Installation.of(node.version, self.folder)
        properties = self._write_properties(node, installed)
        if self._zookeeper is not None:
            self._zookeeper.wait_for_session_end(node.config.node_id)
        command = installed.broker(properties, self._jaas if self.config.sasl else None, self.config.jvm_options)
        node.child = self._processes.start(command, log=node.log)

    def _fetch_cluster_id(self) -> str | None:
        """Ask the first broker for the cluster id; None for releases without one (before KIP-78)."""
        first = self.config.brokers[0]
        known = recipe_for(self.by_id[first.node_id].version).cluster_id
        return discover(f"{HOST}:{first.internal_port}").cluster_id if known else None

    def _write_properties(self, node: KafkaNode, installed: Installation) -> Path:
        node.home.mkdir(exist_ok=True)
        properties = node_properties(self.config, node.config, installed.recipe, node.home)
        given = {**self.config.properties, **(self.config.broker_properties if node.config.is_broker else {})}
        properties |= {key: str(value) for key, value in given.items()}
        path = node.home / "server.properties"
        path.write_text(properties_text(properties))
        return path

    # ------------------------------------------------------------ wait

    def wait_until_ready(self) -> None:
        """Wait until all running nodes serve, and every running broker sees all brokers up and in sync.

        Raises `LocalKafkaError` with the end of a node's log if a node ends, or if the wait takes too long.
        """
        running = [node for node in self.by_id.values() if node.state == "running"]
        watched = {f"node {node.config.node_id}": node.child for node in running if node.child}
        tls = self._client_tls() if self.config.tls else None
        for node in running:
            what = f"node {node.config.node_id} (Kafka {node.version}) serves"
            wait_until(partial(_serves, node.config, tls), what, watched, timeout=self.config.start_timeout)
        brokers = [node.config for node in running if node.config.is_broker]
        ids = frozenset(broker.node_id for broker in brokers)
        for broker in brokers:
            what = f"broker {broker.node_id} sees brokers {sorted(ids)} up and in sync"
            wait_until(partial(_sees, broker, ids), what, watched, timeout=self.config.start_timeout)

    def _client_tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if self.config.client_auth:
            context.load_cert_chain(self.folder / "client.crt", self.folder / "client.key")
        return context

    # ------------------------------------------------------------ stop, and tools

    def stop(self, nodes: Iterable[KafkaNode]) -> None:
        """Stop nodes with SIGTERM at the same time. A node that runs after `STOP_TIMEOUT` is killed."""
        ending = [node.child for node in nodes if node.state in ("running", "paused") and node.child]
        for child in ending:
            child.terminate()
        until = time.monotonic() + STOP_TIMEOUT
        for child in ending:
            if not child.wait(max(0.0, until - time.monotonic())):
                child.kill()

    def run_tool(self, version: str, main_class: str, arguments: Collection[str]) -> subprocess.CompletedProcess[str]:
        """Run a tool of Kafka to its end. The caller checks the exit code."""
        command = Installation.of(version, self.folder).tool(main_class, arguments)
        try:
            return self._processes.run(command, timeout=TOOL_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise LocalKafkaError(f"{main_class} did not end within {TOOL_TIMEOUT:.0f} s") from None


def _serves(node: NodeConfig, tls: ssl.SSLContext | None) -> bool:
    if not serves(HOST, node.probe_port):
        return False
    return not node.is_broker or serves(HOST, node.client_port, tls)


def _sees(broker: NodeConfig, ids: frozenset[int]) -> bool:
    seen = membership(HOST, broker.internal_port)
    return seen is not None and ids <= seen.brokers and not ids & seen.lagging


NAMES = ("localhost", "127.0.0.1")


def issue_certificates(folder: Path) -> None:
    """Write ``ca.pem``, ``broker.pem`` (key and certificate), ``client.crt`` and ``client.key`` into a folder.

    The brokers' certificate is for localhost and 127.0.0.1. Raises ImportError where the extra ``testing`` is not
    installed.
    """
    try:
        import trustme  # noqa: PLC0415 - an extra, needed only for TLS
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - comes with trustme
    except ImportError as error:
        raise ImportError(f"TLS listeners need trustme: {how_to_install('testing')}") from error

    def pkcs8(certificate: trustme.LeafCert) -> bytes:
        """Kafka reads private keys in PKCS 8 alone (KIP-651); trustme writes the older form."""
        key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    authority = trustme.CA()
    broker, client = authority.issue_cert(*NAMES), authority.issue_cert("client.featuregate.test", common_name="client")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    contents = {
        "broker.pem": pkcs8(broker) + b"".join(blob.bytes() for blob in broker.cert_chain_pems),
        "client.crt": b"".join(blob.bytes() for blob in client.cert_chain_pems),
        "client.key": pkcs8(client),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
