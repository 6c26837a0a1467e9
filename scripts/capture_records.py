"""Let Kafka's own classes encode records of coordinators: ``tests/data/records/<release>.json``.

Makes two records of each type and version, one that says everything and one that says as little as it can, hands them
to the classes that Kafka generates from its schemas, and writes down the bytes. Needs a JDK, which compiles the few
lines of Java below, and a release's jars, which ``LocalKafka`` keeps:

    python scripts/capture_records.py 4.3.1
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from featuregate.catalog.load import load
from featuregate.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, ZERO_UUID, Key, Value
from featuregate.testing.local_kafka.commands import jars_of
from featuregate.testing.local_kafka.releases import recipe_for

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "records"
MESSAGES = load("record_schemas")["messages"]
PACKAGES = {CONSUMER_OFFSETS: "group", TRANSACTION_STATE: "transaction", SHARE_GROUP_STATE: "share"}
ENCODER = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

class Encoder {
    public static void main(String[] none) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] asked = line.split("\\t", 3);
            short version = Short.parseShort(asked[1]);
            Message message = (Message) Class.forName(asked[0] + "JsonConverter")
                .getMethod("read", JsonNode.class, short.class).invoke(null, mapper.readTree(asked[2]), version);
            byte[] bytes = MessageUtil.toVersionPrefixedBytes(version, message);
            System.out.println(HexFormat.of().formatHex(bytes, 2, bytes.length));
        }
    }
}
"""


def message(name: str, version: int, numbers: Iterator[int], *, full: bool) -> dict[str, Any]:
    """Make the JSON of a key or a value; each field that can gets another number or text."""
    schema = MESSAGES[name]

    def structure(fields: list[dict[str, Any]]) -> dict[str, Any]:
        there = (field for field in fields if re.match(rf"{version}\b|[0-{version}]\+", field.get("versions", "0+")))
        return {field["name"]: value(field) for field in there}

    def value(field: dict[str, Any]) -> Any:
        kind = field["type"].removeprefix("[]")
        if not full and "nullableVersions" in field:
            return None  # as brokers write it: a default that they leave out says nothing here
        if not full and "tag" in field:
            return field.get("default", ZERO_UUID)
        if kind != field["type"]:
            return [one(kind) for _ in range(2 if full else 0)]
        return one(kind)

    def one(kind: str) -> Any:
        if kind in schema.get("commonStructs", {}):
            return structure(schema["commonStructs"][kind])
        return scalar(kind, numbers, full=full)

    return structure(schema["fields"])


def scalar(kind: str, numbers: Iterator[int], *, full: bool) -> Any:
    """Make the JSON of a primitive value; negative where it can be, to tell signed from unsigned."""
    if kind in {"string", "bytes"}:
        text = f"text {next(numbers)} é" if full else ""
        return text if kind == "string" else b64encode(text.encode()).decode()
    number = next(numbers)
    if kind == "uuid":
        return urlsafe_b64encode(bytes(range(number, number + 16))).decode()[:22] if full else ZERO_UUID
    return {"int8": number % 100, "uint16": 65_535}.get(kind, -number)


def samples() -> Iterator[dict[str, Any]]:
    """Make records, without their bytes."""
    for log, package in PACKAGES.items():
        for number, (key, values) in log.records.items():
            for version in range(values.VERSIONS[0], values.VERSIONS[1] + 1):
                if (number, key.__name__) == (0, "LegacyOffsetCommitKey") and version:
                    continue
                for full in (True, False):
                    numbers = itertools.count(1)
                    yield {
                        "topic": log.topic,
                        "type": number,
                        "version": version,
                        "package": package,
                        "names": (key.__name__, java_name(key, values)),
                        "key": message(key.__name__, 0, numbers, full=full),
                        "value": message(values.__name__, version, numbers, full=full),
                    }


def java_name(key: type[Key], values: type[Value]) -> str:
    """Kafka has a class of its own for legacy values, with what all versions have."""
    return "LegacyOffsetCommitValue" if key.__name__.startswith("Legacy") else values.__name__


def main(release: str) -> None:
    """Encode, and write."""
    made = list(samples())
    asked = []
    for sample in made:
        package = f"org.apache.kafka.coordinator.{sample.pop('package')}.generated."
        key, values = sample.pop("names")
        asked += [f"{package}{key}\t0\t{json.dumps(sample['key'])}"]
        asked += [f"{package}{values}\t{sample['version']}\t{json.dumps(sample['value'])}"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "Encoder.java"
        source.write_text(ENCODER, encoding="utf-8")
        java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars_of(recipe_for(release))}/*", str(source)]
        run = subprocess.run(java, input="\n".join(asked), capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    if run.returncode:
        sys.exit(run.stderr)
    lines = iter(run.stdout.split("\n"))
    for sample in made:
        sample["key_bytes"] = sample["type"].to_bytes(2).hex() + next(lines)
        sample["value_bytes"] = sample["version"].to_bytes(2).hex() + next(lines)
    text = ",\n".join(json.dumps(sample, ensure_ascii=False) for sample in made)
    (FOLDER / f"{release}.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
