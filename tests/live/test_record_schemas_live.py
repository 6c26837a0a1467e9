"""Our declarations of coordinators' records beside the schemas in Kafka's own jars."""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest

from featuregate.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, Key, Value
from featuregate.records.offsets import OffsetCommitValue
from featuregate.testing.local_kafka.jars import jars_of
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.wire.schema import ZERO_UUID, Scalar, Tag, Versions

pytestmark = pytest.mark.live

LOGS = {
    "kafka-group-coordinator": CONSUMER_OFFSETS,
    "kafka-transaction-coordinator": TRANSACTION_STATE,
    "kafka-share-coordinator": SHARE_GROUP_STATE,
}
EARLY_ACCESS = {"ShareGroupMetadataValue", "ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
"""Of share groups, in 3.9: changed or given up before a release supported them."""
ALL = 32767


class Field(NamedTuple):
    """A field, as Kafka and we both say it."""

    name: str
    type: str
    nullable: bool
    versions: tuple[int, int]
    ignorable: bool
    tag: int | None
    default: object
    inner: tuple[Field, ...]


def schemas(jar: Path) -> Iterator[dict[str, Any]]:
    """Read the schemas of keys and values in a jar; none where a release has no such jar."""
    if not jar.exists():
        return
    with zipfile.ZipFile(jar) as files:
        for name in files.namelist():
            if re.fullmatch(r"common/message/\w+(Key|Value)\.json", name):
                yield json.loads(re.sub(r"^\s*//.*$", "", files.read(name).decode(), flags=re.MULTILINE))


def versions(text: str) -> tuple[int, int]:
    """Read such as ``0-4``, ``4+`` or ``1``."""
    first, dash, last = text.partition("-")
    return int(first.rstrip("+")), ALL if text.endswith("+") else int(last if dash else first)


def theirs(schema: dict[str, Any]) -> tuple[Field, ...]:
    """Read the fields of a schema. Those of a key are in its one version, which is the number of its type up to 4.0."""
    structures = {structure["name"]: structure["fields"] for structure in schema.get("commonStructs", ())}
    every = versions(schema["validVersions"])

    def read(declared: dict[str, Any]) -> Field:
        kind = declared["type"].removeprefix("[]")
        lives = versions(declared.get("versions") or declared["taggedVersions"])
        everywhere = lives[0] <= every[0] and lives[1] >= every[1]
        inner = tuple(map(read, declared.get("fields") or structures.get(kind, ())))
        default = declared.get("default")
        if default is None and "tag" in declared:  # JSON's null is no default: that of the type holds
            default = {"uuid": ZERO_UUID, "ClassicMemberMetadata": "empty"}.get(kind, ())
        return Field(
            name=re.sub(r"(?<=[a-z])(?=[A-Z])", "_", declared["name"]).lower(),
            type=("[]" if declared["type"].startswith("[]") else "") + ("structure" if inner else kind),
            nullable="nullableVersions" in declared,
            versions=(0, ALL) if everywhere else lives,
            ignorable=everywhere or declared.get("ignorable", False),
            tag=declared.get("tag"),
            default=None if default == "null" else int(default) if str(default).lstrip("-").isdigit() else default,
            inner=inner,
        )

    return tuple(map(read, schema["fields"]))


def ours(cls: type) -> tuple[Field, ...]:
    """Read the fields of a declaration."""
    hints = get_type_hints(cls, include_extras=True)
    fields = []
    for declared in dataclasses.fields(cls):
        if declared.name != "unknown_tags":
            hint = hints[declared.name]
            marks = getattr(hint, "__metadata__", ())
            lives = next((mark for mark in marks if isinstance(mark, Versions)), Versions(0))
            kind, nullable, inner = described(hint)
            fields.append(
                Field(
                    name=declared.name,
                    type=kind,
                    nullable=nullable,
                    versions=(lives.first, lives.last),
                    ignorable=lives.ignorable,
                    tag=next((mark.number for mark in marks if isinstance(mark, Tag)), None),
                    default=default_of(declared),
                    inner=inner,
                )
            )
    return tuple(fields)


def default_of(declared: dataclasses.Field[Any]) -> object:
    """Say a default; None where there is none."""
    if declared.default is dataclasses.MISSING:
        return None
    return "empty" if dataclasses.is_dataclass(declared.default) else declared.default


def described(hint: Any) -> tuple[str, bool, tuple[Field, ...]]:
    """Say a type as Kafka does, whether it may be null, and what is inside of it."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Scalar):
            return mark.name, False, ()
    if get_origin(hint) is Annotated:
        return described(hint.__origin__)
    choices = get_args(hint)
    if NoneType in choices:
        kind, _, inner = described(choices[0])
        return kind, True, inner
    if get_origin(hint) is tuple:
        kind, _, inner = described(choices[0])
        return f"[]{kind}", False, inner
    return (
        ({str: "string", bytes: "bytes"}[hint], False, ()) if hint in {str, bytes} else ("structure", False, ours(hint))
    )


def as_released(declared: tuple[Field, ...], schema: tuple[Field, ...]) -> tuple[Field, ...]:
    """Take from our fields the tagged ones that a release does not have yet."""
    there = {field.name: field.inner for field in schema}
    return tuple(
        field._replace(inner=as_released(field.inner, there.get(field.name, ())))
        for field in declared
        if field.name in there or field.tag is None
    )


def in_order(fields: tuple[Field, ...]) -> tuple[list[Field], set[Field]]:
    """Take the fields apart: the order of tagged ones says nothing."""
    return [field for field in fields if field.tag is None], {field for field in fields if field.tag is not None}


@pytest.mark.parametrize(("release", "count"), [("3.9.2", 21), ("4.2.0", 49), ("4.3.1", 49)])
def test_declarations_are_those_of_kafkas_schemas(release: str, count: int) -> None:
    """Each field of each key and value: name, type, versions, tag, default, and the order of those without a tag."""
    compared = []
    for artifact, log in LOGS.items():
        classes = {cls.__name__: cls for pair in log.records.values() for cls in pair}
        for schema in schemas(jars_of(recipe_for(release)) / f"{artifact}-{release}.jar"):
            name, fields = schema["name"], theirs(schema)
            if name == "LegacyOffsetCommitValue":
                assert fields == tuple(field for field in ours(OffsetCommitValue) if field.versions == (0, ALL))
            elif not (release == "3.9.2" and name in EARLY_ACCESS):
                declared = classes[name]
                assert in_order(as_released(ours(declared), fields)) == in_order(fields), name
                check_numbers(declared, schema)
                compared.append(name)
    assert len(compared) == count


def check_numbers(declared: type[Key | Value], schema: dict[str, Any]) -> None:
    """Compare the type of a key, or the versions of a value."""
    lives = versions(schema["validVersions"])
    if issubclass(declared, Value):
        assert (lives, versions(schema["flexibleVersions"])[0]) == (declared.VERSIONS, declared.FLEXIBLE_FROM)
    else:
        assert schema.get("apiKey", lives[1]) == declared.RECORD_TYPE
