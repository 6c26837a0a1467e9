"""Metadata and DescribeCluster: what is particular about them."""

from __future__ import annotations

import pytest

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
    Node,
)


def test_metadata_v0_is_not_spoken() -> None:
    """There an empty list of topics asks for all of them."""
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
    """One that is named, and null, which means all of them."""
    with pytest.raises(RemoteWireError, match=problem):
        MetadataRequest.decode(1, bytes.fromhex(topics))


def test_topics_that_were_not_asked_for_are_refused() -> None:
    """An answer with topics is not the answer to our question."""
    body = MetadataResponse(brokers=()).encode(1)[:-4] + bytes.fromhex("00000001")
    with pytest.raises(RemoteWireError, match="topics"):
        MetadataResponse.decode(1, body + bytes(20))


MOCK = bytes.fromhex("00000000 02 00000001 02 61 00002384 00 00 02 63 00000000 01 00 00")
"""Metadata v12 as librdkafka 2.16's mock cluster answers it, with shorter names."""


def test_the_second_end_of_librdkafkas_mock_cluster_is_let_pass() -> None:
    """Flexible versions of its Metadata end twice, with one byte each time."""
    node = Node(node_id=1, host="a", port=9092)
    expected = MetadataResponse(brokers=(node,), cluster_id="c", controller_id=0)
    assert MetadataResponse.decode_answer(12, MOCK) == (expected, 12)
    assert MetadataResponse.decode_answer(12, MOCK[:-1]) == (expected, 12)


@pytest.mark.parametrize(
    ("version", "body"),
    [(12, MOCK + b"\0"), (12, MOCK[:-1] + b"\1"), (1, MetadataResponse(brokers=()).encode(1) + b"\0")],
)
def test_nothing_else_behind_an_answer_is_let_pass(version: int, body: bytes) -> None:
    """Neither a third end, nor another byte, nor anything behind a version that has no such end."""
    with pytest.raises(RemoteWireError, match="left over"):
        MetadataResponse.decode_answer(version, body)


def test_more_brokers_than_bytes_are_refused() -> None:
    """The count is compared with what is left."""
    with pytest.raises(RemoteWireError, match=r"brokers at byte 0: 2147483647 elements cannot fit into 8 bytes"):
        MetadataResponse.decode(1, b"\x7f\xff\xff\xff" + bytes(8))


def test_the_smallest_node_fits() -> None:
    """A list of nodes without host and rack is as short as the guard believes."""
    response = DescribeClusterResponse(brokers=tuple(Node(node_id=n, host="", port=0) for n in range(50)))
    assert DescribeClusterResponse.decode(0, response.encode(0)) == response


def test_controllers_cannot_be_described_before_v1() -> None:
    """v0 has no endpoint type, and would describe the brokers."""
    assert DescribeClusterRequest(endpoint_type=CONTROLLERS).encode(1) == bytes.fromhex("00 02 00")
    with pytest.raises(LocalWireError, match="v0: endpoint_type: this version has no such field"):
        DescribeClusterRequest(endpoint_type=CONTROLLERS).encode(0)
    with pytest.raises(LocalWireError, match="v0: endpoint_type: this version has no such field"):
        DescribeClusterResponse(endpoint_type=CONTROLLERS).encode(0)


def test_fenced_brokers_cannot_be_asked_for_before_v2() -> None:
    """Older brokers would leave them out in silence."""
    assert DescribeClusterRequest(include_fenced_brokers=True).encode(2) == bytes.fromhex("00 01 01 00")
    with pytest.raises(LocalWireError, match="v1: include_fenced_brokers: this version has no such field"):
        DescribeClusterRequest(include_fenced_brokers=True).encode(1)


def test_describe_cluster_asks_for_brokers_by_default() -> None:
    """The controllers have to be asked for."""
    assert DescribeClusterRequest().endpoint_type == BROKERS
    assert DescribeClusterRequest.decode(0, b"\0\0") == DescribeClusterRequest()
