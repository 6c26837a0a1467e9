"""The membership of a consumer, read from bytes that are no API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import CommitRefused, ErrorAction, safe_send_offsets
from featuregate_confluent.producing.offsets import GroupMetadata, read_group_metadata

if TYPE_CHECKING:
    from mock_kafka import MockKafka

SILENT = logging.getLogger("test.silent")
SILENT.propagate = False
SILENT.addHandler(logging.NullHandler())
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@pytest.mark.parametrize("more", [{}, {"group.instance.id": "one"}, {"group.protocol": "consumer"}])
def test_a_real_consumer_that_never_joined_has_no_membership(more: dict[str, str]) -> None:
    """The bytes are those of the installed client: generation -1, and no member."""
    with Consumer({**NOWHERE, "group.id": "a group", **more}, logger=SILENT) as consumer:
        assert read_group_metadata(consumer.consumer_group_metadata()).generation < 0


@given(st.integers(-(2**31), 2**31 - 1), NAMES, NAMES, st.binary())
def test_what_looks_like_it_is_read(generation: int, group: str, member: str, rest: bytes) -> None:
    """Generation and member are read whatever the group's name is and whatever follows."""
    written = generation.to_bytes(4, "little", signed=True) + f"{group}\0{member}\0".encode() + rest
    assert read_group_metadata(b"CGMDv2:" + written) == GroupMetadata(generation, member)


@given(st.binary() | st.binary().map(lambda rest: b"CGMDv2:" + rest))
@example(b"")
@example(b"CGMDv2:")
@example(b"CGMDv2:\1\0\0\0group")
@example(b"CGMDv2:\1\0\0\0group\0member without an end")
@example(b"CGMDv3:\1\0\0\0group\0member\0\0")
def test_anything_else_is_refused_rather_than_guessed(garbage: bytes) -> None:
    """Any bytes are read or refused as fatal; no other error is raised."""
    if garbage.startswith(b"CGMDv2:") and garbage[11:].count(b"\0") >= 2:
        assert read_group_metadata(garbage).generation == int.from_bytes(garbage[7:11], "little", signed=True)
    else:
        with pytest.raises(CommitRefused, match="not understood") as refused:
            read_group_metadata(garbage)
        assert refused.value.action is ErrorAction.FATAL


@pytest.mark.parametrize("releases", [(), ("2.4",), ("4.2", "2.4")])
def test_nothing_is_sent_while_the_gate_is_closed(releases: tuple[str, ...]) -> None:
    """The client is not called, and the error names the broker that is too old."""
    gate = StaticFeatures(release_view(*releases) if releases else None).gate("kip447", presets.kip447)
    with Consumer({**NOWHERE, "group.id": "g"}, logger=SILENT) as consumer, pytest.raises(CommitRefused) as refused:
        safe_send_offsets(producer(), consumer, [TopicPartition("t", 0, 1)], gate=gate)
    assert refused.value.action is ErrorAction.ABORT
    assert (f"broker-{len(releases)}:9092" if releases else "no broker has answered") in refused.value.why


def test_nothing_is_sent_where_a_broker_shows_that_a_gate_is_held_wrongly() -> None:
    """A sticky gate stays open for the app's features; whether brokers refuse a zombie depends on now."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    gate = features.gate("kip447", presets.kip447)
    features.show(release_view("4.2", "2.4"))
    assert gate.open
    with Consumer({**NOWHERE, "group.id": "g"}, logger=SILENT) as consumer, pytest.raises(CommitRefused) as refused:
        safe_send_offsets(producer(), consumer, [TopicPartition("t", 0, 1)], gate=gate)
    assert (refused.value.action, "broker-2:9092" in refused.value.why) == (ErrorAction.ABORT, True)


def test_a_consumer_outside_its_group_is_refused_by_us() -> None:
    """Brokers would accept its offsets unchecked: the error says so, and what to do."""
    gate = StaticFeatures(release_view("4.2")).gate("kip447", presets.kip447)
    with Consumer({**NOWHERE, "group.id": "g"}, logger=SILENT) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        with pytest.raises(CommitRefused, match=r"not a member of its group.*Use subscribe\(\)") as refused:
            safe_send_offsets(producer(), consumer, [TopicPartition("t", 0, 1)], gate=gate, timeout=0.1)
    assert refused.value.action is ErrorAction.ABORT


def producer(bootstrap: str = NOWHERE["bootstrap.servers"]) -> Producer:
    return Producer({**NOWHERE, "bootstrap.servers": bootstrap, "transactional.id": "x"}, logger=SILENT)


def test_a_gate_of_another_cluster_sends_nothing(kafka: MockKafka) -> None:
    """The brokers that the gate asked check the group's metadata; those that take the offsets may not."""
    kafka.feed("orders", 1, 1)
    gate = StaticFeatures(release_view("4.2")).gate("kip447", presets.kip447)
    config = {"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    with Consumer(config, logger=SILENT) as consumer:
        consumer.subscribe(["orders"])
        (message,) = consumer.consume(1, 30.0)
        with pytest.raises(CommitRefused, match=r"decided for cluster 'static', but .* 'mockCluster") as refused:
            safe_send_offsets(producer(kafka.bootstrap), consumer, [TopicPartition("orders", 0, 1)], gate=gate)
    assert (message.value(), refused.value.action) == (b"0", ErrorAction.FATAL)
