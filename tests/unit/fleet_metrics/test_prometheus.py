"""Pages and the HTTP API of a Prometheus: identity, questions of bounded size, and servers that mean no good."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from http_serving import never_done, serving_http

from featuregate.config.secrets import Secret
from featuregate_fleet.metrics import prometheus
from featuregate_fleet.metrics.prometheus import MetricsUnread, Prometheus, Web, check_url, selector


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
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


def read(url: str, most: int = 1000, **options: Any) -> bytes:
    with closing(Web(**options)) as web:
        return web.get(url, "text/plain; version=0.0.4", most)


def asked(answer: object, ask: Callable[[Prometheus], Any], status: int = 200) -> Any:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with answering(lambda handler: send(handler, body, status)) as url, closing(Web()) as web:
        return ask(Prometheus(web, url))


def series(server: Prometheus) -> Any:
    return server.series('{__name__="x"}', 0, 10)


def success(data: object) -> dict[str, object]:
    return {"status": "success", "data": data}


# ---------------------------------------------------------------- pages


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
    ids=["too much", "an archive of zeros", "commands of a terminal", "another address"],
)
def test_a_server_that_means_no_good_is_refused_in_one_line(
    body: bytes, status: int, headers: dict[str, str], problem: str
) -> None:
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


@pytest.mark.parametrize(
    ("length", "problem"),
    [(None, "does not say how long it is, so that it may be cut"), ("100", "IncompleteRead|ProtocolError")],
)
def test_a_body_that_may_be_cut_is_refused(length: str | None, problem: str) -> None:
    """A page that ends early lacks requests, which would be ok."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if length:
            handler.send_header("Content-Length", length)
        handler.end_headers()
        handler.wfile.write(b"up 1\n")

    with answering(answer) as url, pytest.raises(MetricsUnread, match=problem):
        read(url)


def test_a_server_that_is_not_there_is_named_by_the_innermost_reason() -> None:
    with answering(lambda handler: send(handler, b"")) as url:
        pass
    with pytest.raises(MetricsUnread, match="Connection refused"):
        read(url)


def test_an_address_that_cannot_be_used_is_refused_without_its_password() -> None:
    no_url = "this is not a URL such as http://"
    for url in ("ftp://broker/metrics", "http://", "http://broker:0/", "http://broker:x/", "http://u:sec/ret@broker/"):
        with pytest.raises(MetricsUnread, match=no_url) as refused:
            check_url(url)
        assert "sec" not in str(refused.value)
    with pytest.raises(MetricsUnread, match=r"a URL with a password is not used: give --token-file$"):
        check_url("http://user:secret@broker/metrics")


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("answer", "status", "problem"),
    [
        (b"<html>", 200, "this is not the API of Prometheus: answer: this is not JSON"),
        ([], 200, "this is not the API of Prometheus: answer: expected an object"),
        ({"status": "error", "error": "too many samples"}, 200, "the server answered 'too many samples'"),
        ({"status": "error", "error": "exceeded"}, 422, r"the server answered 422: .*exceeded"),
        (success([]) | {"warnings": ["a store is away"]}, 200, "the answer is not whole: 'a store is away'"),
        (success([]) | {"isPartial": True}, 200, "the answer is not whole: a node of VictoriaMetrics did not answer"),
        (success([{"a": 1}]), 200, r"answer\.data\[0\]\.a: expected a string"),
        (success([{}, {}, {}]), 200, "the answer has 3 series, more than 2: choose by --match"),
        (b'{"status":"success","data":[' + b"[" * 100_000, 200, "this is not JSON"),
    ],
    ids=range(9),
)
def test_an_answer_that_cannot_be_used_is_one_line(
    answer: object, status: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that lacks a part: what is missing would be ok."""
    monkeypatch.setattr(prometheus, "MOST_SERIES", 2)
    with pytest.raises(MetricsUnread, match=problem):
        asked(answer, series, status)


def test_a_value_that_is_not_a_number_is_of_another_api() -> None:
    answer = success({"result": [{"metric": {"a": "b"}, "values": [[1, "2"], [2, "3"]]}]})
    assert asked(answer, lambda server: list(server.at("{}[10s]", 10))) == [({"a": "b"}, ((1, 2.0), (2, 3.0)))]
    for value, problem in (([1, "x"], "expected pairs of a time and a number"), ([1], "not the API")):
        with pytest.raises(MetricsUnread, match=problem):
            asked(success({"result": [{"metric": {}, "value": value}]}), lambda server: list(server.at("{}", 10)))


@pytest.mark.parametrize(("expected", "days", "questions"), [(1, 90, 13), (1000, 90, 22), (10**9, 9, 216)])
def test_a_long_time_is_asked_about_in_slices(expected: int, days: int, questions: int) -> None:
    """A week at the most, and fewer hours where there are many series."""

    def ask(server: Prometheus) -> int:
        list(server.hourly("x", 3600, days * 86_400, expected))
        return server.asked

    assert asked(success({"result": []}), ask) == questions


def test_a_server_that_takes_too_long_in_all_is_left() -> None:
    """However fast each answer comes."""
    ticks = iter(range(0, 10_000, 100))

    def ask(server: Prometheus) -> None:
        slow = Prometheus(server._web, server._url, seconds=1000, clock=lambda: next(ticks))
        list(slow.hourly("x", 3600, 90 * 86_400, 1))

    with pytest.raises(MetricsUnread, match=r"more than 1000 s for 10 questions: ask for a shorter time by --since"):
        asked(success({"result": []}), ask)


def test_labels_of_a_peer_do_not_end_the_selector() -> None:
    assert selector({"a": 'x"} or {y="\n\\'}, 'b="c"') == '{a="x\\"} or {y=\\"\\n\\\\",b="c"}'
