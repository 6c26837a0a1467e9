"""Hypothesis strategies for the records of coordinators, made from the table of Kafka's schemas."""

import re
from base64 import urlsafe_b64encode
from typing import Any, Final

from hypothesis import strategies as st

from featuregate.catalog.load import load
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
    Key,
    Value,
)

LOGS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
MESSAGES: Final = load("record_schemas")["messages"]

text = st.text(st.characters(codec="utf-8"), max_size=12)
scalars: dict[str, st.SearchStrategy[Any]] = {
    "string": text,
    "bytes": st.binary(max_size=12),
    "uint16": st.integers(0, 2**16 - 1),
    **{f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    "uuid": st.binary(min_size=16, max_size=16).map(lambda data: urlsafe_b64encode(data)[:22].decode()),
}


def message(cls: type[Key | Value], version: int = 0) -> st.SearchStrategy[Any]:
    schema = MESSAGES[cls.__name__]
    flexible = issubclass(cls, Value) and version >= cls.FLEXIBLE_FROM

    def structure(made: type[Any], fields: list[dict[str, Any]]) -> st.SearchStrategy[Any]:
        there = [field for field in fields if re.match(rf"{version}\b|[0-{version}]\+", field.get("versions", "0+"))]
        drawn = {re.sub(r"(?=[A-Z])", "_", field["name"]).lower(): content(field) for field in there}
        if flexible:
            above = max((field.get("tag", -1) for field in fields), default=-1) + 1
            drawn["unknown_tags"] = st.dictionaries(st.integers(above, 2**20), st.binary(max_size=9), max_size=2)
        return st.builds(made, **drawn)

    def content(field: dict[str, Any]) -> st.SearchStrategy[Any]:
        kind = field["type"].removeprefix("[]")
        one = scalars.get(kind)
        if one is None:
            one = structure(getattr(cls, kind), schema["commonStructs"][kind])
        several = one if kind == field["type"] else st.lists(one, max_size=2).map(tuple)
        return st.none() | several if "nullableVersions" in field else several

    return structure(cls, schema["fields"])


def records_of(key: type[Key], value: type[Value], version: int) -> st.SearchStrategy[CoordinatorRecord]:
    """Any record of one type, in one version; tombstones too."""
    keys = message(key)
    whole = st.builds(CoordinatorRecord, keys, message(value, version), st.just(version))
    return whole | st.builds(CoordinatorRecord, keys, st.none())


KINDS = {
    f"{log.topic}-{key.__name__}-v{version}": (log, records_of(key, value, version))
    for log in LOGS
    for key, value in log.records.values()
    for version in range(value.VERSIONS[0], value.VERSIONS[1] + 1)
}

records: st.SearchStrategy[tuple[CoordinatorTopic, CoordinatorRecord]] = st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.tuples(st.just(KINDS[kind][0]), KINDS[kind][1])
)
"""Any record of any log, with its log."""
