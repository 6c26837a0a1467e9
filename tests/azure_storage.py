"""A server with the API of Azure's blobs, and what Python and Spark need for it, which `make proof` installs."""

import shutil
import ssl
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple

import pyspark
import pytest
import requests
from anyio.from_thread import start_blocking_portal
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from tcp_balancing import balancing_tcp

from featuregate.jars.maven import Download, cache_folder, fetched, install
from featuregate.jars.spark import FOLDER, delta_lake
from featuregate.testing.local_kafka.certificates import issue_certificates
from featuregate.testing.local_kafka.processes import HOST, ProcessGroup, ReservedPorts, wait_until

CONTAINER = "lake"
ACCOUNT = "account"
SERVER = "azurite-blob"
HADOOP = "3.4.2"
"""The first release whose driver speaks the API of blobs, which is all that the server has. PySpark 4.0 has 3.4.1."""
JARS = (f"org.apache.hadoop:hadoop-azure:{HADOOP}",)
WITHIN = 120


class _Blobs(NamedTuple):
    folder: Path
    port: int
    key: str

    def connection(self) -> str:
        """Return what adlfs and Azure's SDK read. Of them none needs TLS, as Hadoop does for `abfss`."""
        url = f"http://{HOST}:{self.port}/{ACCOUNT}"
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={self.key};BlobEndpoint={url};"


@contextmanager
def azure_storage() -> Iterator[dict[str, str]]:
    """Start a server that has one empty container; yield the environment of a program that uses it.

    Nothing but the environment says so: jars and settings of Spark are where its users put their own.
    """
    backend = pytest.importorskip("adlfs", reason="needs adlfs, which make proof installs")
    with _server() as blobs, _behind_tls(blobs) as port:
        connector = fetched(Download("ABFS for tests", JARS, None), cache_folder() / "hadoop-azure" / HADOOP)
        jars = blobs.folder / "jars"
        install([*connector.glob("*.jar"), *delta_lake(pyspark.__version__).glob("*.jar")], jars)
        (blobs.folder / "spark-defaults.conf").write_text(_settings(blobs, port))
        try:
            yield {
                "AZURE_STORAGE_CONNECTION_STRING": blobs.connection(),
                "SPARK_CONF_DIR": str(blobs.folder),
                FOLDER: str(jars),
            }
        finally:
            backend.AzureBlobFileSystem.clear_instance_cache()


@contextmanager
def _server() -> Iterator[_Blobs]:
    program = shutil.which(SERVER, path=Path(sys.executable).parent) or shutil.which(SERVER)
    if program is None:
        pytest.skip(f"needs {SERVER}, which make proof installs where there is npm")
    processes, ports = ProcessGroup("azure"), ReservedPorts([0])
    try:
        blobs = _Blobs(processes.folder, ports.numbers[0], b64encode(token_bytes(32)).decode())
        command = ["env", f"AZURITE_ACCOUNTS={ACCOUNT}:{blobs.key}", program, "--blobHost", HOST]
        # Azure's SDK is newer than the server, which refuses the version of the API that it asks for.
        options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        child = processes.start([*command, "--blobPort", str(blobs.port), *options], log=processes.folder / "log")
        wait_until(lambda: _listens(blobs), "the server has started", {SERVER: child}, timeout=WITHIN)
        service = pytest.importorskip("azure.storage.blob").BlobServiceClient
        with service.from_connection_string(blobs.connection()) as client:
            client.create_container(CONTAINER)
        yield blobs
    finally:
        ports.close()
        processes.close()


def _listens(blobs: _Blobs) -> bool:
    try:
        requests.get(f"http://{HOST}:{blobs.port}", timeout=WITHIN)
    except requests.ConnectionError:
        return False
    return True


@contextmanager
def _behind_tls(blobs: _Blobs) -> Iterator[int]:
    """Yield a port where the server speaks TLS, with a certificate of an authority that the JVM is told to trust."""
    issue_certificates(blobs.folder)
    authority = load_pem_x509_certificate((blobs.folder / "ca.pem").read_bytes())
    trusted = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], NoEncryption())
    (blobs.folder / "trust.p12").write_bytes(trusted)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(blobs.folder / "broker.pem")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(balancing_tcp(blobs.port, tls=tls)) as front,
    ):
        yield front.port


def _settings(blobs: _Blobs, port: int) -> str:
    of_hadoop = {
        "abfs.endpoint": f"{HOST}:{port}",
        "account.hns.enabled": "false",
        "fns.account.service.type": "BLOB",
        f"account.key.{ACCOUNT}.dfs.core.windows.net": blobs.key,
        "io.retry.max.retries": "3",
    }
    trust = f"spark.driver.extraJavaOptions -Djavax.net.ssl.trustStore={blobs.folder / 'trust.p12'}\n"
    return trust + "".join(f"spark.hadoop.fs.azure.{name} {text}\n" for name, text in of_hadoop.items())
