"""A server with the API of Azure's blobs, and what Python and Spark need for it, which `make proof` installs."""

import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple

import pytest
import requests
from anyio.from_thread import start_blocking_portal
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from storage_server import HOST, storage_server, told_to_spark, url_of
from tcp_balancing import balancing_tcp

from featuregate.testing.local_kafka.nodes import issue_certificates

CONTAINER = "lake"
ACCOUNT = "account"
HADOOP = "3.4.2"
"""The first release whose driver speaks the API of blobs, which is all that the server has. PySpark 4.0 has 3.4.1."""
WITHIN = 120
JAR = f"org.apache.hadoop:hadoop-azure:{HADOOP}"


class _Blobs(NamedTuple):
    folder: Path
    port: int
    key: str

    def connection(self) -> str:
        """Return what adlfs and Azure's SDK read. Of them none needs TLS, as Hadoop does for `abfss`."""
        url = f"{url_of(self.port)}/{ACCOUNT}"
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={self.key};BlobEndpoint={url};"


@contextmanager
def azure_storage() -> Iterator[dict[str, str]]:
    """Start a server that has one empty container; yield the environment of a program that uses it.

    Nothing but the environment says so: jars and settings of Spark are where its users put their own.
    """
    backend = pytest.importorskip("adlfs", reason="needs adlfs, which make proof installs")
    with _server() as blobs, _behind_tls(blobs) as port:
        trust = f"spark.driver.extraJavaOptions -Djavax.net.ssl.trustStore={blobs.folder / 'trust.p12'}\n"
        spark = told_to_spark(blobs.folder, JAR, HADOOP, _settings(blobs, port), trust)
        try:
            yield {"AZURE_STORAGE_CONNECTION_STRING": blobs.connection()} | spark
        finally:
            backend.AzureBlobFileSystem.clear_instance_cache()


@contextmanager
def _server() -> Iterator[_Blobs]:
    key = b64encode(token_bytes(32)).decode()

    def command(program: str, port: int) -> list[str]:
        # Azure's SDK is newer than the server, which refuses the version of the API that it asks for.
        options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        place = ["--blobHost", HOST, "--blobPort", str(port)]
        return ["env", f"AZURITE_ACCOUNTS={ACCOUNT}:{key}", program, *place, *options]

    def listens(port: int) -> bool:
        requests.get(url_of(port), timeout=WITHIN)
        return True

    with storage_server("azurite-blob", "npm", command, listens, WITHIN) as (folder, port):
        blobs = _Blobs(folder, port, key)
        service = pytest.importorskip("azure.storage.blob").BlobServiceClient
        with service.from_connection_string(blobs.connection()) as client:
            client.create_container(CONTAINER)
        yield blobs


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


def _settings(blobs: _Blobs, port: int) -> dict[str, str]:
    return {
        "fs.azure.abfs.endpoint": f"{HOST}:{port}",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        f"fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net": blobs.key,
        "fs.azure.io.retry.max.retries": "3",
    }
