"""A balancer that passes each request on to the next upstream, in a thread of this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple, Protocol

from http_serving import serving_http

SECONDS = 5
"""Seconds that the balancer waits for an upstream."""
KEPT = {"etag", "retry-after", "content-type", "content-encoding"}
OURS = "featuregate-"


class Upstream(Protocol):
    @property
    def port(self) -> int: ...


class Port(NamedTuple):
    port: int

    @classmethod
    def of(cls, url: str) -> Port:
        return cls(int(url.rpartition(":")[2]))


class Balanced(NamedTuple):
    url: str
    statuses: list[int]
    """All responses so far, in their order."""


@contextmanager
def balancing(*upstreams: Upstream) -> Iterator[Balanced]:
    turns = itertools.cycle(upstreams)
    statuses: list[int] = []

    class Balancer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = HTTPConnection("127.0.0.1", next(turns).port, timeout=SECONDS)
            try:
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                answer = connection.getresponse()
                status, said, headers = answer.status, answer.read(), answer.getheaders()
            except (OSError, HTTPException):
                status, said, headers = 502, b"", []
            finally:
                connection.close()
            statuses.append(status)
            with suppress(ConnectionError):  # of a client that waits no longer
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() in KEPT or name.lower().startswith(OURS):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        do_HEAD = do_POST = do_GET  # noqa: N815 - the names are those of http.server

    with serving_http(Balancer) as url:
        yield Balanced(url, statuses)
