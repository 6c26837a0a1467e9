"""The properties of each node of a cluster, and of the clients that reach it. Texts and mappings only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from featuregate.errors import ConfigError, LocalKafkaError
from featuregate.testing.local_kafka.processes import HOST

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.roles import Role
    from featuregate.testing.local_kafka.releases import Recipe

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node: its id, its roles and its ports."""

    node_id: int
    roles: tuple[Role, ...]
    client_port: int
    """The listener for apps, with the requested security."""
    internal_port: int
    """The plaintext listener for other brokers and tools. It may be the client port."""
    controller_port: int

    @property
    def is_broker(self) -> bool:
        """Whether the node serves clients."""
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether the node is a voter of the KRaft quorum."""
        return "controller" in self.roles

    @property
    def probe_port(self) -> int:
        """A plaintext port that answers ApiVersions once the node is ready."""
        return self.internal_port if self.is_broker else self.controller_port


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The configuration of a cluster. Its repr contains no passwords."""

    nodes: tuple[NodeConfig, ...]
    security: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    client_auth: bool = False
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    zookeeper_port: int | None = None
    inter_broker_protocol: str | None = None
    """With ZooKeeper: ``inter.broker.protocol.version``, such as ``2.4``."""
    properties: Mapping[str, object] = field(default_factory=dict, repr=False)
    broker_properties: Mapping[str, object] = field(default_factory=dict, repr=False)
    release_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    log_level: str = "WARN"
    log_levels: Mapping[str, str] = field(default_factory=dict)
    jvm_options: tuple[str, ...] = ()
    start_timeout: float = 120.0

    @property
    def tls(self) -> bool:
        """Whether clients connect with TLS."""
        return self.security.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self.security.startswith("SASL")

    @property
    def scram(self) -> str | None:
        """The SCRAM mechanism of clients, whose users the cluster needs before its first start; None for another."""
        return self.sasl_mechanism if self.sasl and str(self.sasl_mechanism).startswith("SCRAM") else None

    @property
    def brokers(self) -> tuple[NodeConfig, ...]:
        """The nodes that serve clients."""
        return tuple(node for node in self.nodes if node.is_broker)

    @property
    def controllers(self) -> tuple[NodeConfig, ...]:
        """The nodes that are voters; none with ZooKeeper."""
        return tuple(node for node in self.nodes if node.is_controller)

    def check(self, recipe: Recipe) -> None:
        """Raise LocalKafkaError if a release does not support the configuration, ConfigError for an invalid value."""
        if self.security not in PROTOCOLS:
            raise ConfigError("security", f"{self.security!r} is none of {', '.join(PROTOCOLS)}")
        if self.sasl and self.sasl_mechanism not in MECHANISMS:
            raise ConfigError("sasl_mechanism", f"{self.sasl_mechanism!r} is none of {', '.join(MECHANISMS)}")
        if self.client_auth and not self.tls:
            raise ConfigError("client_auth", f"client certificates need SSL or SASL_SSL, not {self.security}")
        lacks = {
            "PEM key stores without a password": self.tls and not recipe.pem,
            f"users of {self.scram} before its first start": self.scram is not None and recipe.scram is None,
            "OAUTHBEARER": self.sasl_mechanism == "OAUTHBEARER" and not recipe.oauthbearer,
            "nodes that are controllers only": bool(self.controllers) and recipe.quorum == "zookeeper",
        }
        for what, lacking in lacks.items():
            if lacking:
                raise LocalKafkaError(f"Kafka {recipe.version} does not support {what}")


def node_configs(
    nodes: int, controllers: int, ports: Iterable[int], recipe: Recipe, security: str
) -> tuple[NodeConfig, ...]:
    """Assign ids, roles and ports: brokers from 1, controllers from 101, three ports for each.

    Without listener names (see `Recipe`), a plaintext client listener serves the other brokers too.
    """
    if nodes < 1 or controllers < 0:
        raise ConfigError(
            "nodes", "a cluster needs at least one broker, and the number of controllers cannot be negative"
        )
    ids, free = [*range(1, nodes + 1), *range(101, 101 + controllers)], iter(ports)
    shared_listener = security == "PLAINTEXT" and not recipe.named_listeners
    combined = recipe.quorum == "kraft" and not controllers
    roles: tuple[Role, ...] = ("broker", "controller") if combined else ("broker",)
    return tuple(
        NodeConfig(
            node_id=node_id,
            roles=("controller",) if node_id > 100 else roles,  # noqa: PLR2004 - numbered above
            client_port=client,
            internal_port=client if shared_listener else internal,
            controller_port=controller,
        )
        for node_id, client, internal, controller in zip(ids, free, free, free, strict=False)
    )


