"""Read the tables of feature levels from released jars of Kafka: ``featuregate/catalog/data/levels.json``.

Each release tells what its own classes know (``PrintLevels.java``). A level of ``metadata.version`` is rewritten until
its release is out, so each row is taken from the oldest release here that has it in production. Needs a Java that can
compile; the jars are fetched once. Run it as ``python scripts/levels.py``, or with ``--check`` to see whether the file
is what they say.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from featuregate.testing.local_kafka.commands import JVM_OPTIONS, jars_of
from featuregate.testing.local_kafka.java import find_java
from featuregate.testing.local_kafka.releases import recipe_for

ROOT = Path(__file__).parent.parent
FILE = ROOT / "featuregate" / "catalog" / "data" / "levels.json"
PRINTER = Path(__file__).with_name("PrintLevels.java")
RELEASES = ("3.9.2", "4.2.0", "4.3.1", "4.4.0")
"""Oldest first."""
SOURCE = (
    "MetadataVersion.java and Feature.java of Apache Kafka (org.apache.kafka.server.common), printed by the classes "
    "themselves from released jars of kafka-server-common"
)


def printed(release: str) -> list[list[str]]:
    """Let the classes of one release say what they know."""
    classpath = f"{jars_of(recipe_for(release))}/*"
    done = subprocess.run(  # noqa: S603 - our own arguments
        [find_java(), *JVM_OPTIONS, "-cp", classpath, PRINTER], capture_output=True, text=True, check=True, timeout=120
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def tables() -> dict[str, Any]:
    """Put together what all releases say."""
    said = {release: printed(release) for release in RELEASES}
    production = {release: int(only(rows, "production")[0][0]) for release, rows in said.items()}
    metadata: dict[int, list[Any]] = {}
    for release, rows in said.items():
        for number, name, changed in only(rows, "metadata"):
            level = int(number)
            if level <= production[release] and level not in metadata:
                metadata[level] = [level, name, changed == "true", release]
    newest = RELEASES[-1]
    return {
        "source": SOURCE,
        "metadata_versions_columns": ["level", "name", "did_metadata_change", "read_from"],
        "metadata_versions_note": (
            "A level is rewritten until its release is out, "
            "so each row is read from a release that has it in production."
        ),
        "metadata_versions": [metadata[level] for level in sorted(metadata)],
        "latest_production": {name.partition("-")[0]: level for level, name, *_ in metadata_since_39(metadata)},
        "features_read_from": newest,
        "features_columns": ["level", "bootstrap_metadata_version", "depends_on"],
        "features_note": (
            "In the order of kafka-features version-mapping. "
            "kraft.version 1 depended on metadata.version 21 in 4.0 only."
        ),
        "features": features(said[newest]),
    }


def metadata_since_39(metadata: dict[int, list[Any]]) -> list[list[Any]]:
    """Return the rows of releases whose brokers support more than ``metadata.version``, lowest first."""
    first = next(level for level, row in metadata.items() if row[1].startswith("3.9"))
    return [metadata[level] for level in sorted(metadata) if level >= first]


def features(rows: list[list[str]]) -> dict[str, list[list[Any]]]:
    """Group the levels of each feature."""
    found: dict[str, list[list[Any]]] = {}
    for name, level, bootstrap, needs in only(rows, "feature"):
        pairs = (need.split("=") for need in needs.split(",") if need)
        found.setdefault(name, []).append([int(level), bootstrap, {other: int(least) for other, least in pairs}])
    return found


def only(rows: list[list[str]], kind: str) -> list[list[str]]:
    """Return the rows of one kind, without it."""
    return [row[1:] for row in rows if row[0] == kind]


def text_of(found: dict[str, Any]) -> str:
    """Lay the tables out: a line for each row."""
    lines = []
    for key, value in found.items():
        if key == "metadata_versions":
            body = "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in value) + "\n  ]"
        elif key == "features":
            body = (
                "{\n"
                + ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
                + "\n  }"
            )
        else:
            body = json.dumps(value)
        lines.append(f"  {json.dumps(key)}: {body}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write the file, or say whether it is right."""
    text = text_of(tables())
    if "--check" in sys.argv[1:]:
        right = FILE.read_text() == text
        print(f"{FILE.relative_to(ROOT)} is {'' if right else 'not '}what the jars say")
        return 0 if right else 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
