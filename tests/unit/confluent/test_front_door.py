"""The front door of the integration: what it exports, and what importing it costs."""

import importlib
import json
import subprocess
import sys

import pytest

import featuregate_confluent as door
from featuregate.version import how_to_install

PURE = ("config.settings", "errors", "events", "latch.marks", "models", "latch.protocol", "member.failure_limits")
WITHOUT = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "confluent_kafka":
            raise ModuleNotFoundError(f"No module named {name!r}", name="confluent_kafka")
sys.meta_path.insert(0, Missing())
import featuregate_confluent
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_every_name_is_there_and_is_that_of_its_room() -> None:
    for room, names in door._ROOMS.items():
        for name in names.split():
            assert getattr(door, name) is getattr(importlib.import_module(room), name)
    assert sorted(door._HOMES) == sorted(door.__all__)
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = door.Nothing  # type: ignore[attr-defined]


def test_the_door_and_the_pure_rooms_import_no_client() -> None:
    """Operators' tools and tests of the decisions need no client."""
    rooms = "".join(f"import featuregate_confluent.{room}\n" for room in PURE)
    told = run(f"import json, sys, featuregate_confluent\n{rooms}print(json.dumps(sorted(sys.modules)))")
    assert "confluent_kafka" not in json.loads(told)
    told = run("import json, sys\nfrom featuregate_confluent import ProducerSwitch\nprint(json.dumps([*sys.modules]))")
    assert "confluent_kafka" in json.loads(told)


def test_without_confluent_kafka_the_extra_is_named() -> None:
    """Modules that do not need the client still work, and the error names the extra."""
    code = (
        WITHOUT
        + """
print(featuregate_confluent.Model.V2.label)
for name in ("ProducerSwitch", "ExactlyOnceProcessor", "safe_send_offsets"):
    try:
        getattr(featuregate_confluent, name)
    except ImportError as error:
        print(error)
"""
    )
    words = f"featuregate_confluent needs confluent-kafka: {how_to_install('confluent')}"
    assert run(code).splitlines() == ["v2", words, words, words]
