"""The properties of nodes and clients."""

from pathlib import Path

import pytest

from featuregate.errors import ConfigError, LocalKafkaError
from featuregate.testing.local_kafka.config import (
    ClusterConfig,
    client_properties,
    jaas,
    node_configs,
    node_properties,
    properties_text,
)
from featuregate.testing.local_kafka.releases import recipe_for

SHARED = Path("/cluster")
HOME = SHARED / "node-1"


def config_of(
    version: str, nodes: int = 3, controllers: int = 0, security: str = "PLAINTEXT", **options: object
) -> ClusterConfig:
    """Return the config of a cluster with ports from 1001."""
    recipe = recipe_for(version)
    nodes = node_configs(nodes, controllers, range(1001, 2000), recipe, security)
    return ClusterConfig(nodes=nodes, security=security, users={"alice": "alice-secret"}, **options)


def properties_of(version: str, index: int = 0, **options: object) -> dict[str, str]:
    """Return the properties of one node of such a cluster."""
    config = config_of(version, **options)
    return node_properties(config, config.nodes[index], recipe_for(version), HOME)


def test_in_combined_mode_every_broker_votes():
    config = config_of("4.2.0")
    assert [(node.node_id, node.roles) for node in config.nodes] == [
        (node_id, ("broker", "controller")) for node_id in (1, 2, 3)
    ]


def test_controllers_of_their_own_are_numbered_from_101():
    config = config_of("4.2.0", nodes=2, controllers=3)
    assert [broker.node_id for broker in config.brokers] == [1, 2]
    assert [controller.node_id for controller in config.controllers] == [101, 102, 103]


def test_no_port_is_used_twice():
    nodes = config_of("4.2.0", nodes=3, controllers=2).nodes
    ports = [port for m in nodes for port in (m.client_port, m.internal_port, m.controller_port)]
    assert len(set(ports)) == 15


@pytest.mark.parametrize(("nodes", "controllers"), [(0, 0), (0, 1), (1, -1)])
def test_a_cluster_has_a_broker(nodes, controllers):
    with pytest.raises(ConfigError):
        config_of("4.2.0", nodes=nodes, controllers=controllers)


APART = "CLIENT://127.0.0.1:1001,INTERNAL://127.0.0.1:1002"
PLAIN = {"sasl_mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        # brokers talk to each other apart from clients, whatever the listener of clients has
        (
            "4.2.0",
            {"security": "SASL_SSL", **PLAIN},
            {
                "advertised.listeners": APART,
                "listeners": f"{APART},CONTROLLER://127.0.0.1:1003",
                "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
            },
        ),
        # a controller of its own serves no clients
        (
            "4.2.0",
            {"index": 1, "nodes": 1, "controllers": 1},
            {
                "listeners": "CONTROLLER://127.0.0.1:1006",
                "advertised.listeners": None,
                "controller.quorum.voters": "101@127.0.0.1:1006",
            },
        ),
        # before KIP-103 no two listeners may share a protocol
        ("0.10.0.1", {}, {"listeners": "PLAINTEXT://127.0.0.1:1001", "listener.security.protocol.map": None}),
        (
            "0.10.0.1",
            {"security": "SASL_PLAINTEXT", **PLAIN},
            {"listeners": "SASL_PLAINTEXT://127.0.0.1:1001,PLAINTEXT://127.0.0.1:1002"},
        ),
        # all brokers speak the protocol of the first release, so that one can be rolled
        (
            "2.8.2",
            {"zookeeper_port": 2181, "inter_broker_protocol": "2.4"},
            {
                "inter.broker.protocol.version": "2.4",
                "zookeeper.connect": "127.0.0.1:2181",
                "process.roles": None,
            },
        ),
    ],
)
def test_a_node_has_these_properties(version, options, expected):
    properties = properties_of(version, **options)
    assert {name: properties.get(name) for name in expected} == expected


@pytest.mark.parametrize(("nodes", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_survive_one_broker_where_there_are_three(nodes, replicas, in_sync):
    """They need no more brokers than there are."""
    properties = properties_of("4.2.0", nodes=nodes)
    assert properties["offsets.topic.replication.factor"] == replicas
    assert properties["transaction.state.log.replication.factor"] == replicas
    assert properties["transaction.state.log.min.isr"] == in_sync


@pytest.mark.parametrize(
    ("version", "options", "problem"),
    [
        ("2.8.2", {"security": "SSL"}, "PEM key stores"),
        ("3.3.2", {"security": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}, "users of SCRAM-SHA-256"),
        ("0.10.0.1", {"security": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}, "users of SCRAM-SHA-256"),
        ("1.0.2", {"security": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ("2.4.1", {"controllers": 1}, "nodes that are controllers only"),
    ],
)
def test_an_option_that_a_release_lacks_is_refused_before_the_start(version, options, problem):
    with pytest.raises(LocalKafkaError, match=f"does not support {problem}"):
        config_of(version, **options).check(recipe_for(version))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"security": "TLS"}, "security"),
        ({"security": "SASL_SSL"}, "sasl_mechanism"),
        ({"security": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "sasl_mechanism"),
        ({"client_auth": True}, "client_auth"),
    ],
)
def test_a_wrong_option_is_named(options, key):
    with pytest.raises(ConfigError) as caught:
        config_of("4.2.0", **options).check(recipe_for("4.2.0"))
    assert caught.value.key == key


def test_client_properties_have_files_and_credentials():
    config = config_of("4.2.0", nodes=1, security="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", client_auth=True)
    assert client_properties(config, SHARED) == {
        "bootstrap.servers": "127.0.0.1:1001",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/cluster/ca.pem",
        "ssl.certificate.location": "/cluster/client.crt",
        "ssl.key.location": "/cluster/client.key",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", 'plain.PlainLoginModule required user_alice="alice-secret"'),
        ("SCRAM-SHA-512", "scram.ScramLoginModule required"),
        ("OAUTHBEARER", 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"'),
    ],
)
def test_brokers_know_how_to_check_credentials(mechanism, module):
    """The JAAS file has one login module for the mechanism of the client listener."""
    config = config_of("4.2.0", security="SASL_PLAINTEXT", sasl_mechanism=mechanism)
    assert jaas(config) == f"KafkaServer {{ org.apache.kafka.common.security.{module}; }};\n"


def test_invariant_12_a_config_shows_no_password():
    """The repr may appear in a traceback."""
    assert "alice-secret" not in repr(config_of("4.2.0"))


def test_a_properties_file_escapes_what_would_end_a_line():
    assert properties_text({"a": "b\\c", "d": "e\nf"}) == "a=b\\\\c\nd=e\\nf\n"
