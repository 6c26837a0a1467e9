"""A server with the API of Google Cloud Storage, and what Python and Spark need for it, which `make proof` installs."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
import pytest
import requests

from featuregate.jars.maven import Download, cache_folder, fetched, install
from featuregate.jars.spark import FOLDER, delta_lake
from featuregate.testing.local_kafka.processes import HOST, ProcessGroup, ReservedPorts, wait_until

BUCKET = "lake"
SERVER = "fake-gcs-server"
CONNECTOR = "hadoop3-2.2.26"
JARS = (f"com.google.cloud.bigdataoss:gcs-connector:{CONNECTOR}:shaded",)
WITHIN = 60


@contextmanager
def cloud_storage() -> Iterator[dict[str, str]]:
    """Start a server that has one empty bucket; yield the environment of a program that uses it.

    Nothing but the environment says so: jars and settings of Spark are where its users put their own.
    """
    if find_spec("gcsfs") is None:  # imported only once its environment is set, which it reads then
        pytest.skip("needs gcsfs, which make proof installs")
    with _server() as endpoint, TemporaryDirectory() as scratch:
        folder = Path(scratch)
        connector = fetched(
            Download("the connector of Cloud Storage for tests", JARS, None),
            cache_folder() / "gcs-connector" / CONNECTOR,
        )
        install([*connector.glob("*.jar"), *delta_lake(pyspark.__version__).glob("*.jar")], folder / "jars")
        (folder / "spark-defaults.conf").write_text(_settings(endpoint))
        try:
            yield _of_python(endpoint) | {"SPARK_CONF_DIR": scratch, FOLDER: str(folder / "jars")}
        finally:
            pytest.importorskip("gcsfs").GCSFileSystem.clear_instance_cache()


@contextmanager
def _server() -> Iterator[str]:
    program = shutil.which(SERVER, path=Path(sys.executable).parent) or shutil.which(SERVER)
    if program is None:
        pytest.skip(f"needs {SERVER}, which make proof installs where there is Go")
    processes, ports = ProcessGroup("gcs"), ReservedPorts([0])
    try:
        port = ports.numbers[0]
        endpoint = f"http://{HOST}:{port}"
        options = ["-backend", "memory", "-scheme", "http", "-host", HOST, "-port", str(port), "-log-level", "warn"]
        places = ["-public-host", f"{HOST}:{port}", "-external-url", endpoint]
        child = processes.start([program, *options, *places], log=processes.folder / "log")
        wait_until(lambda: _has_bucket(endpoint), "the server has started", {SERVER: child}, timeout=WITHIN)
        yield endpoint
    finally:
        ports.close()
        processes.close()


def _has_bucket(endpoint: str) -> bool:
    try:
        made = requests.post(f"{endpoint}/storage/v1/b?project=test", json={"name": BUCKET}, timeout=WITHIN)
    except requests.ConnectionError:
        return False
    return made.ok


def _of_python(endpoint: str) -> dict[str, str]:
    """Return what gcsfs reads. The server has no API by which it would ask for the kind of a bucket."""
    return {
        "STORAGE_EMULATOR_HOST": endpoint,
        "FSSPEC_GS_TOKEN": "anon",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


def _settings(endpoint: str) -> str:
    settings = {
        "fs.gs.storage.root.url": endpoint,
        "fs.gs.auth.null.enable": "true",
        "fs.gs.auth.service.account.enable": "false",
        "fs.gs.project.id": "test",
    }
    return "".join(f"spark.hadoop.{name} {text}\n" for name, text in settings.items())
