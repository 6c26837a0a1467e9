"""The fake cluster, as a client sees it through a socket."""

import resource
import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme
from raw_client import API_VERSIONS, RawClient, describe, tell

from featuregate.errors import ClosedError
from featuregate.testing import FakeCluster
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.frames import read_correlation_id, write_request
from featuregate.wire.metadata import MetadataRequest
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


def open_files():
    """Count the open files of this process."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


# ---------------------------------------------------------------------- life


def test_leaving_releases_every_port_thread_and_file() -> None:
    """The cluster leaves no thread, socket or connection."""
    before = open_files()
    with FakeCluster(brokers=5) as cluster:
        client = RawClient(cluster.broker(2))
        client.ask(API_VERSIONS, 4)
        ports = [broker.port for broker in cluster.brokers]
        cluster.broker(4).stop()
    with client, pytest.raises(ConnectionError):
        client.receive_frame()
    assert not [thread for thread in threading.enumerate() if thread.name == "featuregate-fake-cluster"]
    assert open_files() == before
    for port in ports:
        with socket.socket() as free:
            free.bind(("127.0.0.1", port))


def test_a_cluster_can_be_closed_twice() -> None:
    FakeCluster().close()
    cluster = FakeCluster().start()
    cluster.close()
    cluster.close()
    with pytest.raises(ClosedError):
        cluster.start()


def test_a_cluster_can_be_started_twice() -> None:
    with FakeCluster(brokers=1) as cluster:
        port = cluster.broker(1).port
        assert cluster.start().broker(1).port == port
        assert tell(cluster.broker(1)).error_code == 0
        cluster.broker(1).stop()
        cluster.start()
        with pytest.raises(ConnectionRefusedError):
            tell(cluster.broker(1))


def test_a_start_that_fails_leaves_nothing_behind() -> None:
    """When the process runs out of files, the open ones are closed."""
    before, (soft, hard) = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 20, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            FakeCluster(brokers=100).start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_files() == before
    assert not [thread for thread in threading.enumerate() if thread.name == "featuregate-fake-cluster"]


def test_a_closed_cluster_refuses_to_move_its_brokers() -> None:
    with FakeCluster(brokers=1) as cluster:
        broker = cluster.broker(1)
    with pytest.raises(ClosedError, match="with block"):
        broker.stop()


# ---------------------------------------------------------------------- what a broker answers by Kafka's rules


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_api_versions_is_answered(version: int) -> None:
    with FakeCluster(brokers=1, api_ranges={18: (0, 5), 28: (0, 4)}) as cluster:
        answer = tell(cluster.broker(1), version)
    assert answer.error_code == 0
    assert answer.api_ranges == {18: (0, 5), 28: (0, 4)}
    assert (answer.epoch == -1) is (version < 3)


@pytest.mark.parametrize(
    ("api_ranges", "listed"), [({18: (0, 3), 28: (0, 2)}, {18: (0, 3)}), ({18: (0, 0), 3: (0, 2), 28: (0, 0)}, {})]
)
def test_a_version_that_is_too_new_is_answered_in_v0(api_ranges, listed) -> None:
    """Error 35 has a body that every client can read. Before KIP-511, which is of 2.4, the list is empty."""
    with FakeCluster(brokers=1, api_ranges=api_ranges) as cluster, RawClient(cluster.broker(1)) as client:
        answer = client.ask(API_VERSIONS, 5, answered_in=0)
        assert (answer.error_code, answer.api_ranges) == (35, listed)
        assert client.ask(API_VERSIONS, api_ranges[18][1]).error_code == 0


def test_v3_hides_features_that_start_at_zero() -> None:
    """KAFKA-17011: old clients fail on a minimum of 0, so v3 omits it, but not the finalized level."""
    levels = {"metadata.version": (7, 29), "group.version": (0, 1)}
    with FakeCluster(brokers=1, supported=levels, finalized={"group.version": 1}) as cluster:
        assert tell(cluster.broker(1), 3).supported == {"metadata.version": (7, 29)}
        assert tell(cluster.broker(1), 4).supported == levels
        assert tell(cluster.broker(1), 3).finalized == {"group.version": (1, 1)}


@pytest.mark.parametrize("name", [b"", b"a b", b"-x", b"x-"])
def test_invalid_software_names_are_refused(name: bytes) -> None:
    """The answer is INVALID_REQUEST with an empty list, and the connection stays open."""
    body = bytes([len(name) + 1]) + name + b"\x021\x00"
    request = b"\x00\x12\x00\x03" + b"\x00\x00\x00\x01" + b"\xff\xff" + b"\x00" + body
    with FakeCluster(brokers=1) as cluster, RawClient(cluster.broker(1)) as client:
        client.send_bytes(len(request).to_bytes(4, "big") + request)
        answer = ApiVersionsResponse.decode(3, client.receive_frame()[4:])
        assert (answer.error_code, answer.api_ranges) == (42, {})
        assert client.ask(API_VERSIONS, 4).error_code == 0


@pytest.mark.parametrize(("cluster_id", "node_id", "code"), [("right", 1, 0), ("right", 2, 129), ("wrong", 1, 129)])
def test_v5_checks_the_expected_identity(cluster_id: str, node_id: int, code: int) -> None:
    """KIP-1242: another cluster or node than expected is REBOOTSTRAP_REQUIRED."""
    request = ApiVersionsRequest(
        client_software_name="test", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    cluster = FakeCluster(brokers=1, api_ranges={18: (0, 5)}, cluster_id="right")
    with cluster, RawClient(cluster.broker(1)) as client:
        answer = client.ask(request, 5)
    assert answer.error_code == code
    assert bool(answer.api_ranges) is (code == 0)


@pytest.mark.parametrize("identity", [b"\x06right\xff\xff\xff\xff", b"\x00\x00\x00\x00\x01"])
def test_v5_refuses_half_an_identity(identity: bytes) -> None:
    """One of the two ids alone is INVALID_REQUEST."""
    request = b"\x00\x12\x00\x05" + b"\x00\x00\x00\x01" + b"\xff\xff" + b"\x00" + b"\x02t\x021" + identity + b"\x00"
    cluster = FakeCluster(brokers=1, api_ranges={18: (0, 5)}, cluster_id="right")
    with cluster, RawClient(cluster.broker(1)) as client:
        client.send_bytes(len(request).to_bytes(4, "big") + request)
        answer = ApiVersionsResponse.decode(5, client.receive_frame()[4:])
    assert answer.error_code == 42


def test_fenced_brokers_are_listed_on_request() -> None:
    with FakeCluster(brokers=2) as cluster:
        cluster.broker(2).stop()
        asked = describe(cluster.broker(1), include_fenced_brokers=True).brokers
        assert [(node.node_id, node.is_fenced) for node in asked] == [(1, False), (2, True)]
        assert [node.node_id for node in describe(cluster.broker(1)).brokers] == [1]
        with RawClient(cluster.broker(1)) as client:
            assert [node.node_id for node in client.ask(MetadataRequest(), 12).brokers] == [1]


def test_a_broker_is_listed_until_its_cluster_notices_that_it_is_gone() -> None:
    """A broker that is down need not be fenced."""
    with FakeCluster(brokers=2) as cluster:
        cluster.broker(2).stop()
        cluster.broker(2).set(fenced=False)
        assert [node.node_id for node in describe(cluster.broker(1)).brokers] == [1, 2]


def test_controllers_describe_controllers() -> None:
    """Each kind of node describes its own kind, and answers MISMATCHED_ENDPOINT_TYPE for the other."""
    with FakeCluster(brokers=2, controllers=1) as cluster:
        assert cluster.bootstrap_controllers == cluster.broker(3000).address
        assert [node.node_id for node in describe(cluster.broker(3000), endpoint_type=2).brokers] == [3000]
        assert describe(cluster.broker(3000), endpoint_type=1).error_code == 114
        assert describe(cluster.broker(1), endpoint_type=2).error_code == 114


def test_controllers_do_not_know_metadata() -> None:
    """A controller does not advertise Metadata, and closes the connection."""
    with FakeCluster(brokers=1, controllers=1) as cluster, RawClient(cluster.broker(3000)) as client:
        assert 3 not in client.ask(API_VERSIONS, 4).api_ranges
        client.send(MetadataRequest(), 12)
        assert client.receive_rest() == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\0\0\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\0\0\0\x0b\x00\x3c\x00\x09\x00\x00\x00\x01\xff\xff\x00",
        b"\0\0\0\x01x",
        b"\x7f\xff\xff\xff",
    ],
)
def test_requests_that_a_broker_cannot_answer_end_the_connection(sent: bytes) -> None:
    """Brokers close the connection for an unknown API, a version that is too new, no request, or a hostile length."""
    with FakeCluster(brokers=1) as cluster, RawClient(cluster.broker(1)) as client:
        client.send_bytes(sent)
        assert client.receive_rest() == b""


def test_requests_that_arrive_in_pieces_or_together_are_answered_in_order() -> None:
    """The boundaries of segments do not matter."""
    two = write_request(API_VERSIONS, 4, 1, None) + write_request(API_VERSIONS, 3, 2, None)
    with FakeCluster(brokers=1) as cluster, RawClient(cluster.broker(1)) as client:
        client.send_bytes(two)
        assert [read_correlation_id(client.receive_frame()) for _ in range(2)] == [1, 2]
        for byte in two:
            client.send_bytes(bytes([byte]))
        assert [read_correlation_id(client.receive_frame()) for _ in range(2)] == [1, 2]


# ---------------------------------------------------------------------- releases


def test_a_release_brings_its_ranges_and_levels() -> None:
    """A new cluster of a release reports what a real one reports."""
    with FakeCluster(brokers=1, release="3.9") as cluster:
        answer = tell(cluster.broker(1))
    assert answer.api_ranges[28] == (0, 4)
    assert answer.supported["metadata.version"] == (1, 21)
    assert answer.finalized == {"metadata.version": (21, 21)}
    assert answer.epoch > 0


@pytest.mark.parametrize(("release", "epoch"), [("2.4", -1), ("2.8", 0)])
def test_releases_with_zookeeper_have_nothing_finalized(release: str, epoch: int) -> None:
    """Before 2.7 they have no epoch, either."""
    with FakeCluster(brokers=1, release=release) as cluster:
        answer = tell(cluster.broker(1), 3)
    assert (answer.epoch, answer.supported, answer.finalized) == (epoch, {}, {})


@pytest.mark.parametrize(
    ("controllers", "release", "problem"),
    [(0, "9.9", r"9\.9 was captured, only of .*3\.9"), (1, "2.8", r"2\.8 was captured with ZooKeeper")],
)
def test_a_release_that_was_not_captured_is_an_error(controllers: int, release: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        FakeCluster(controllers=controllers, release=release)


# ---------------------------------------------------------------------- SASL and TLS


def authenticate(client, password, version=1):
    """Authenticate with SASL/PLAIN, as clients since 1.0 do."""
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), version).error_code == 0
    return client.ask(SaslAuthenticateRequest(auth_bytes=b"\0ann\0" + password), 2)


def test_sasl_accepts_the_right_password() -> None:
    """ApiVersions is answered before authentication, all other requests after it: else the connection is closed."""
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster:
        with RawClient(cluster.broker(1)) as client:
            assert client.ask(API_VERSIONS, 4).error_code == 0
            assert authenticate(client, b"secret").error_code == 0
            assert client.ask(MetadataRequest(), 12).brokers
        with RawClient(cluster.broker(1)) as client:
            client.send(MetadataRequest(), 12)
            assert client.receive_rest() == b""


def test_sasl_refuses_a_wrong_password() -> None:
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster, RawClient(cluster.broker(1)) as client:
        assert authenticate(client, b"wrong").error_code == 58
        assert client.receive_rest() == b""


def test_a_refusal_that_comes_late_ends_the_connection_too() -> None:
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster, RawClient(cluster.broker(1)) as client:
        cluster.broker(1).delay_once(0.01, api="SaslAuthenticate")
        assert authenticate(client, b"wrong").error_code == 58
        assert client.receive_rest() == b""


def test_sasl_tokens_travel_bare_after_the_oldest_handshake() -> None:
    """Before 1.0 there was no SaslAuthenticate."""
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster, RawClient(cluster.broker(1)) as client:
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
        token = b"\0ann\0secret"
        client.send_bytes(len(token).to_bytes(4, "big") + token)
        assert client.receive_frame() == b""
        assert client.ask(MetadataRequest(), 12).brokers


def test_sasl_names_the_mechanism_that_it_has() -> None:
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster, RawClient(cluster.broker(1)) as client:
        answer = client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert (answer.error_code, answer.mechanisms) == (33, ("PLAIN",))


def test_passwords_are_never_shown() -> None:
    with FakeCluster(brokers=1, passwords={"ann": "secret"}) as cluster:
        assert "secret" not in f"{cluster!r} {cluster.members()!r} {cluster.broker(1)!r}"


def test_tls_listeners_speak_tls() -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    with FakeCluster(brokers=2, tls=server) as cluster, RawClient(cluster.broker(2), tls=client_side) as client:
        assert client.ask(API_VERSIONS, 4).error_code == 0
