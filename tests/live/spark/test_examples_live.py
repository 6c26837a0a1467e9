"""The examples of Spark jobs, as users run them: a script, ``spark-submit``, and featuregate in a wheel."""

import json
import logging
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from doc_pages import PYTHON, ROOT, SPARK, name, python_of
from streams.sessions import SETTINGS, class_path
from topics import create_topics

from featuregate.testing import FakeCluster, LocalKafka
from featuregate_confluent.member.membership import leave_group

pytestmark = [pytest.mark.proof("spark"), pytest.mark.live, pytest.mark.slow]

EXAMPLES = ROOT / "examples" / "spark_job"
BOUND = 60.0
JOB_SECONDS = 240.0
ZSTD = 4
QUIET = logging.getLogger("tests.examples")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class Submit(NamedTuple):
    """A Python with all that a Spark job needs except featuregate, and featuregate as a zip."""

    python: Path
    packages: Path
    wheel: Path

    def run(self, script: Path, *arguments: str, py_files: bool = True, settings: tuple[str, ...] = ()) -> str:
        jars = class_path()
        given = {
            **SETTINGS,
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.log.level": "OFF",
        }
        told = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
        files = ["--py-files", str(self.wheel)] if py_files else []
        home = self.packages / "pyspark"
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", *told, *settings, *files, str(script)]
        kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        environment = {
            **kept,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
        }
        done = subprocess.run(
            [*command, *arguments],
            env=environment,
            cwd=self.wheel.parent,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS,
            check=False,
        )
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Submit:
    """Make a virtual environment with links to all packages of this one except featuregate."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("submit")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipped = shutil.move(wheel, folder / "featuregate.zip")  # Spark takes no other ending
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "featuregate" not in each.name and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    python = folder / "venv" / "bin" / "python"
    without = subprocess.run(
        [python, "-c", "import pyspark, featuregate"], cwd=folder, check=False, capture_output=True, text=True
    )
    assert "No module named 'featuregate'" in without.stderr
    return Submit(python, packages, Path(zipped))


class Place(NamedTuple):
    """A cluster, and the folder of its broker's records."""

    kafka: LocalKafka
    data: Path

    def topics(self, *names: str) -> None:
        create_topics(self.kafka.client_config({"logger": QUIET}), *names)

    def send(self, topic: str, *values: str) -> None:
        producer = Producer(self.kafka.client_config(), logger=QUIET)
        for value in values:
            producer.produce(topic, value.encode(), key=value.encode())
        assert producer.flush(BOUND) == 0

    def values(self, topic: str, count: int) -> list[str]:
        consumer = Consumer(
            self.kafka.client_config({"group.id": "test", "auto.offset.reset": "earliest"}), logger=QUIET
        )
        try:
            consumer.subscribe([topic])
            return [(message.value() or b"").decode() for message in consumer.consume(count, BOUND)]
        finally:
            leave_group(consumer)

    def codecs(self, topic: str) -> set[int]:
        (segment,) = self.data.glob(f"{topic}-0/*.log")
        records, at, found = segment.read_bytes(), 0, set()
        while at < len(records):
            (size,) = struct.unpack_from(">i", records, at + 8)
            (attributes,) = struct.unpack_from(">h", records, at + 21)
            found.add(attributes & 0b111)
            at += 12 + size
        return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    data = tmp_path_factory.mktemp("data")
    with LocalKafka("4.2.0", properties={"log.dirs": data}) as kafka:
        yield Place(kafka, data)


def test_the_gated_stream_keeps_its_format_when_the_level_is_lowered(
    submit: Submit, place: Place, tmp_path: Path
) -> None:
    """The job runs twice, with featuregate in a zip: the second run finds the latch in the checkpoint."""
    place.topics("orders", "out")
    checkpoint = tmp_path / "checkpoint"
    where = ["--bootstrap", place.kafka.bootstrap, "--input", "orders", "--output", "out", "--once"]
    place.send("orders", "one", "two")
    first = submit.run(EXAMPLES / "gated_stream.py", *where, "--checkpoint", str(checkpoint))
    assert "{'zstd': True, 'new-format': True" in first
    place.kafka.downgrade({"transaction.version": 1})
    place.send("orders", "three")
    second = submit.run(EXAMPLES / "gated_stream.py", *where, "--checkpoint", str(checkpoint))
    assert "by the latch: ('new-format',)" in second
    assert sorted(place.values("out", 3)) == ["ONE", "THREE", "TWO"]
    assert place.codecs("out") == {ZSTD}
    pins = [json.loads(pin.read_text()) for pin in sorted((checkpoint / "featuregate").glob("pin-*"))]
    assert [pin["batch_id"] for pin in pins] == [0, 1]


