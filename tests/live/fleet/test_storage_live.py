"""The pipeline with logs and tables on object stores and on HDFS, and with tables in a catalog."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from getpass import getuser
from pathlib import Path
from typing import Any, NamedTuple

import azure_storage
import cloud_storage
import pytest
import storage_runs
from fleet_runs import lines
from hdfs_backend import of_hdfs_native
from hdfs_cluster import hdfs_cluster
from killed_runs import Moment, killed
from object_store import BUCKET, object_store, object_store_with_meetings, of_s3
from waiting import eventually

pytest.importorskip("upath")

from featuregate_fleet.files.storage import storage_path

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(3000)]

WITHIN = 1200
"""Seconds for a run on a busy machine."""


class Store(NamedTuple):
    """Where the logs and tables of a test are, and the environment of a program that uses it."""

    root: str
    environment: dict[str, str]


@contextmanager
def on_s3() -> Iterator[Store]:
    with object_store() as endpoint:
        yield Store(f"s3://{BUCKET}", of_s3(endpoint))


@contextmanager
def on_cloud_storage() -> Iterator[Store]:
    with cloud_storage.cloud_storage() as environment:
        yield Store(f"gs://{cloud_storage.BUCKET}", environment)


@contextmanager
def on_azure() -> Iterator[Store]:
    with azure_storage.azure_storage() as environment:
        place = f"{azure_storage.CONTAINER}@{azure_storage.ACCOUNT}.dfs.core.windows.net"
        yield Store(f"abfss://{place}", environment)


@contextmanager
def on_webhdfs() -> Iterator[Store]:
    with hdfs_cluster() as hdfs:
        yield Store(f"webhdfs://{hdfs.http}/lake", {"HADOOP_USER_NAME": getuser(), "FSSPEC_WEBHDFS_USER": getuser()})


@contextmanager
def on_hdfs() -> Iterator[Store]:
    with of_hdfs_native(), hdfs_cluster() as hdfs:
        yield Store(f"hdfs://{hdfs.rpc}/lake", {"HADOOP_USER_NAME": getuser()})


def runs(store: Store, *places: dict[str, str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, storage_runs.__file__, json.dumps(places)],
        capture_output=True,
        text=True,
        env=os.environ | store.environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]  # VACUUM prints lines, too


def place(logs: str, tables: str) -> dict[str, str]:
    return {"logs": logs, "tables": tables}


@pytest.mark.parametrize("on_storage", [on_s3, on_cloud_storage, on_azure, on_webhdfs, on_hdfs])
def test_a_storage_has_what_a_disk_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_storage: Callable[[], AbstractContextManager[Store]]
) -> None:
    """A run that is killed after its commit, and those after it: each file once, as on a disk."""
    monkeypatch.chdir(tmp_path)
    here = place(str(tmp_path / "logs"), str(tmp_path / "tables"))
    storage_runs.write_logs(tmp_path / "logs", 0)
    with on_storage() as store:
        for name, text in store.environment.items():
            monkeypatch.setenv(name, text)
        config = pytest.importorskip("fsspec.config")
        config.set_conf_env(config.conf)  # as at the start of a process
        there = place(f"{store.root}/logs", f"{store.root}/tables")
        storage_runs.write_logs(storage_path("", f"{store.root}/logs"), 0)
        command = fleet_run(f"{store.root}/logs", f"{store.root}/tables", "--once")
        table = storage_path("", f"{store.root}/tables/c")
        was_killed = killed(command, table, Moment("after", "all", 1), lambda: None, tmp_path / "own")
        assert was_killed, "the run has ended before it was killed"
        on_disk, stored = runs(store, here, there)
    assert stored == on_disk
    assert (on_disk["left"], on_disk["unused"]) == (0, 0), "no file of an earlier version is left"
    assert {kind for kind, rows in on_disk["rows"].items() if rows} == {"usage", "hour", "quarantine", "source", "run"}
    assert on_disk["totals"][1] == on_disk["totals"][2], "the last run reads nothing"
    assert on_disk["missing"] == [["1/damaged-1.log.gz"], []], "the run that reads it names it"
    assert not {path.name for path in tmp_path.iterdir()} - {"logs", "tables", "own"}, "a folder is made out of a URI"


USAGE = """
import json, sys
from collections import Counter
from featuregate_fleet.files.storage import on_s3, storage_path
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

place = storage_path("tables", sys.argv[1])
with local_session(topics=False, s3=on_s3(place)) as spark:
    found = Counter()
    for row in EvidenceTable(spark, place, "c").rows("usage").collect():
        found[row.client_id] += row["count"]
    print(json.dumps(found))
