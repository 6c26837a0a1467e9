"""The front door of the PySpark side: what it exports, and what importing it costs an executor."""

import importlib
import json
import subprocess
import sys

import pytest

import featuregate_spark as door
from featuregate.version import how_to_install
from featuregate_spark import errors

PURE = (
    "errors",
    "events",
    "failures",
    "options",
    "pins.pin",
    "pins.write_once",
    "session_kind",
    "sink.options",
    "sink.progress",
    "sink.shards",
    "snapshot",
    "source.rows",
)
FRAMEWORKS = {"pyspark", "py4j", "pandas", "pyarrow", "confluent_kafka"}
WITHOUT = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "py4j"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
sys.meta_path.insert(0, Missing())
import featuregate_spark
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def modules_after(code: str) -> set[str]:
    return set(json.loads(run(f"import json, sys\n{code}\nprint(json.dumps([*sys.modules]))")))


def test_every_public_name_is_that_of_its_room() -> None:
    """``from featuregate_spark import *`` imports the names in ``__all__``, and dir() lists them."""
    for name, room in door._HOMES.items():
        assert getattr(door, name) is getattr(importlib.import_module(f"featuregate_spark.{room}"), name)
    own = {name for name, kind in vars(errors).items() if isinstance(kind, type) and kind.__module__ == errors.__name__}
    assert {*door._HOMES, *own} == set(door.__all__)
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = door.Nothing  # type: ignore[attr-defined]


def test_the_door_and_the_pure_rooms_import_no_spark() -> None:
    """An executor that unpickles a snapshot loads only that. The last line shows that the check sees PySpark."""
    rooms = "\n".join(f"import featuregate_spark.{room}" for room in PURE)
    assert not modules_after(f"import featuregate_spark\n{rooms}") & FRAMEWORKS
    assert "pyspark" in modules_after("from featuregate_spark import FeatureListener")


def test_an_executor_that_reads_a_snapshot_loads_no_discoverer() -> None:
    """The executor loads no poll loop, no sockets and no TLS."""
    found = modules_after("from featuregate_spark import Snapshot\nSnapshot.from_json(Snapshot().to_json())")
    assert not found & {*FRAMEWORKS, "featuregate.polling.discoverer", "featuregate.net", "ssl", "asyncio"}


def test_without_pyspark_the_extra_is_named() -> None:
    """Names that do not need PySpark still work."""
    code = """
print(featuregate_spark.Snapshot().epoch)
try:
    featuregate_spark.FeatureListener
except ImportError as error:
    print(error)
"""
    words = f"featuregate_spark needs pyspark: {how_to_install('spark')}"
    assert run(WITHOUT + code).splitlines() == ["-1", words]
