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
    """Without controllers, every broker is one."""
    config = config_of("4.2.0")
    assert [(node.node_id, node.roles) for node in config.nodes] == [
        (node_id, ("broker", "controller")) for node_id in (1, 2, 3)
    ]


def test_controllers_of_their_own_are_numbered_from_101():
    """Their ids are easy to distinguish from those of brokers."""
    config = config_of("4.2.0", nodes=2, controllers=3)
    assert [broker.node_id for broker in config.brokers] == [1, 2]
    assert [controller.node_id for controller in config.controllers] == [101, 102, 103]


def test_no_port_is_used_twice():
    """Each node has three ports."""
    nodes = config_of("4.2.0", nodes=3, controllers=2).nodes
    ports = [port for m in nodes for port in (m.client_port, m.internal_port, m.controller_port)]
    assert len(set(ports)) == 15


@pytest.mark.parametrize(("nodes", "controllers"), [(0, 0), (0, 1), (1, -1)])
def test_a_cluster_has_a_broker(nodes, controllers):
    """A cluster needs a broker."""
    with pytest.raises(ConfigError):
        config_of("4.2.0", nodes=nodes, controllers=controllers)


def test_brokers_talk_to_each_other_apart_from_clients():
    """Brokers have a plaintext listener on another port, whatever the client listener has."""
    properties = properties_of("4.2.0", security="SASL_SSL", sasl_mechanism="PLAIN")
    listeners = "CLIENT://127.0.0.1:1001,INTERNAL://127.0.0.1:1002"
    assert properties["advertised.listeners"] == listeners
    assert properties["listeners"] == f"{listeners},CONTROLLER://127.0.0.1:1003"
    assert properties["listener.security.protocol.map"] == "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert properties["inter.broker.listener.name"] == "INTERNAL"


def test_a_controller_of_its_own_serves_no_clients():
    """A controller has one listener, and every node knows all voters."""
    properties = properties_of("4.2.0", index=1, nodes=1, controllers=1)
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:1006"
    assert "advertised.listeners" not in properties
    assert properties["controller.quorum.voters"] == "101@127.0.0.1:1006"


def test_without_listener_names_one_plaintext_listener_serves_all():
    """Before KIP-103 no two listeners may share a protocol."""
    properties = properties_of("0.10.0.1")
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:1001"
    assert "listener.security.protocol.map" not in properties


def test_without_listener_names_the_second_listener_has_another_protocol():
    """Brokers have their own listener if clients use SASL."""
    properties = properties_of("0.10.0.1", security="SASL_PLAINTEXT", sasl_mechanism="PLAIN")
    assert properties["listeners"] == "SASL_PLAINTEXT://127.0.0.1:1001,PLAINTEXT://127.0.0.1:1002"


def test_a_cluster_with_zookeeper_speaks_the_protocol_of_its_first_release():
    """All brokers speak it, so that one node can be rolled."""
    properties = properties_of("2.8.2", zookeeper_port=2181, inter_broker_protocol="2.4")
    assert properties["inter.broker.protocol.version"] == "2.4"
    assert properties["zookeeper.connect"] == "127.0.0.1:2181"
    assert "process.roles" not in properties


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
        (
            "3.3.2",
            {"security": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"},
            "users of SCRAM-SHA-256",
        ),
        (
            "0.10.0.1",
            {"security": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"},
            "users of SCRAM-SHA-256",
        ),
        ("1.0.2", {"security": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ("2.4.1", {"controllers": 1}, "nodes that are controllers only"),
    ],
)
def test_an_option_that_a_release_lacks_is_refused_before_the_start(version, options, problem):
    """The error comes before a broker starts."""
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
    """A ConfigError names it."""
    with pytest.raises(ConfigError) as caught:
        config_of("4.2.0", **options).check(recipe_for("4.2.0"))
    assert caught.value.key == key


def test_client_properties_of_the_plain_listener_are_the_least():
    """Clients need the addresses and the protocol."""
    assert client_properties(config_of("4.2.0", nodes=2), SHARED) == {
        "bootstrap.servers": "127.0.0.1:1001,127.0.0.1:1004",
        "security.protocol": "PLAINTEXT",
    }


def test_client_properties_have_files_and_credentials():
    """Clients get all properties for mutual TLS with a password."""
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


def test_tokens_need_no_password():
    """OAUTHBEARER with unsecured tokens has a principal."""
    config = config_of("4.2.0", security="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER")
    properties = client_properties(config, SHARED)
    assert properties["sasl.oauthbearer.config"] == "principal=alice"
    assert "sasl.password" not in properties


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
    """A backslash and a line break are escaped."""
    assert properties_text({"a": "b\\c", "d": "e\nf"}) == "a=b\\\\c\nd=e\\nf\n"