def node_properties(config: ClusterConfig, node: NodeConfig, recipe: Recipe, folder: Path) -> dict[str, str]:
    """Return the properties of one node with its data in ``folder``. Files of the whole cluster are in its parent."""
    properties = {
        "log.dirs": str(folder / "data"),
        **(_kraft(config, node) if config.zookeeper_port is None else _zookeeper(config, node)),
        **_listeners(config, node, named=recipe.named_listeners),
        **_small(len(config.brokers)),
    }
    if node.is_broker:
        properties |= _security(config, folder.parent)
    return properties


def _kraft(config: ClusterConfig, node: NodeConfig) -> dict[str, str]:
    voters = ",".join(f"{voter.node_id}@{HOST}:{voter.controller_port}" for voter in config.controllers)
    return {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
    }


def _zookeeper(config: ClusterConfig, node: NodeConfig) -> dict[str, str]:
    properties = {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{HOST}:{config.zookeeper_port}",
        "zookeeper.connection.timeout.ms": "60000",
    }
    if config.inter_broker_protocol:
        properties["inter.broker.protocol.version"] = config.inter_broker_protocol
    return properties


def _listeners(config: ClusterConfig, node: NodeConfig, *, named: bool) -> dict[str, str]:
    if not named:
        listeners = f"{config.security}://{HOST}:{node.client_port}"
        if node.internal_port != node.client_port:
            listeners += f",PLAINTEXT://{HOST}:{node.internal_port}"
        return {"listeners": listeners, "security.inter.broker.protocol": "PLAINTEXT"}
    own = {}
    if node.is_broker:
        own = {"CLIENT": node.client_port, "INTERNAL": node.internal_port}
    advertised = _uris(own)
    if node.is_controller:
        own["CONTROLLER"] = node.controller_port
    protocols = {"CLIENT": config.security, "INTERNAL": "PLAINTEXT"}
    if config.controllers:
        protocols["CONTROLLER"] = "PLAINTEXT"
    properties = {
        "listeners": _uris(own),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
    }
    if node.is_broker:
        properties |= {"advertised.listeners": advertised, "inter.broker.listener.name": "INTERNAL"}
    return properties


def _uris(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items())


def _small(brokers: int) -> dict[str, str]:
    """Few threads and partitions and small buffers, so that many nodes fit on a small machine and start soon."""
    replicas = str(min(3, brokers))
    in_sync = "2" if brokers >= 3 else "1"  # noqa: PLR2004 - one of three may be away
    return {
        "num.network.threads": "1",
        "num.io.threads": "2",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "group.coordinator.threads": "1",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _security(config: ClusterConfig, shared: Path) -> dict[str, str]:
    properties: dict[str, str] = {}
    if config.tls:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(shared / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(shared / "ca.pem"),
            "ssl.client.auth": "required" if config.client_auth else "none",
        }
    if config.sasl:
        properties["sasl.enabled.mechanisms"] = str(config.sasl_mechanism)
    return properties


def jaas(config: ClusterConfig) -> str:
    """Return the JAAS file of the brokers, for the mechanism of the client listener. Every release reads one."""
    module, options = "plain.PlainLoginModule", [f'user_{name}="{password}"' for name, password in config.users.items()]
    if config.sasl_mechanism == "OAUTHBEARER":
        # Without a validator, brokers accept unsecured tokens (KIP-255): for tests only.
        module, options = "oauthbearer.OAuthBearerLoginModule", ['unsecuredLoginStringClaim_sub="broker"']
    elif config.sasl_mechanism != "PLAIN":
        module, options = "scram.ScramLoginModule", []
    words = " ".join([f"org.apache.kafka.common.security.{module} required", *options])
    return f"KafkaServer {{ {words}; }};\n"


def client_properties(config: ClusterConfig, shared: Path) -> dict[str, str]:
    """Return the properties with which confluent-kafka reaches the client listeners, as the first user."""
    properties = {
        "bootstrap.servers": ",".join(f"{HOST}:{broker.client_port}" for broker in config.brokers),
        "security.protocol": config.security,
    }
    if config.tls:
        properties["ssl.ca.location"] = str(shared / "ca.pem")
    if config.client_auth:
        properties["ssl.certificate.location"] = str(shared / "client.crt")
        properties["ssl.key.location"] = str(shared / "client.key")
    if config.sasl:
        name, password = next(iter(config.users.items()))
        properties["sasl.mechanism"] = str(config.sasl_mechanism)
        if config.sasl_mechanism == "OAUTHBEARER":
            properties["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
            properties["sasl.oauthbearer.config"] = f"principal={name}"
        else:
            properties["sasl.username"] = name
            properties["sasl.password"] = password
    return properties


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file, with backslashes and line breaks in values escaped."""
    escaped = ((key, value.replace("\\", "\\\\").replace("\n", "\\n")) for key, value in properties.items())
    return "".join(f"{key}={value}\n" for key, value in escaped)
