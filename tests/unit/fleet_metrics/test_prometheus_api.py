"""The HTTP API of a Prometheus: questions of bounded size, and servers that are none or mean no good."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from http_serving import serving_http

from featuregate.cli.app import main
from featuregate_fleet.metrics import prometheus
from featuregate_fleet.metrics.prometheus import Prometheus, selector
from featuregate_fleet.metrics.web import MetricsUnread, Web


def asked(answer: object, ask: Callable[[Prometheus], Any], status: int = 200) -> Any:
    """Ask a server that answers everything in the same way."""

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    web = Web()
    try:
        with serving_http(Api) as url:
            return ask(Prometheus(web, url))
    finally:
        web.close()


def series(server: Prometheus) -> Any:
    return server.series('{__name__="x"}', 0, 10)


def success(data: object) -> dict[str, object]:
    return {"status": "success", "data": data}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"<html>", "this is not the API of Prometheus: answer: this is not JSON"),
        ([], "this is not the API of Prometheus: answer: expected an object"),
        ({"status": "error", "error": "too many samples"}, "the server answered 'too many samples'"),
        (success([]) | {"warnings": ["a store is away"]}, "the answer is not whole: 'a store is away'"),
        (success([]) | {"isPartial": True}, "the answer is not whole: a node of VictoriaMetrics did not answer"),
        (success([{"a": 1}]), r"answer\.data\[0\]\.a: expected a string"),
        (success([{}, {}, {}]), "the answer has 3 series, more than 2: choose by --match"),
        (b'{"status":"success","data":[' + b"[" * 100_000, "this is not JSON"),
    ],
)
def test_an_answer_that_cannot_be_used_is_one_line(
    answer: object, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that lacks a part: what is missing would be ok."""
    monkeypatch.setattr(prometheus, "MOST_SERIES", 2)
    with pytest.raises(MetricsUnread, match=problem):
        asked(answer, series)


def test_an_error_of_the_server_is_said() -> None:
    """With what it says."""
    with pytest.raises(MetricsUnread, match=r"the server answered 422: .*exceeded"):
        asked({"status": "error", "error": "exceeded"}, series, 422)


def test_a_value_that_is_text_is_refused() -> None:
    """It is another API."""
    answer = success({"result": [{"metric": {"a": "b"}, "values": [[1, "2"], [2, "3"]]}]})
    found = asked(answer, lambda server: list(server.raw("{}", 10, 10)))
    assert found == [({"a": "b"}, ((1, 2.0), (2, 3.0)))]
    with pytest.raises(MetricsUnread, match="expected a number"):
        asked(success({"result": [{"metric": {}, "value": [1, "x"]}]}), lambda server: list(server.at("{}", 10, 10)))
    with pytest.raises(MetricsUnread, match="not the API"):
        asked(success({"result": [{"metric": {}, "value": [1]}]}), lambda server: list(server.at("{}", 10, 10)))


@pytest.mark.parametrize(("expected", "questions"), [(1, 13), (1000, 22), (10**9, 2160)])
def test_a_long_time_is_asked_about_in_slices(expected: int, questions: int) -> None:
    """90 days: a week at the most, and fewer hours where there are many series."""

    def ask(server: Prometheus) -> int:
        list(server.hourly("x", 3600, 90 * 86_400, expected))
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


def test_labels_of_a_peer_are_quoted() -> None:
    """None of them ends the selector."""
    assert selector({"a": 'x"} or {y="\n\\'}, 'b="c"') == '{a="x\\"} or {y=\\"\\n\\\\",b="c"}'


def test_the_command_needs_one_source_and_a_condition_that_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Either pages or a Prometheus; a condition is on one label."""
    for arguments, problem in (
        (["--prometheus", "http://p", "--metrics", "page"], "name the metrics: "),
        (["--prometheus", "http://p", "--match", "x"], "'x' is not a condition on a label"),
        (["--prometheus", "http://p", "--match", 'a="b"} or {c="d"'], "is not a condition on a label"),
        (["--prometheus", "p:9090"], "--prometheus: this is not a URL"),
    ):
        assert main(["readiness", "--to", "4.2", *arguments]) in {2, 64}
        assert problem in capsys.readouterr().err