"""


def fleet_run(logs: str, tables: str, *how: str) -> list[str]:
    place = ["--logs", logs, "--tables", tables, "--cluster", "c"]
    return [sys.executable, "-m", "featuregate", "fleet", "run", *place, *how]


def used(store: Store, tables: str) -> dict[str, int]:
    environment = os.environ | store.environment
    done = subprocess.run(
        [sys.executable, "-c", USAGE, tables], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


IN_A_FILE = 25
KILLS = [
    Moment("before", "driver", 0),
    Moment("within", "JVM", 1),
    Moment("within", "all", 2),
    Moment("after", "all", 1),
]


@pytest.mark.parametrize("on_storage", [on_s3, on_hdfs])
def test_killed_runs_on_a_storage_lose_and_double_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_storage: Callable[[], AbstractContextManager[Store]]
) -> None:
    """Wherever they were: before the commit, in it and after it. One file grows, and there is a new one each time."""
    with on_storage() as store:
        for name, text in store.environment.items():
            monkeypatch.setenv(name, text)
        logs, tables = f"{store.root}/logs", f"{store.root}/tables"
        command = fleet_run(logs, tables, "--once")
        grown = b""
        was_killed = []
        for number, moment in enumerate(KILLS):
            first = 2 * number * IN_A_FILE
            grown += lines(*range(first, first + IN_A_FILE))
            for name, text in (
                ("1/log", grown),
                (f"2/{number}.log", lines(*range(first + IN_A_FILE, first + 2 * IN_A_FILE))),
            ):
                path = storage_path("logs", f"{logs}/{name}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
            table = storage_path("tables", f"{tables}/c")
            was_killed.append(killed(command, table, moment, lambda: None, tmp_path / f"own-{number}"))
        assert any(was_killed), "each run has ended before it was killed"
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wanted = {f"c{number}": 1 for number in range(2 * len(KILLS) * IN_A_FILE)}
        assert used(store, tables) == wanted


REPLACED = 3
"""Commits of one run by the other one."""


def test_two_runs_on_s3_lose_and_double_no_line(tmp_path: Path) -> None:
    """A commit of the one replaces that of the other: lines of a batch that was replaced are read again, and later."""
    log, tables = tmp_path / "logs" / "1" / "log", f"s3://{BUCKET}/tables"
    log.parent.mkdir(parents=True)
    printed = [tmp_path / name for name in ("first", "second")]
    with object_store_with_meetings() as (endpoint, meetings), ExitStack() as stack:
        store = Store(f"s3://{BUCKET}", of_s3(endpoint))
        environment = os.environ | store.environment
        once = fleet_run(str(tmp_path / "logs"), tables, "--once")
        log.write_bytes(lines(0))
        subprocess.run(once, env=environment, check=True, stdout=subprocess.DEVNULL)  # of two that make it, one fails
        meetings.within, runs = 30, []
        for path in printed:
            out = stack.enter_context(path.open("w"))
            command = fleet_run(str(tmp_path / "logs"), tables, "--interval", "0.1")
            run = stack.enter_context(
                subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
            )
            stack.callback(lambda run=run: run.poll() is None and os.killpg(run.pid, signal.SIGKILL))
            runs.append(run)
        written = 1

        def goes_on() -> bool:
            nonlocal written
            with log.open("ab") as more:
                more.write(lines(written))
            written += 1
            return meetings.replaced >= REPLACED or any(run.poll() is not None for run in runs)

        eventually(goes_on, "the runs have replaced commits of each other", WITHIN)
        meetings.within = 0
        for run in runs:
            run.send_signal(signal.SIGTERM)
        assert [run.wait(WITHIN) for run in runs] == [0, 0], [path.read_text() for path in printed]
        subprocess.run(once, env=environment, check=True, stdout=subprocess.DEVNULL)
        assert used(store, tables) == {f"c{number}": 1 for number in range(written)}


def in_memory(folder: Path) -> dict[str, str]:
    return {}


def in_hive(folder: Path) -> dict[str, str]:
    """Configure Spark as its users do for a metastore of Hive, which is Hive's own in the JVM, with a database."""
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(
        f"spark.sql.catalogImplementation hive\nspark.sql.warehouse.dir {folder / 'warehouse'}\n"
    )
    properties = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
    }
    texts = [f"<property><name>{name}</name><value>{text}</value></property>" for name, text in properties.items()]
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(texts)}</configuration>")
    return {"SPARK_CONF_DIR": str(folder)}


@pytest.mark.parametrize("catalog", [in_memory, in_hive])
def test_tables_in_a_catalog_have_what_a_folder_has(tmp_path: Path, catalog: Callable[[Path], dict[str, str]]) -> None:
    """The table is read, appended to, changed, joined and vacuumed by its name."""
    here, named = (
        place(str(tmp_path / "logs"), str(tmp_path / "tables")),
        place(str(tmp_path / "more"), "catalog:spark_catalog.kafka"),
    )
    for each in (here, named):
        storage_runs.write_logs(storage_path("", each["logs"]), 0)
    in_folder, in_catalog = runs(Store("", catalog(tmp_path / "conf")), here, named)
    assert in_catalog == in_folder
    assert (in_catalog["left"], in_catalog["unused"]) == (0, 0), "no file of an earlier version is left"
    if catalog is in_hive:
        assert (tmp_path / "conf/warehouse/kafka.db/c/_delta_log").is_dir(), "a table is not in Hive's warehouse"
