"""The rules of every message, in every version that featuregate supports."""

import contextlib
import dataclasses
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.cluster import Node
from featuregate.wire.message import Message

Build = Callable[[type[Message], int], st.SearchStrategy[Message]]


@settings(max_examples=20)  # of each of a hundred versions; `make fuzz` makes many more
@given(data=st.data())
def test_each_message_comes_back(messages: Build, cls: type[Message], version: int, data: st.DataObject) -> None:
    """The decoder returns the message that was encoded."""
    message = data.draw(messages(cls, version))
    assert cls.decode(version, message.encode(version)) == message


@settings(max_examples=10)
@given(data=st.data())
def test_each_message_is_cut_at_any_byte(
    messages: Build, cls: type[Message], version: int, data: st.DataObject
) -> None:
    """The decoder refuses an incomplete message, and the error names its class and version."""
    body = data.draw(messages(cls, version)).encode(version)
    for size in range(len(body)):
        with pytest.raises(RemoteWireError, match=rf"^{cls.__name__} v{version}: "):
            cls.decode(version, body[:size])


@settings(max_examples=10)  # whatever the message: the decoder refuses them in one place
@given(data=st.data(), more=st.binary(min_size=1, max_size=9))
def test_bytes_behind_a_message_are_refused(
    messages: Build, cls: type[Message], version: int, data: st.DataObject, more: bytes
) -> None:
    """A message must use all of its body."""
    body = data.draw(messages(cls, version)).encode(version)
    with pytest.raises(RemoteWireError, match="left over") as caught:
        cls.decode(version, body + more)
    assert caught.value.offset == len(body)


@settings(max_examples=20)
@given(body=st.binary(max_size=120))
def test_any_bytes_parse_or_raise_our_error(cls: type[Message], version: int, body: bytes) -> None:
    """The decoder raises no exception but RemoteWireError."""
    try:
        cls.decode(version, body)
    except RemoteWireError as error:
        assert str(error).startswith(f"{cls.__name__} v{version}: ")  # noqa: PT017 - not raising is right too


@settings(max_examples=20)
@given(data=st.data())
def test_invariant_7_mutated_bytes_neither_crash_nor_bloat(
    messages: Build, cls: type[Message], version: int, data: st.DataObject
) -> None:
    """The decoder needs memory in proportion to the bytes, whatever lengths they claim."""
    body = bytearray(data.draw(messages(cls, version)).encode(version))
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    peak = peak_of_decoding(cls, version, bytes(body))
    assert peak < 64 * 1024 + 200 * len(body)


def peak_of_decoding(cls: type[Message], version: int, body: bytes) -> int:
    """Decode a body, and return the peak of allocated memory in bytes."""
    tracemalloc.start()
    try:
        with contextlib.suppress(RemoteWireError):
            cls.decode(version, body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_versions_that_we_do_not_speak_are_refused(cls: type[Message], version: int) -> None:
    """The decoder refuses the version below the lowest and the one above the highest."""
    del version
    for outside in (cls.VERSIONS[0] - 1, cls.VERSIONS[1] + 1):
        with pytest.raises(LocalWireError, match=rf"^{cls.__name__}: version {outside} is not one of "):
            cls.decode(outside, b"")


@settings(max_examples=10)
@given(data=st.data())
def test_each_message_is_a_frozen_value_that_pickles(
    messages: Build, cls: type[Message], version: int, data: st.DataObject
) -> None:
    """A message can be passed to another process, and cannot be changed."""
    message = data.draw(messages(cls, version))
    assert pickle.loads(pickle.dumps(message)) == message
    assert not hasattr(message, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(message, dataclasses.fields(message)[0].name, None)  # type: ignore[arg-type] # every message is a dataclass


def test_a_structure_is_made_as_a_dataclass_is() -> None:
    """By keywords, of which each is a field, with every field that has no default; it is a value that pickles."""
    node = Node(node_id=1, host="b1", port=9092)
    assert node == Node(node_id=1, host="b1", port=9092, rack=None, is_fenced=False, unknown_tags={})
    assert node != Node(node_id=2, host="b1", port=9092)
    assert node != "b1"
    assert repr(node) == "Node(unknown_tags={}, node_id=1, host='b1', port=9092, rack=None, is_fenced=False)"
    assert dataclasses.replace(node, port=9093).port == 9093
    assert pickle.loads(pickle.dumps(node)) == node
    made: Any = Node
    with pytest.raises(TypeError, match=r"^Node: port is missing$"):
        made(node_id=1, host="b1")
    with pytest.raises(TypeError, match=r"^Node has no ports$"):
        made(node_id=1, host="b1", port=9092, ports=9093)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'port'"):
        node.port = 9093  # type: ignore[misc] # a type checker sees it
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'port'"):
        del node.port
    with pytest.raises(TypeError, match="unhashable type: 'dict'"):
        hash(node)
