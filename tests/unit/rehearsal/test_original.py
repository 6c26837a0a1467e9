"""What is read of the real cluster."""

from pathlib import Path

import pytest
from scripted import ScriptedCluster

pytest.importorskip("confluent_kafka", reason="an extra")

import featuregate as fg
from featuregate.catalog import METADATA_VERSION
from featuregate.errors import ConfigError
from featuregate.rehearsal.original import OriginalCluster, from_cluster, from_file
from featuregate.rehearsal.state import StateKey, acl_key
from featuregate.testing import FakeCluster
from featuregate.wire.acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from featuregate.wire.metadata import ListedPartition, ListedTopic, ListTopicsRequest, ListTopicsResponse


def written(folder: Path, text: str) -> Path:
    file = folder / "server.properties"
    file.write_text(text)
    return file


def test_settings_are_copied_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    """What each cluster has of its own is neither; no secret is in any text."""
    text = """\
node.id=7
listeners=PLAINTEXT://kafka-7.example.test:9092
log.dirs=/var/lib/kafka
ssl.keystore.password=hunter2
min.insync.replicas=2
default.replication.factor=5
log.retention.hours=99
authorizer.class.name=com.example.OurAuthorizer
client.quota.callback.class=com.example.OurQuotas
quota.window.num=5
"""
    found = from_file(written(tmp_path, text), nodes=3)
    assert found.properties == {"min.insync.replicas": "2", "log.retention.hours": "99", "quota.window.num": "5"}
    assert found.authorizer("4.2.0") == {}
    assert found.not_copied == [
        "its authorizer com.example.OurAuthorizer, and its ACLs",
        "client.quota.callback.class",
        "default.replication.factor=5, which needs more than 3 brokers",
    ]


def test_a_topic_takes_what_a_small_cluster_can_have() -> None:
    """Nobody could write to one that needs more replicas in sync, and brokers refuse one with unknown settings."""
    configs = {
        "min.insync.replicas": "2",
        "remote.storage.enable": "true",
        "confluent.placement.constraints": "{}",
        "retention.ms": "5",
    }
    found = OriginalCluster()
    found.copy(configs, 1, "orders")
    assert (found.topics, found.properties) == ({"orders": {"retention.ms": "5"}}, {})
    assert found.not_copied == [
        "confluent.placement.constraints of topic orders",
        "min.insync.replicas=2 of topic orders, which needs more than 1 brokers",
        "remote.storage.enable of topic orders",
    ]


@pytest.mark.parametrize(("version", "of"), [("2.8.2", "AclAuthorizer"), ("4.2.0", "StandardAuthorizer")])
def test_an_authorizer_of_kafka_is_there_and_refuses_nothing(tmp_path: Path, version: str, of: str) -> None:
    """A file has no ACLs. That the authorizer has no effect is said."""
    text = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\nsuper.users=User:root\n"
    found = from_file(written(tmp_path, text), nodes=1)
    shown = found.authorizer(version)
    assert str(shown["authorizer.class.name"]).endswith(f".{of}")
    assert shown["super.users"] == "User:ANONYMOUS;User:featuregate"
    assert [each.partition(" ")[0] for each in found.not_copied] == ["what", "its"]
    assert found.properties == {}


def test_acls_that_no_client_creates_are_counted() -> None:
    """librdkafka has no delegation tokens, and no operation on two-phase commits."""
    kinds = [(2, 4), (2, 3), (6, 8), (5, 15)]
    resources = (
        DescribeAclsResource(
            resource_type=kind,
            resource_name="orders",
            pattern_type=3,
            acls=(AclDescription(principal="User:alice", host="*", operation=operation, permission_type=3),),
        )
        for kind, operation in kinds
    )
    found = OriginalCluster()
    found.take_acls(DescribeAclsResponse(resources=tuple(resources)))
    assert list(map(acl_key, found.acls)) == [
        StateKey("acl", "TOPIC orders (LITERAL)", f"ALLOW {what} User:alice from *") for what in ("READ", "WRITE")
    ], "their order decides whether a second start goes on"
    assert found.not_copied == ["2 ACLs of kinds that librdkafka does not have"]


@pytest.mark.parametrize(
    ("text", "peers", "not_copied"),
    [
        ("listener.security.protocol.map=CLIENT", set(), []),
        ("listener.security.protocol.map=A:B:C,", set(), []),
        ("min.insync.replicas=\u00b2", set(), []),
        (f"listeners=PLAINTEXT://{'a' * 70}:9092,X://127.0.0.1:9093", {("127.0.0.1", 9093)}, []),
        (
            "advertised.listeners=CLIENT-1://127.0.0.1:9092",
            {("127.0.0.1", 9092)},
            ["the security of its listener: CLIENT-1 GSSAPI"],
        ),
        ("log.retention.hours=${env:HOURS}", set(), ["log.retention.hours"]),
        ("config.providers=env", set(), ["config.providers"]),
        ("delegation.token.master.key=hunter2", set(), ["delegation.token.master.key"]),
        ("rsm.config.access.key.id=hunter2", set(), ["rsm.config.access.key.id"]),
    ],
)
def test_a_file_of_any_broker_is_read(
    tmp_path: Path, text: str, peers: set[tuple[str, int]], not_copied: list[str]
) -> None:
    """What Kafka itself would refuse is no bug of ours, and values from elsewhere stay there."""
    found = from_file(written(tmp_path, text), nodes=3)
    assert (found.peers, found.not_copied) == (peers, not_copied)
    which = "other " if "listeners=" in text else ""
    assert f"the addresses of its {which}brokers, which the file does not have" in found.unwatched


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_a_file_without_the_name_of_a_host_does_not_say_whom_an_app_must_not_reach(tmp_path: Path, host: str) -> None:
    """Kafka's own server.properties has none: the runbook says so."""
    found = from_file(written(tmp_path, f"listeners=PLAINTEXT://{host}:9092"), nodes=1)
    assert {each.partition(",")[0] for each in found.unwatched} == {"the addresses of its brokers"}


