"""A server with the API of Google Cloud Storage, and what Python and Spark need for it, which `make proof` installs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import requests
from storage_server import HOST, storage_server, told_to_spark, url_of

BUCKET = "lake"
CONNECTOR = "hadoop3-2.2.26"
JAR = f"com.google.cloud.bigdataoss:gcs-connector:{CONNECTOR}:shaded"
WITHIN = 60


@contextmanager
def cloud_storage() -> Iterator[dict[str, str]]:
    """Start a server that has one empty bucket; yield the environment of a program that uses it.

    Nothing but the environment says so: jars and settings of Spark are where its users put their own.
    """
    if find_spec("gcsfs") is None:  # imported only once its environment is set, which it reads then
        pytest.skip("needs gcsfs, which make proof installs")
    with storage_server("fake-gcs-server", "Go", _command, _has_bucket, WITHIN) as (folder, port):
        spark = told_to_spark(folder, JAR, CONNECTOR, _settings(url_of(port)))
        try:
            yield _of_python(url_of(port)) | spark
        finally:
            pytest.importorskip("gcsfs").GCSFileSystem.clear_instance_cache()


def _command(program: str, port: int) -> list[str]:
    options = ["-backend", "memory", "-scheme", "http", "-host", HOST, "-port", str(port), "-log-level", "warn"]
    return [program, *options, "-public-host", f"{HOST}:{port}", "-external-url", url_of(port)]


def _has_bucket(port: int) -> bool:
    return requests.post(f"{url_of(port)}/storage/v1/b?project=test", json={"name": BUCKET}, timeout=WITHIN).ok


def _of_python(endpoint: str) -> dict[str, str]:
    """Return what gcsfs reads. The server has no API by which it would ask for the kind of a bucket."""
    return {"STORAGE_EMULATOR_HOST": endpoint, "FSSPEC_GS_TOKEN": "anon", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}


def _settings(endpoint: str) -> dict[str, str]:
    return {
        "fs.gs.storage.root.url": endpoint,
        "fs.gs.auth.null.enable": "true",
        "fs.gs.auth.service.account.enable": "false",
        "fs.gs.project.id": "test",
    }
