"""Pages over HTTP: identity, and servers that mean no good."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from http_serving import never_done, serving_http

from featuregate.config.secrets import Secret
from featuregate_fleet.metrics.web import MetricsUnread, Web, check_url


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET  # noqa: N815 - as http.server calls it

    with serving_http(Answers) as url:
        yield url


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def read(url: str, most: int = 1000, **options: object) -> bytes:
    web = Web(**options)  # type: ignore[arg-type]  # of all kinds
    try:
        return web.get(url, "text/plain; version=0.0.4", most)
    finally:
        web.close()


def test_a_page_is_asked_for_as_text_with_the_token() -> None:
    """OpenMetrics is not asked for: its parser refuses what exporters write."""
    seen: list[tuple[str | None, str | None]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append((handler.headers["Accept"], handler.headers["Authorization"]))
        send(handler, gzip.compress(b"up 1\n"), Content_Encoding="gzip")

    with answering(answer) as url:
        assert read(url, token=Secret("t0")) == b"up 1\n"
    assert seen == [("text/plain; version=0.0.4", "Bearer t0")]


@pytest.mark.parametrize(
    ("body", "status", "headers", "problem"),
    [
        (b"x" * 1001, 200, {}, "the answer is refused: it has more than 1000 bytes"),
        (gzip.compress(b"0" * 10_000_000), 200, {"Content_Encoding": "gzip"}, "more than 1000 bytes"),
        (b"no\x1b[2J", 403, {}, r"the server answered 403: no\?\[2J"),
        (b"", 302, {"Location": "http://169.254.169.254/"}, "answered 302, and redirects are not followed"),
    ],
)
def test_a_server_that_means_no_good_is_refused_in_one_line(
    body: bytes, status: int, headers: dict[str, str], problem: str
) -> None:
    """Too much, an archive of zeros, a terminal's commands, and another address."""
    with (
        answering(lambda handler: send(handler, body, status, **headers)) as url,
        pytest.raises(MetricsUnread, match=problem),
    ):
        read(url)


def test_a_body_that_comes_byte_by_byte_ends() -> None:
    """The bound is on the whole, and does not begin again with each byte."""
    gone = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            while not gone.wait(0.02):
                handler.wfile.write(b"#")
        except OSError:
            gone.set()

    with answering(drip) as url, pytest.raises(MetricsUnread, match=r"no answer within 0\.3 s"):
        read(url, most=10_000_000, seconds=0.3)
    assert gone.wait(30)
    with never_done() as (url, _), pytest.raises(MetricsUnread, match=r"no answer within 0\.3 s"):
        read(url, seconds=0.3)


@pytest.mark.parametrize("length", [None, "100"])
def test_a_body_that_may_be_cut_is_refused(length: str | None) -> None:
    """A page that ends early lacks requests, which would be ok."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if length:
            handler.send_header("Content-Length", length)
        handler.end_headers()
        handler.wfile.write(b"up 1\n")

    problem = "IncompleteRead|ProtocolError" if length else "does not say how long it is, so that it may be cut"
    with answering(answer) as url, pytest.raises(MetricsUnread, match=problem):
        read(url)


def test_a_server_that_is_not_there_is_named() -> None:
    """By the innermost reason."""
    with answering(lambda handler: send(handler, b"")) as url:
        pass
    with pytest.raises(MetricsUnread, match="ConnectionRefusedError"):
        read(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://broker/metrics", "this is not a URL such as http://"),
        ("http://", "this is not a URL such as http://"),
        ("http://broker:0/metrics", "this is not a URL such as http://"),
        ("http://broker:x/metrics", "this is not a URL: "),
        ("http://user:secret@broker/metrics", "a URL with a password is not used: give --token-file"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: str, problem: str) -> None:
    """Without its password in the error."""
    with pytest.raises(MetricsUnread, match=problem) as refused:
        check_url(url)
    assert "secret" not in str(refused.value)
