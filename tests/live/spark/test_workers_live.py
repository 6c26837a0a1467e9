"""Decisions in workers, without a snapshot and with one; with workers reused, and not."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession, functions
from streams import meeting
from streams.meeting import change_amid, meet
from streams.sessions import local_spark

import featuregate as fg
from featuregate.errors import ClosedError
from featuregate.testing import FakeCluster
from featuregate_spark import FeatureSession, Snapshot

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    # PySpark leaves the socket of each collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

TV2 = "transaction.version>=2"
BOUND = 60.0
TASKS = 4
FORMS = ("udf", "pandas_udf", "mapInPandas", "mapInArrow")


@pytest.fixture(
    scope="module",
    params=["true", pytest.param("false", marks=pytest.mark.proof("spark"))],
    ids=["reused", "not_reused"],
)
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    cloudpickle.register_pickle_by_value(meeting)  # workers cannot import what tests share
    with local_spark("local[2,4]", spark_python_worker_reuse=request.param) as session:
        yield session
    cloudpickle.unregister_pickle_by_value(meeting)


@pytest.fixture
def reused(spark: SparkSession) -> bool:
    return spark.conf.get("spark.python.worker.reuse") == "true"


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def features(spark: SparkSession, kafka: FakeCluster) -> Iterator[FeatureSession]:
    with FeatureSession(spark, kafka.bootstrap) as session:
        session.gate("tv2", TV2, policy="live")
        yield session


@pytest.fixture
def appflags(spark: SparkSession, tmp_path: Path, reused: bool) -> Iterator[ModuleType]:  # noqa: FBT001 - pytest gives it
    name = f"appflags_{'reused' if reused else 'fresh'}"
    (tmp_path / f"{name}.py").write_text("EOS = False\nSEEN = None\n")
    spark.sparkContext.addPyFile(str(tmp_path / f"{name}.py"))
    importlib.invalidate_caches()
    yield importlib.import_module(name)
    del sys.modules[name]


def lower(kafka: FakeCluster, features: FeatureSession) -> None:
    kafka.finalize({"transaction.version": 1})
    features._watch.features.refresh()
    assert not features.snapshot()["tv2"].open


def run(spark: SparkSession, form: str, path: Callable[[int], str]) -> list[str]:
    """Return the results of four tasks, in their order, of a function of this form."""
    frame = spark.range(TASKS, numPartitions=TASKS)
    return [str(row[0]) for row in shaped(frame, form, path).collect()]


def shaped(frame: DataFrame, form: str, path: Callable[[int], str]) -> DataFrame:
    if form == "udf":
        return frame.select(functions.udf(path)("id"))
    if form == "pandas_udf":
        return frame.select(functions.pandas_udf(lambda ids: ids.map(path), "string")("id"))  # type: ignore[call-overload]
    if form == "mapInPandas":
        return frame.mapInPandas(
            lambda parts: (pd.DataFrame({"p": each["id"].map(path)}) for each in parts), "p string"
        )
    return frame.mapInArrow(
        lambda parts: (pa.RecordBatch.from_pydict({"p": [*map(path, each["id"].to_pylist())]}) for each in parts),
        "p string",
    )


# ---------------------------------------------------------------------- a flag in a module


def test_a_flag_that_the_driver_sets_in_a_module_is_its_default_in_workers(
    spark: SparkSession, features: FeatureSession, appflags: ModuleType
) -> None:
    """The trap, and the snapshot in the same task."""
    appflags.EOS = features.snapshot()["tv2"].open
    snapshot = features.snapshot()

    def path(_number: int) -> str:
        return f"flag={appflags.EOS} snapshot={snapshot['tv2'].open}"

    assert appflags.EOS is True
    assert run(spark, "udf", path) == ["flag=False snapshot=True"] * TASKS


def test_a_flag_that_a_worker_caches_is_stale_while_the_worker_is_reused(
    spark: SparkSession,
    kafka: FakeCluster,
    features: FeatureSession,
    appflags: ModuleType,
    reused: bool,  # noqa: FBT001 - pytest gives it
) -> None:
    """The trap: the second job gets the flag of the first. Each plan has its own snapshot."""

    def job() -> set[str]:
        snapshot = features.snapshot()

        def path(_number: int) -> str:
            if appflags.SEEN is None:
                appflags.SEEN = snapshot["tv2"].open
            return f"kept={appflags.SEEN} snapshot={snapshot['tv2'].open}"

        return {*run(spark, "udf", path)}

    assert job() == {"kept=True snapshot=True"}
    lower(kafka, features)
    second = job()
    assert ("kept=True snapshot=False" in second) is reused
    assert {each.partition(" ")[2] for each in second} == {"snapshot=False"}


# ---------------------------------------------------------------------- what must not travel


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ("session", r"send features\.snapshot\(\), or its broadcast\(\)"),
        ("gate", r"send gate\.pin\(\)"),
        ("discoverer", r"send the View instead"),
    ],
)
def test_a_live_object_in_a_closure_fails_with_what_to_send(
    spark: SparkSession, features: FeatureSession, what: str, instead: str
) -> None:
    """The error is raised on the driver at once: no task has run."""
    gate = features.gate("tv2", TV2, policy="live")
    live = {"session": features, "gate": gate, "discoverer": features._watch.features}[what]
    with pytest.raises(Exception, match=instead):
        run(spark, "udf", lambda _number: repr(live))


def test_a_session_is_refused_in_a_task(spark: SparkSession, kafka: FakeCluster) -> None:
    """Tasks that ask brokers themselves disagree; the error says where to make the session."""
    bootstrap = kafka.bootstrap

    def path(_number: int) -> str:
        try:
            FeatureSession(None, bootstrap)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return f"{type(error).__name__}: {error}"
        return "made"

    (told,) = {*run(spark, "udf", path)}
    assert told.startswith("WrongSession: this is a task of an executor")
    assert "let the function close over features.snapshot()" in told
    assert kafka.requests == ()


# ---------------------------------------------------------------------- all tasks of a job


def test_tasks_that_ask_brokers_themselves_disagree(
    spark: SparkSession, kafka: FakeCluster, features: FeatureSession
) -> None:
    """The trap: the level is lowered after the first task has asked, and before the others do."""
    bootstrap = kafka.bootstrap
    with change_amid(lambda: lower(kafka, features)) as place:

        def path(number: int) -> str:
            if number > 0:
                meet(place, first=False)
            level = fg.discover(bootstrap).level("transaction.version")
            if number == 0:
                meet(place, first=True)
            return f"level {level}"

        assert run(spark, "udf", path) == ["level 2", "level 1", "level 1", "level 1"]


@pytest.mark.parametrize("form", FORMS)
def test_all_tasks_agree_though_the_level_is_lowered_meanwhile(
    spark: SparkSession, kafka: FakeCluster, features: FeatureSession, form: str
) -> None:
    """The guard chose when the plan was built. A function keeps its snapshot, and a new plan takes a new one."""
    with change_amid(lambda: lower(kafka, features)) as place:

        def old_path(_number: int) -> str:
            return "old"

        def new_path(number: int) -> str:
            meet(place, first=number == 0)
            return "new"

        guarded = features.snapshot().guard("tv2", fallback=old_path)(new_path)
        assert run(spark, form, guarded) == ["new"] * TASKS
        assert not features.snapshot()["tv2"].open, "it was lowered meanwhile"
        assert run(spark, form, guarded) == ["new"] * TASKS, "a closure keeps what it has"
        again = features.snapshot().guard("tv2", fallback=old_path)(new_path)
        assert run(spark, form, again) == ["old"] * TASKS


def test_a_broadcast_is_the_same_in_all_tasks(
    spark: SparkSession, kafka: FakeCluster, features: FeatureSession
) -> None:
    """A later change of the cluster is in a later broadcast."""

    def opened(sent: object) -> set[str]:
        return {*run(spark, "udf", lambda _number: str(sent.value["tv2"].open))}  # type: ignore[attr-defined]

    first = features.broadcast()
    lower(kafka, features)
    assert opened(first) == {"True"}
    assert opened(features.broadcast()) == {"False"}


def test_a_task_whose_worker_died_decides_the_same_again(
    spark: SparkSession, kafka: FakeCluster, features: FeatureSession, tmp_path: Path
) -> None:
    """It was killed after the level was lowered; the trap in the same task gets another answer than before."""
    bootstrap, notes = kafka.bootstrap, tmp_path

    def told(snapshot: Snapshot) -> str:
        return f"snapshot={snapshot['tv2'].open} asked={fg.discover(bootstrap).level('transaction.version')}"

    with change_amid(lambda: lower(kafka, features)) as place:
        snapshot = features.snapshot()

        def path(number: int) -> str:
            context = TaskContext.get()
            assert context is not None
            if number == 0 and context.attemptNumber() == 0:
                (notes / "before").write_text(told(snapshot))
                meet(place, first=True)
                os.kill(os.getpid(), signal.SIGKILL)
            return told(snapshot) if number == 0 else "well"

        after = run(spark, "mapInPandas", path)
    assert (notes / "before").read_text() == "snapshot=True asked=2"
    assert after == ["snapshot=True asked=1", "well", "well", "well"]


# ---------------------------------------------------------------------- the end


def test_a_session_ends_with_its_spark(spark: SparkSession, kafka: FakeCluster) -> None:
    """The session closes within a poll. This test is the module's last, because it stops the shared Spark session."""
    features = FeatureSession(spark, kafka.bootstrap, interval=0.2)
    (thread,) = (each for each in threading.enumerate() if each.name == "featuregate-poll")
    spark.stop()
    thread.join(BOUND)
    assert not thread.is_alive()
    with pytest.raises(ClosedError):
        features.snapshot()
