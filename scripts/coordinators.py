"""Write two tables of ``featuregate/catalog/data`` from the schemas of records in Kafka's jars.

``coordinators.json`` is what the coordinators of each release read, ``record_schemas.json`` the schemas of the newest
release, by which `featuregate.records` decodes. Give folders with jars of releases, such as those that ``LocalKafka``
keeps in its cache.

    python scripts/coordinators.py ~/.cache/featuregate/kafka/*

The first table has the coordinators of KIP-848, from 3.8 on. Its rows of older ones come from Scala sources, and are
kept.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "featuregate" / "catalog" / "data"
TABLE = DATA / "coordinators.json"
SCHEMAS = DATA / "record_schemas.json"
ARTIFACTS = {
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-transaction-coordinator": "__transaction_state",
    "kafka-share-coordinator": "__share_group_state",
}
FIRST = (3, 8)
"""Older releases have other layouts, of an early access."""


def schemas(jar: Path) -> dict[str, Any]:
    """Read the schemas of a jar, by name."""
    found = {}
    with zipfile.ZipFile(jar) as files:
        for name in files.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                schema = json.loads(re.sub(r"^\s*//.*$", "", files.read(name).decode(), flags=re.MULTILINE))
                found[schema["name"]] = schema
    return found


def snake(name: str) -> str:
    """Spell a name as our fields are."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def fields(schema: dict[str, Any], *, tagged: bool) -> list[str]:
    """Name the fields of a schema that are tagged, or the others, with their paths and types."""
    structures = {structure["name"]: structure["fields"] for structure in schema.get("commonStructs", ())}

    def walk(declared: list[dict[str, Any]], prefix: str) -> list[str]:
        names = []
        for field in declared:
            label = prefix + snake(field["name"])
            if ("tag" in field) == tagged:
                names.append(label if tagged else f"{label} {field['type']}")
            inner = field.get("fields") or structures.get(field["type"].removeprefix("[]"), ())
            names += walk(inner, f"{label}.") if tagged or "tag" not in field else []
        return names

    return walk(schema["fields"], "")


def reads(found: dict[str, Any], newest: dict[str, Any]) -> dict[str, Any]:
    """Say which types of record a coordinator reads, and of each the versions and the tagged fields."""
    row: dict[str, Any] = {}
    for name, value in found.items():
        key = found.get(f"{name.removesuffix('Value')}Key")
        if not name.endswith("Value") or key is None:
            continue
        low, _, high = value["validVersions"].partition("-")
        entry: dict[str, Any] = {"versions": [int(low), int(high or low)], "tagged": fields(value, tagged=True)}
        if name not in newest or fields(value, tagged=False) != fields(newest[name], tagged=False):
            entry["early_access"] = True
        types, _, last = str(key.get("apiKey", key["validVersions"])).partition("-")
        row |= {str(number): entry for number in range(int(types), int(last or types) + 1)}
    return dict(sorted(row.items(), key=lambda item: int(item[0])))


def layouts(found: dict[str, dict[str, Any]], source: str) -> dict[str, Any]:
    """Return the schemas of a release, by topic and name: what decides about bytes, in the words of Kafka's schemas.

    A structure is under ``commonStructs``, the innermost first, also where Kafka writes it into a field. A field has
    ``versions`` only where some versions lack it. Under legacy keys brokers wrote values of all versions up to 3.
    """
    topics: dict[str, list[list[str]]] = {}
    messages: dict[str, dict[str, Any]] = {}
    for topic, declared in found.items():
        by_number = sorted((read_key(schema), name) for name, schema in declared.items() if name.endswith("Key"))
        names = [name for _, name in by_number]
        topics[topic] = [[name, f"{name.removeprefix('Legacy').removesuffix('Key')}Value"] for name in names]
        for number, name in by_number:
            messages[name] = {"apiKey": number, "fields": layout(declared[name], {})}
        for _, name in topics[topic]:
            structures: dict[str, Any] = {}
            messages[name] = {word: declared[name][word] for word in ("validVersions", "flexibleVersions")}
            messages[name]["fields"] = layout(declared[name], structures)
            if structures:
                messages[name]["commonStructs"] = structures
    return {"source": source, "topics": topics, "messages": messages}


def read_key(schema: dict[str, Any]) -> int:
    """Return the type of a record; up to 4.0 it is the newest version of the key."""
    return int(schema.get("apiKey", schema["validVersions"].rpartition("-")[2]))


def layout(schema: dict[str, Any], structures: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a message; add its structures."""
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
    first, _, last = schema["validVersions"].partition("-")
    everywhere = {f"{first}+", first if not last else schema["validVersions"]}

    def walk(declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [field(each) for each in declared]

    def field(declared: dict[str, Any]) -> dict[str, Any]:
        kind = declared["type"].removeprefix("[]")
        if inner := declared.get("fields") or common.get(kind):
            structures[kind] = walk(inner)
        lives = declared.get("versions", declared.get("taggedVersions"))
        assert declared.get("taggedVersions", lives) == lives, "a field that is tagged in some versions alone"
        name = declared["name"]
        said = {"name": name[0].lower() + name[1:], "type": declared["type"]}
        words = ["nullableVersions", "tag"]
        if lives not in everywhere:
            said["versions"] = lives
            words.append("ignorable")
        said |= {word: declared[word] for word in words if word in declared}
        if (default := declared.get("default")) is not None:  # null is JSON's: the default is that of the type
            said["default"] = int(default) if str(default).lstrip("-").isdigit() else default
        return said

    return walk(schema["fields"])


def main(folders: list[Path]) -> None:
    """Read every folder that has a release's jars."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for jar in folder.glob("*.jar"):
            artifact, _, version = jar.stem.rpartition("-")
            if artifact in ARTIFACTS and tuple(map(int, version.split(".")[:2])) >= FIRST:
                found.setdefault(version, {})[ARTIFACTS[artifact]] = schemas(jar)
    versions = sorted(found, key=lambda version: tuple(map(int, version.split("."))))
    newest = found[versions[-1]]
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    rows = table["consumer_protocol"]
    for version in versions:
        row = rows.setdefault(version.rpartition(".")[0], {"reads": {}})
        for topic in ARTIFACTS.values():
            if entries := reads(found[version].get(topic, {}), newest[topic]):
                row["reads"][topic] = entries
        row["read_from"] = f"the schemas in the coordinators' jars of Apache Kafka {version}"
    write(TABLE, table, r"\{\s+\"versions\": \[\s+\d+,\s+\d+\s+\],\s+\"tagged\": \[[^\]]*\][^}]*\}")
    source = f"the schemas in the coordinators' jars of Apache Kafka {versions[-1]} (scripts/coordinators.py)"
    write(SCHEMAS, layouts(newest, source), r"\{\s+\"name\"[^}]*\}|\[\s+\"\w+Key\",\s+\"\w+\"\s+\]")


def write(path: Path, table: dict[str, Any], entry: str) -> None:
    """Write a table, each of the entries that match on one line."""
    text = re.sub(entry, lambda found: json.dumps(json.loads(found.group())), json.dumps(table, indent=2))
    path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
