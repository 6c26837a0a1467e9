"""The pipeline with logs and tables on object stores and on HDFS, and with tables in a catalog."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from getpass import getuser
from pathlib import Path
from typing import Any, NamedTuple

import azure_storage
import cloud_storage
import pytest
import storage_runs
from hdfs_backend import of_hdfs_native
from hdfs_cluster import hdfs_cluster
from object_store import BUCKET, object_store, of_s3
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


def killed(store: Store, commits: Path, *arguments: str) -> None:
    """Kill a run once it has committed its batch, and does not know that yet."""
    command = [sys.executable, "-m", "featuregate", "fleet", "run", "--once", *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | store.environment, start_new_session=True, **quiet) as run:
        try:
            committed = f"a commit in {commits}"
            eventually(lambda: run.poll() is not None or any(commits.glob("*.json")), committed, WITHIN)
            assert run.poll() is None, "the run has ended before it was killed"
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself, as the assertion says
                os.killpg(run.pid, signal.SIGKILL)


def runs(store: Store, *places: dict[str, str]) -> list[dict[str, Any]]:
    """Return what each place has in the end."""
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
        commits = storage_path("", f"{store.root}/tables/c/_delta_log")
        killed(store, commits, "--logs", f"{store.root}/logs", "--tables", f"{store.root}/tables", "--cluster", "c")
        on_disk, stored = runs(store, here, there)
    assert stored == on_disk
    assert (on_disk["left"], on_disk["unused"]) == (0, 0), "no file of an earlier version is left"
    assert {kind for kind, rows in on_disk["rows"].items() if rows} == {"usage", "hour", "quarantine", "source", "run"}
    assert on_disk["totals"][1] == on_disk["totals"][2], "the last run reads nothing"
    assert on_disk["missing"] == [["1/damaged-1.log.gz"], []], "the run that reads it names it"
    assert not {path.name for path in tmp_path.iterdir()} - {"logs", "tables"}, "a folder is made out of a URI"


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
