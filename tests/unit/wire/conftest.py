"""Strategies for every message."""

import base64
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import pytest
from golden_frames import GOLDEN, MESSAGES
from hypothesis import strategies as st

from featuregate.values import fields
from featuregate.wire.api_versions import IDENTITY_FROM, ApiVersionsRequest
from featuregate.wire.message import Message
from featuregate.wire.schema import Before, FixedVersion, Scalar, Tag, Versions

Build = Callable[[type[Message], int], st.SearchStrategy[Message]]

text = st.text(st.characters(codec="utf-8"), max_size=150)
int16 = st.integers(-(2**15), 2**15 - 1)
millis = st.integers(0, 2**31 - 1)
levels = st.dictionaries(text, st.tuples(int16, int16), max_size=8)
PLAIN: dict[object, st.SearchStrategy[Any]] = {str: text, bytes: st.binary(max_size=300)}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": int16,
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uuid": st.uuids().map(lambda one: base64.urlsafe_b64encode(one.bytes).decode().rstrip("=")),
    "string": st.from_regex(r"\A[a-zA-Z0-9](?:[a-zA-Z0-9\-.]{0,20}[a-zA-Z0-9])?\Z"),
    "api_keys": st.dictionaries(int16, st.tuples(int16, int16), max_size=90),
    "supported_features": levels,
    "finalized_features": levels,
    "topics": st.just(()),
}
"""By the name in the schema: the software of a client, and the lists of ApiVersions and Metadata, have their own."""


DEFAULTS = frozenset(
    {
        *("unknown_tags", "allow_auto_topic_creation"),
        *("include_cluster_authorized_operations", "include_topic_authorized_operations"),
    }
)
"""Fields that no request of featuregate sets."""


def mark(hint: Any, kind: type[Any]) -> Any:
    """Return the mark of this kind in a type."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, kind)), None)


def values(hint: Any, version: int) -> st.SearchStrategy[Any]:
    """Generate the values of a type of the schema."""
    if (older := mark(hint, Before)) and version < older.first:
        return st.sampled_from([1, 2]) if older.scalar.name == "bool" else SCALARS[older.scalar.name]
    if scalar := mark(hint, Scalar):
        return SCALARS[scalar.name]
    if get_origin(hint) is Annotated:
        fixed = mark(hint, FixedVersion)
        return values(hint.__origin__, fixed.version if fixed else version)
    if type(None) in get_args(hint):
        (inner,) = (each for each in get_args(hint) if each is not type(None))
        return st.none() | values(inner, version)
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0], version), max_size=3).map(tuple)
    return PLAIN[hint] if hint in PLAIN else structures(hint, version)


def structures(cls: Any, version: int, **more: Any) -> st.SearchStrategy[Any]:
    """Generate a structure with each field that the version has."""
    there = {
        field.name: millis if field.name.endswith("_ms") else values(field.type, version)
        for field in fields(cls)
        if field.name not in DEFAULTS
        and (versions := mark(field.type, Versions) or Versions(0)).first <= version <= versions.last
    }
    return st.builds(cls, **there | more)


def build(cls: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Generate any message of a class that a version can carry whole."""
    more = {}
    if cls.is_flexible(version):
        above = max((tag.number for field in fields(cls) if (tag := mark(field.type, Tag))), default=-1)
        more["unknown_tags"] = st.dictionaries(st.integers(above + 1, 2**20), st.binary(max_size=20), max_size=3)
    if cls is not ApiVersionsRequest or version < IDENTITY_FROM:
        return structures(cls, version, **more)
    both = st.just((None, -1)) | st.tuples(text, SCALARS["int32"].filter(lambda node: node != -1))
    return both.flatmap(
        lambda ids: structures(cls, version, cluster_id=st.just(ids[0]), node_id=st.just(ids[1]), **more)
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests over each message and version, and over each golden frame."""
    if {"cls", "version"} <= set(metafunc.fixturenames):
        pairs = [(cls, version) for cls in MESSAGES.values() for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]
        metafunc.parametrize(("cls", "version"), pairs, ids=[f"{cls.__name__}-v{version}" for cls, version in pairs])
    if "captured" in metafunc.fixturenames:
        metafunc.parametrize("captured", GOLDEN, ids=[each.file for each in GOLDEN])


@pytest.fixture(scope="session")
def messages() -> Build:
    """Give strategies: messages(class, version)."""
    return build
