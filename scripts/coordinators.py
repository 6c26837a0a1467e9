"""Write what the coordinators of each release read: ``featuregate/catalog/data/coordinators.json``.

Kafka's jars hold the schemas of its records, so a release's own jars say it: give folders with jars of releases, such
as those that ``LocalKafka`` keeps in its cache.

    python scripts/coordinators.py ~/.cache/featuregate/kafka/*

That is for the coordinators of KIP-848, from 3.8 on. The rows of older ones come from Scala sources, and are kept.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from featuregate.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

TABLE = Path(__file__).parent.parent / "featuregate" / "catalog" / "data" / "coordinators.json"
ARTIFACTS = {
    "kafka-group-coordinator": CONSUMER_OFFSETS.topic,
    "kafka-transaction-coordinator": TRANSACTION_STATE.topic,
    "kafka-share-coordinator": SHARE_GROUP_STATE.topic,
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
    row = {}
    for name, value in found.items():
        key = found.get(f"{name.removesuffix('Value')}Key")
        if not name.endswith("Value") or key is None:
            continue
        low, _, high = value["validVersions"].partition("-")
        entry: dict[str, Any] = {"versions": [int(low), int(high or low)], "tagged": fields(value, tagged_fields=True)}
        if name not in newest or fields(value, tagged_fields=False) != fields(newest[name], tagged_fields=False):
            entry["early_access"] = True
        types, _, last = str(key.get("apiKey", key["validVersions"])).partition("-")
        row |= {str(number): entry for number in range(int(types), int(last or types) + 1)}
    return dict(sorted(row.items(), key=lambda item: int(item[0])))


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
    text = json.dumps(table, indent=2)
    text = re.sub(r"\{\s+\"versions\": \[\s+(\d+),\s+(\d+)\s+\],\s+\"tagged\": \[([^\]]*)\]([^}]*)\}", flat, text)
    TABLE.write_text(f"{text}\n", encoding="utf-8")


def flat(entry: re.Match[str]) -> str:
    """Put an entry into one line."""
    return json.dumps(json.loads(entry.group()))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