def test_the_gated_stream_keeps_the_old_format_without_the_new_feature(
    submit: Submit, place: Place, tmp_path: Path
) -> None:
    """The job requires a level that no cluster has."""
    place.topics("orders-old", "out-old")
    where = ["--bootstrap", place.kafka.bootstrap, "--input", "orders-old", "--output", "out-old", "--once"]
    place.send("orders-old", "one")
    told = submit.run(
        EXAMPLES / "gated_stream.py",
        *where,
        *("--checkpoint", str(tmp_path / "checkpoint"), "--new-format-when", "transaction.version>=9"),
    )
    assert "'new-format': False" in told
    assert place.values("out-old", 1) == ["one"]


@pytest.mark.parametrize(("level", "path"), [(2, "new"), (1, "old")])
def test_the_guarded_functions_of_the_page_take_one_path(submit: Submit, tmp_path: Path, level: int, path: str) -> None:
    """The first block of the page has a function in each form."""
    first = PYTHON.search((ROOT / "docs/how-to/gate-a-spark-job.md").read_text())
    assert first
    with FakeCluster() as kafka:
        kafka.finalize({"transaction.version": level})
        (tmp_path / "page.py").write_text(first["code"].replace("localhost:9092", kafka.bootstrap))
        told = submit.run(tmp_path / "page.py")
    assert told.count(f"0 the {path} way") == 2


@pytest.mark.parametrize("page", SPARK, ids=name)
def test_the_python_of_the_page_runs(
    submit: Submit, tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks, one after another, with a cluster and folders of the test's own."""
    monkeypatch.setenv("KAFKA_LOGIN", "what the page reads")
    with LocalKafka("4.2.0") as kafka:
        place = Place(kafka, tmp_path)
        place.topics("orders", "orders-out")
        place.send("orders", "one", "two")
        code = python_of(page.read_text()).replace("localhost:9092", kafka.bootstrap)
        code = code.replace('"/var/lib/', f'"{tmp_path}/').replace('"/data/', f'"{tmp_path}/')
        (tmp_path / "page.py").write_text(code.replace("__main__", "another test runs the whole job"))
        submit.run(tmp_path / "page.py")
        assert {"ONE", "TWO"} <= {*place.values("orders-out", 4)}


EXECUTOR = """
import os, sys
from pyspark.sql import SparkSession
from featuregate_spark import Snapshot

spark = SparkSession.builder.getOrCreate()
snapshot = Snapshot(epoch=7)

def where(_part):
    import featuregate, featuregate_spark
    yield featuregate.__file__, featuregate_spark.__file__, snapshot.epoch, os.environ.get("SPARK_EXECUTOR_DIRS", "")

print("TOLD", sorted(spark.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect()))
spark.stop()
"""


def test_executors_import_featuregate_from_the_zip(submit: Submit, tmp_path: Path) -> None:
    """The executor has a JVM of its own, and its task fails without the zip."""
    script = tmp_path / "where.py"
    script.write_text(EXECUTOR)
    cluster = ("--master", "local-cluster[1,1,512]", "--conf", "spark.executor.memory=512m")
    told = submit.run(script, settings=cluster)
    (line,) = (line for line in told.splitlines() if line.startswith("TOLD"))
    assert line.count("featuregate.zip/featuregate/__init__.py") == 2
    assert line.count("featuregate.zip/featuregate_spark/__init__.py") == 2
    assert str(ROOT) not in line
    with pytest.raises(AssertionError, match="No module named 'featuregate_spark'"):
        submit.run(script, py_files=False)
