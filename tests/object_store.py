"""A server with the API of S3, of this process, for the tests of storages."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests

BUCKET = "lake"
REGION = "us-east-1"


def of_s3(endpoint: str) -> dict[str, str]:
    """Return the environment of a program that uses the server."""
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
    }


def use_s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let s3fs of this process use the server, and no connection to another."""
    for name, text in of_s3(endpoint).items():
        monkeypatch.setenv(name, text)
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()


@contextmanager
def object_store() -> Iterator[str]:
    """Yield the URL of a server that has one empty bucket."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    boto3 = pytest.importorskip("boto3")
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": REGION}
        requests.post(f"{endpoint}/moto-api/reset", timeout=60)  # moto keeps its objects for the whole process
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket=BUCKET)
        yield endpoint
    finally:
        server.stop()
