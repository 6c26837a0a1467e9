"""A server with the API of S3, of this process, for the tests of storages."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import requests

BUCKET = "lake"
REGION = "us-east-1"


def of_s3(endpoint: str) -> dict[str, str]:
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


class Meetings:
    """Lets two processes that look for the same commit of a table go on together, when it is not there.

    Both write it then, as S3 allows where nobody asks it not to.
    """

    def __init__(self, served: Any) -> None:
        self._served = served
        self._meetings: dict[str, threading.Barrier] = {}
        self.within = 0.0
        """Seconds for which the one waits for the other."""
        self.written: Counter[str] = Counter()
        """How often each commit was written."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Serve a request; hold back that a commit is not there until another process is told so, too."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if _COMMIT.search(path) and method == "PUT":
            self.written[path] += 1
        is_there = self.written[path] > 0
        response: Iterable[bytes] = self._served(environ, start_response)
        if _COMMIT.search(path) and method == "HEAD" and not is_there:
            with suppress(threading.BrokenBarrierError):
                self._meetings.setdefault(path, threading.Barrier(2)).wait(self.within)
        return response

    @property
    def replaced(self) -> int:
        return sum(times > 1 for times in self.written.values())


_COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")


@contextmanager
def object_store() -> Iterator[str]:
    with _server() as (endpoint, _):
        yield endpoint


@contextmanager
def object_store_with_meetings() -> Iterator[tuple[str, Meetings]]:
    with _server() as (endpoint, server):
        server.app = meetings = Meetings(server.app)
        yield endpoint, meetings


@contextmanager
def _server() -> Iterator[tuple[str, Any]]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    boto3 = pytest.importorskip("boto3")
    # s3fs keeps a connection to the server of an earlier test: the endpoint of the environment is not in its key.
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": REGION}
        requests.post(f"{endpoint}/moto-api/reset", timeout=60)  # moto keeps its objects for the whole process
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket=BUCKET)
        yield endpoint, server._server
    finally:
        server.stop()