def test_a_name_that_does_not_resolve_here_is_told() -> None:
    """An app may run where it does. What resolves is watched all the same."""
    found = OriginalCluster()
    found.reach([("kafka-7.invalid", 9092), ("127.0.0.1", 9092), ("a" * 70, 9092)])
    assert found.peers == {("127.0.0.1", 9092)}
    assert {each.split()[3] for each in found.unwatched} == {"kafka-7.invalid,", "a" * 70 + ","}


SECURED = """\
listeners=INTERNAL://127.0.0.1:9091,CLIENT://127.0.0.1:9093
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=INTERNAL:PLAINTEXT, CLIENT : SASL_SSL
sasl.enabled.mechanisms=GSSAPI, SCRAM-SHA-512
"""


@pytest.mark.parametrize(
    ("text", "security", "not_copied"),
    [
        ("listeners=PLAINTEXT://127.0.0.1:9093", ("PLAINTEXT", None), []),
        (SECURED, ("SASL_SSL", "SCRAM-SHA-512"), []),
        (
            "listeners=SASL_SSL://127.0.0.1:9093",
            ("PLAINTEXT", None),
            ["the security of its listener: SASL_SSL GSSAPI"],
        ),
    ],
    ids=["plain", "of several listeners", "Kerberos, which needs a KDC"],
)
def test_the_security_of_the_listener_for_clients_is_taken(
    tmp_path: Path, text: str, security: tuple[str, str | None], not_copied: list[str]
) -> None:
    """All listeners are addresses of the cluster."""
    found = from_file(written(tmp_path, text), nodes=1)
    assert (found.security, found.not_copied) == (security, not_copied)
    assert ("127.0.0.1", 9093) in found.peers


def test_levels_are_those_that_the_storage_is_formatted_with() -> None:
    """Before 3.9 the storage is formatted with a release alone."""
    assert OriginalCluster().format_options("4.2.0") == {}
    levels = {METADATA_VERSION: 21, "transaction.version": 1}
    options = OriginalCluster(levels=levels).format_options("4.2.0")["features"]
    assert options[METADATA_VERSION] == 21
    assert (options["transaction.version"], options["group.version"]) == (1, 0)
    assert "kraft.version" not in options
    assert OriginalCluster(levels={METADATA_VERSION: 7}).format_options("3.3.2") == {"release_version": "3.3-IV3"}


def test_a_cluster_tells_its_release_its_levels_and_its_addresses() -> None:
    """Fake brokers do not tell their settings, which is said."""
    with FakeCluster(2, release="4.2", controllers=1) as kafka:
        view = fg.discover(kafka.bootstrap)
        found = from_cluster({"bootstrap.servers": kafka.bootstrap}, ["orders"], nodes=3)
        asked = {request.api for request in kafka.requests}
    assert asked <= {"ApiVersions", "Metadata", "DescribeCluster", "DescribeConfigs"}, "it only reads"
    assert found.version == "4.2.0"
    assert found.levels == {name: level for name, level in view.finalized.items() if name != "kraft.version"}
    assert {(broker.host, broker.port) for broker in view.brokers} <= found.peers
    assert any("could not be read" in text for text in found.not_copied)


def test_a_topic_that_may_not_be_described_has_no_number_of_partitions() -> None:
    """DESCRIBE_CONFIGS does not imply DESCRIBE, and a topic of no partitions cannot be created."""
    topics = ListedTopic(error_code=29, name="orders"), ListedTopic(name="bills", partitions=(ListedPartition(),) * 6)
    listed = ListTopicsResponse(topics=topics)
    with ScriptedCluster() as kafka:
        tells = kafka.tells
        kafka.tells = lambda request, node: (  # type: ignore[method-assign]
            listed if isinstance(request, ListTopicsRequest) else tells(request, node)
        )
        found = from_cluster({"bootstrap.servers": kafka.bootstrap}, ["orders", "bills"], nodes=1)
    assert found.partitions == {"bills": 6}
    assert found.not_copied == ["the partitions of topic orders, which need DESCRIBE on it"]


def test_a_cluster_with_zookeeper_that_no_small_cluster_can_be_is_refused() -> None:
    """The migration is named."""
    with FakeCluster(1, release="3.4") as kafka:
        kafka.broker(1).set(supported={}, finalized={})
        with pytest.raises(ConfigError, match="KIP-866"):
            from_cluster({"bootstrap.servers": kafka.bootstrap}, [], nodes=1)
