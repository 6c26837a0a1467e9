"""Records as Kafka's own generated classes encode them, captured by ``scripts/capture_records.py``."""

import dataclasses
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from record_strategies import LOGS, each_kind

FOLDER = Path(__file__).parents[2] / "data" / "records"
LOG = {log.topic: log for log in LOGS}
GOLDEN = [
    pytest.param(sample, id=f"{path.stem}-{sample['topic']}-{sample['type']}-v{sample['version']}-{number % 2}")
    for path in sorted(FOLDER.glob("*.json"))
    for number, sample in enumerate(json.loads(path.read_text(encoding="utf-8")))
]


def as_json(said: Any, shape: Any) -> Any:
    """Write a field as Kafka's JSON does; a structure has the fields of this version only."""
    if isinstance(said, bytes):
        return b64encode(said).decode()
    if isinstance(said, tuple):
        return [as_json(each, inner) for each, inner in zip(said, shape, strict=True)]
    if dataclasses.is_dataclass(said):
        names = {camel(field.name): field.name for field in dataclasses.fields(said)}
        assert shape.keys() <= names.keys()
        return {name: as_json(getattr(said, names[name]), inner) for name, inner in shape.items()}
    return said


def camel(name: str) -> str:
    """Spell a field as Kafka's JSON does."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("sample", GOLDEN)
def test_records_are_those_of_kafkas_own_classes(sample: dict[str, Any]) -> None:
    """The decoder reads every field from Kafka's bytes, and the encoder writes the same bytes."""
    log = LOG[sample["topic"]]
    key, value = bytes.fromhex(sample["key_bytes"]), bytes.fromhex(sample["value_bytes"])
    record = log.decode(key, value)
    assert as_json(record.key, sample["key"]) == sample["key"]
    assert as_json(record.value, sample["value"]) == sample["value"]
    assert (record.record_type, record.version) == (sample["type"], sample["version"])
    assert log.encode(record) == (key, value)


def test_every_type_and_version_is_among_them() -> None:
    """Legacy offsets are the exception: Kafka's classes write only their first version."""
    captured = {(param.values[0]["topic"], param.values[0]["type"], param.values[0]["version"]) for param in GOLDEN}
    assert captured == {
        (log.topic, key.RECORD_TYPE, version)
        for log, key, _, version in each_kind()
        if not (key.__name__ == "LegacyOffsetCommitKey" and version)
    }
