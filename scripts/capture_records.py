"""Let Kafka's own classes encode records of coordinators: ``tests/data/records/<release>.json``.

Makes two records of each type and version, one that says everything and one that says as little as it can, hands them
to the classes that Kafka generates from its schemas, and writes down the bytes. Needs a JDK, which compiles the few
lines of Java below, and a release's jars, which ``LocalKafka`` keeps:

    python scripts/capture_records.py 4.3.1
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import tempfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from featuregate.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, Key, Value
from featuregate.testing.local_kafka.jars import jars_of
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.wire.schema import ZERO_UUID, Scalar, Tag, Versions

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "records"
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


def camel(name: str) -> str:
    """Spell a field as Kafka's JSON does."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def structure(cls: type, version: int, numbers: Iterator[int], *, full: bool) -> dict[str, Any]:
    """Make the JSON of one structure; each field that can gets another number or text."""
    hints = get_type_hints(cls, include_extras=True)
    made = {}
    for field in dataclasses.fields(cls):
        if field.name == "unknown_tags":
            continue
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        lives = next((mark for mark in marks if isinstance(mark, Versions)), Versions(0))
        if lives.first <= version <= lives.last:
            if full or not any(isinstance(mark, Tag) for mark in marks):
                made[camel(field.name)] = value(hint, version, numbers, full=full)
            else:  # null where it may be, as brokers write it: a default that they leave out says nothing here
                made[camel(field.name)] = None if NoneType in get_args(hint.__origin__) else field.default
    return made


def value(hint: Any, version: int, numbers: Iterator[int], *, full: bool) -> Any:
    """Make the JSON of one value."""
    if scalar := next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Scalar)), None):
        return scalar_value(scalar, next(numbers), full=full)
    if get_origin(hint) is Annotated:
        return value(hint.__origin__, version, numbers, full=full)
    choices = get_args(hint)
    if NoneType in choices:
        return value(choices[0], version, numbers, full=full) if full else None
    if get_origin(hint) is tuple:
        return [value(choices[0], version, numbers, full=full) for _ in range(2 if full else 0)]
    if hint in {str, bytes}:
        text = f"text {next(numbers)} é" if full else ""
        return text if hint is str else b64encode(text.encode()).decode()
    return structure(hint, version, numbers, full=full)


def scalar_value(scalar: Scalar, number: int, *, full: bool) -> Any:
    """Make the JSON of a primitive value; negative where it can be, to tell signed from unsigned."""
    if scalar.name == "uuid":
        return urlsafe_b64encode(bytes(range(number, number + 16))).decode()[:22] if full else ZERO_UUID
    return number % 100 if scalar.size == 1 else 65_535 if scalar.name == "uint16" else -number


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
                        "key": structure(key, 0, numbers, full=full),
                        "value": structure(values, version, numbers, full=full),
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
