"""Metadata and DescribeCluster."""

import pytest

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.cluster import CONTROLLERS, DescribeClusterRequest, DescribeClusterResponse, Node
from featuregate.wire.metadata import MetadataRequest, MetadataResponse


def test_metadata_v0_is_not_spoken() -> None:
    """In v0 an empty list of topics requests all topics."""
    assert MetadataRequest.VERSIONS[0] == 1
    with pytest.raises(LocalWireError):
        MetadataRequest().encode(0)


@pytest.mark.parametrize(
    ("version", "hex_"),
    [
        (1, "00000000"),
        (4, "00000000 00"),
        (8, "00000000 00 00 00"),
        (9, "01 00 00 00 00"),
        (11, "01 00 00 00"),
        (13, "01 00 00 00"),
    ],
)
def test_metadata_asks_for_no_topic_and_creates_none(version: int, hex_: str) -> None:
    """No topics, no automatic creation, no authorized operations."""
    assert MetadataRequest().encode(version) == bytes.fromhex(hex_)


@pytest.mark.parametrize(("topics", "problem"), [("00000001 000161", "1 topics, but"), ("ffffffff", "null")])
def test_topics_are_refused(topics: str, problem: str) -> None:
    """The decoder refuses a named topic, and null, which means all topics."""
    with pytest.raises(RemoteWireError, match=problem):
        MetadataRequest.decode(1, bytes.fromhex(topics))


def test_topics_that_were_not_asked_for_are_refused() -> None:
    """The request names no topics, so a response with topics does not answer it."""
    body = MetadataResponse(brokers=()).encode(1)[:-4] + bytes.fromhex("00000001")
    with pytest.raises(RemoteWireError, match="topics"):
        MetadataResponse.decode(1, body + bytes(20))


MOCK = bytes.fromhex("00000000 02 00000001 02 61 00002384 00 00 02 63 00000000 01 00 00")
"""Metadata v12 as librdkafka 2.16's mock cluster answers it, with shorter names."""


def test_the_second_end_of_librdkafkas_mock_cluster_is_let_pass() -> None:
    """The mock cluster ends flexible versions of Metadata with two empty lists of tagged fields."""
    node = Node(node_id=1, host="a", port=9092)
    expected = MetadataResponse(brokers=(node,), cluster_id="c", controller_id=0)
    assert MetadataResponse.decode_answer(12, MOCK) == (expected, 12)
    assert MetadataResponse.decode_answer(12, MOCK[:-1]) == (expected, 12)


@pytest.mark.parametrize(
    ("version", "body"),
    [(12, MOCK + b"\0"), (12, MOCK[:-1] + b"\1"), (1, MetadataResponse(brokers=()).encode(1) + b"\0")],
)
def test_nothing_else_behind_an_answer_is_let_pass(version: int, body: bytes) -> None:
    """The decoder refuses a third end, another byte, and any byte after a classic version."""
    with pytest.raises(RemoteWireError, match="left over"):
        MetadataResponse.decode_answer(version, body)


def test_more_brokers_than_bytes_are_refused() -> None:
    """The decoder compares the count with the bytes that are left."""
    with pytest.raises(RemoteWireError, match=r"brokers at byte 0: 2147483647 elements cannot fit into 8 bytes"):
        MetadataResponse.decode(1, b"\x7f\xff\xff\xff" + bytes(8))


def test_the_smallest_node_fits() -> None:
    """The guard accepts a list of the shortest nodes, without host and rack."""
    response = DescribeClusterResponse(brokers=tuple(Node(node_id=n, host="", port=0) for n in range(50)))
    assert DescribeClusterResponse.decode(0, response.encode(0)) == response


def test_controllers_cannot_be_described_before_v1() -> None:
    """v0 has no endpoint type: the response would describe the brokers."""
    assert DescribeClusterRequest(endpoint_type=CONTROLLERS).encode(1) == bytes.fromhex("00 02 00")
    with pytest.raises(LocalWireError, match="v0: endpoint_type: this version has no such field"):
        DescribeClusterRequest(endpoint_type=CONTROLLERS).encode(0)
    with pytest.raises(LocalWireError, match="v0: endpoint_type: this version has no such field"):
        DescribeClusterResponse(endpoint_type=CONTROLLERS).encode(0)


def test_fenced_brokers_cannot_be_asked_for_before_v2() -> None:
    """Older brokers would leave out fenced brokers without an error."""
    assert DescribeClusterRequest(include_fenced_brokers=True).encode(2) == bytes.fromhex("00 01 01 00")
    with pytest.raises(LocalWireError, match="v1: include_fenced_brokers: this version has no such field"):
        DescribeClusterRequest(include_fenced_brokers=True).encode(1)


def test_messages_of_two_classes_are_not_equal() -> None:
    """Both are empty."""
    assert MetadataRequest() == MetadataRequest()
    assert MetadataRequest() != DescribeClusterRequest()
