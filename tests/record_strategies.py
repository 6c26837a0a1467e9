"""Hypothesis strategies for the records of coordinators, made from how the records are declared."""

import dataclasses
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
    Key,
    Value,
)
from featuregate.wire.schema import Int8, Int16, Int32, Int64, Structure, Tag, UInt16, Uuid, Versions

LOGS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)

text = st.text(st.characters(codec="utf-8"), max_size=12)
scalars: dict[Any, st.SearchStrategy[Any]] = {
    str: text,
    bytes: st.binary(max_size=12),
    Int8: st.integers(-(2**7), 2**7 - 1),
    Int16: st.integers(-(2**15), 2**15 - 1),
    UInt16: st.integers(0, 2**16 - 1),
    Int32: st.integers(-(2**31), 2**31 - 1),
    Int64: st.integers(-(2**63), 2**63 - 1),
    Uuid: st.binary(min_size=16, max_size=16).map(lambda data: urlsafe_b64encode(data)[:22].decode()),
}


def each_kind() -> Iterator[tuple[CoordinatorTopic, type[Key], type[Value], int]]:
    """Give every type of record in every version of its value."""
    for log in LOGS:
        for key, value in log.records.values():
            for version in range(value.VERSIONS[0], value.VERSIONS[1] + 1):
                yield log, key, value, version


def structures(cls: type[Structure], version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    """Any structure that a version can carry whole."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    hints = get_type_hints(cls, include_extras=True)
    tags = []
    for declared in dataclasses.fields(cls):
        if declared.name == "unknown_tags":
            continue
        hint = hints[declared.name]
        marks = getattr(hint, "__metadata__", ())
        lives = next((mark for mark in marks if isinstance(mark, Versions)), Versions(0))
        tags += [mark.number for mark in marks if isinstance(mark, Tag)]
        if lives.first <= version <= lives.last:
            fields[declared.name] = _values(hint, version, flexible=flexible)
    if flexible:
        above = max(tags, default=-1) + 1
        fields["unknown_tags"] = st.dictionaries(st.integers(above, 2**20), st.binary(max_size=9), max_size=2)
    return st.builds(cls, **fields)


def _values(hint: Any, version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    for scalar, strategy in scalars.items():
        marks = getattr(scalar, "__metadata__", ())
        if hint is scalar or (marks and marks[0] in getattr(hint, "__metadata__", ())):
            return strategy
    if get_origin(hint) is Annotated:
        return _values(hint.__origin__, version, flexible=flexible)
    choices = get_args(hint)
    if NoneType in choices:
        inner = next(choice for choice in choices if choice is not NoneType)
        return st.none() | _values(inner, version, flexible=flexible)
    if get_origin(hint) is tuple:
        return st.lists(_values(choices[0], version, flexible=flexible), max_size=2).map(tuple)
    return structures(hint, version, flexible=flexible)


def records_of(key: type[Key], value: type[Value], version: int) -> st.SearchStrategy[CoordinatorRecord]:
    """Any record of one type, in one version; tombstones too."""
    keys = structures(key, 0, flexible=False)
    values = structures(value, version, flexible=version >= value.FLEXIBLE_FROM)
    return st.builds(CoordinatorRecord, keys, values, st.just(version)) | st.builds(CoordinatorRecord, keys, st.none())


KINDS = {
    f"{log.topic}-{key.__name__}-v{version}": (log, records_of(key, value, version))
    for log, key, value, version in each_kind()
}

records: st.SearchStrategy[tuple[CoordinatorTopic, CoordinatorRecord]] = st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.tuples(st.just(KINDS[kind][0]), KINDS[kind][1])
)
"""Any record of any log, with its log."""
