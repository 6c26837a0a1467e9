"""Any record of a coordinator, whole, cut and mutated."""

import contextlib
import dataclasses
import pickle
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_strategies import KINDS, LOGS, records, text

from featuregate.errors import RemoteWireError
from featuregate.records import CoordinatorRecord, CoordinatorTopic, UnknownKey, UnknownValue


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=20)
@given(data=st.data())
def test_each_record_comes_back(kind: str, data: st.DataObject) -> None:
    """The decoder returns the record that was encoded, with its unknown tagged fields."""
    log, kinds = KINDS[kind]
    record = data.draw(kinds)
    key, value = log.encode(record)
    assert log.decode(key, value) == record
    assert log.decode_key(key) == record.key
    assert log.encode(log.decode(key, value)) == (key, value)


@given(
    log=st.sampled_from(LOGS),
    number=st.integers(24, 32767) | st.integers(-32768, -1),
    version=st.integers(-32768, 32767),
    key=st.binary(max_size=9),
    value=st.none() | st.binary(max_size=9),
)
def test_an_unknown_record_type_comes_back(
    log: CoordinatorTopic, number: int, version: int, key: bytes, value: bytes | None
) -> None:
    """The record keeps the number of its type, the version of its value, and the bytes behind them."""
    record = log.decode(
        number.to_bytes(2, "big", signed=True) + key,
        None if value is None else version.to_bytes(2, "big", signed=True) + value,
    )
    assert record == CoordinatorRecord(
        UnknownKey(record_type=number, data=key),
        None if value is None else UnknownValue(data=value),
        None if value is None else version,
    )
    assert record.record_type == number
    assert log.decode(*log.encode(record)) == record


@given(drawn=records, version=st.integers(5, 32767) | st.integers(-32768, -1), data=st.binary(max_size=9))
def test_an_unknown_version_comes_back(
    drawn: tuple[CoordinatorTopic, CoordinatorRecord], version: int, data: bytes
) -> None:
    """The decoder still reads the key."""
    log, known = drawn
    record = log.decode(log.encode(known)[0], version.to_bytes(2, "big", signed=True) + data)
    assert record == CoordinatorRecord(known.key, UnknownValue(data=data), version)
    assert log.decode(*log.encode(record)) == record


@given(drawn=records)
def test_a_record_is_cut_at_any_byte(drawn: tuple[CoordinatorTopic, CoordinatorRecord]) -> None:
    """The decoder refuses an incomplete key or value, and the error says where the bytes end."""
    log, record = drawn
    key, value = log.encode(record)
    for size in range(len(key)):
        with pytest.raises(RemoteWireError) as caught:
            log.decode(key[:size], value)
        assert caught.value.offset <= size
    for size in range(len(value or b"")):
        with pytest.raises(RemoteWireError) as caught:
            log.decode(key, value[:size])
        assert caught.value.offset <= size


@given(drawn=records, more=st.binary(min_size=1, max_size=9))
def test_bytes_behind_a_record_are_refused(drawn: tuple[CoordinatorTopic, CoordinatorRecord], more: bytes) -> None:
    """A key and a value must use all of their bytes."""
    log, record = drawn
    key, value = log.encode(record)
    with pytest.raises(RemoteWireError, match="left over") as caught:
        log.decode(key + more, value)
    assert caught.value.offset == len(key)
    if value is not None:
        with pytest.raises(RemoteWireError, match="left over") as caught:
            log.decode(key, value + more)
        assert caught.value.offset == len(value)


@given(log=st.sampled_from(LOGS), number=st.integers(0, 24), key=st.binary(max_size=40))
def test_any_key_parses_or_raises_our_error(log: CoordinatorTopic, number: int, key: bytes) -> None:
    """The decoder of keys raises no other exception."""
    for data in (key, number.to_bytes(2) + key):
        with contextlib.suppress(RemoteWireError):
            log.decode_key(data)


@settings(max_examples=300)
@given(drawn=records, version=st.integers(0, 4), value=st.binary(max_size=120))
def test_any_value_parses_or_raises_our_error(
    drawn: tuple[CoordinatorTopic, CoordinatorRecord], version: int, value: bytes
) -> None:
    """The decoder of values raises no other exception."""
    log, record = drawn
    key, _ = log.encode(record)
    for data in (value, version.to_bytes(2) + value):
        with contextlib.suppress(RemoteWireError):
            log.decode(key, data)


@settings(max_examples=200)
@given(drawn=records, data=st.data())
def test_invariant_7_mutated_records_neither_crash_nor_bloat(
    drawn: tuple[CoordinatorTopic, CoordinatorRecord], data: st.DataObject
) -> None:
    """The decoder needs memory in proportion to the bytes, whatever lengths they claim."""
    log, record = drawn
    halves = [bytearray(half) for half in log.encode(record) if half is not None]
    for _ in range(data.draw(st.integers(1, 4))):
        half = data.draw(st.sampled_from(halves))
        half[data.draw(st.integers(0, len(half) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    key, value = bytes(halves[0]), bytes(halves[1]) if len(halves) > 1 else None
    with contextlib.suppress(RemoteWireError):
        log.decode(key, value)  # once before, so that the layouts are worked out
    tracemalloc.start()
    try:
        with contextlib.suppress(RemoteWireError):
            log.decode(key, value)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 + 200 * (len(key) + len(value or b""))
    finally:
        tracemalloc.stop()


@given(drawn=records)
def test_a_record_is_a_frozen_value_that_pickles(drawn: tuple[CoordinatorTopic, CoordinatorRecord]) -> None:
    """A record can be passed to another process and cannot be changed, and equal keys have equal hashes."""
    log, drawn_record = drawn
    record = log.decode(*log.encode(drawn_record))
    twin = pickle.loads(pickle.dumps(record))
    assert twin == record
    assert hash(twin.key) == hash(record.key)
    for part, field in ((record, "key"), *((half, dataclasses.fields(half)[0].name) for half in record[:2] if half)):
        assert not hasattr(part, "__dict__")
        with pytest.raises(AttributeError):
            setattr(part, field, None)
    assert repr(log) == f"<CoordinatorTopic {log.topic}>"


@given(group=text, other=text)
def test_keys_of_two_types_are_never_equal(group: str, other: str) -> None:
    """The type of a record belongs to its key, although several keys have the same fields."""
    for log in LOGS:
        classes = [key for key, _ in log.records.values()]
        for fields in ({"group_id": group}, {"group_id": group, "member_id": other}):
            keys = [cls(**fields) for cls in classes if {f.name for f in dataclasses.fields(cls)} == set(fields)]
            assert len(set(keys)) == len(keys)
