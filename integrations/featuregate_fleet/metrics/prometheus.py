"""The HTTP API of Prometheus, VictoriaMetrics and what answers like them, in questions of bounded size.

Functions that extrapolate, such as ``increase()``, are never asked: a counter that is born with its value reads 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from featuregate.json_values import JsonError, JsonValue, parse_json
from featuregate_fleet.metrics.evidence import HOUR_SECONDS
from featuregate_fleet.metrics.web import MetricsUnread, Web

MOST_SERIES: Final = 100_000
"""Series in one answer: 100 brokers have 20,000 of these metrics."""
MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MOST_VALUES: Final = 100_000
"""Values that one question asks for; longer times are asked about in slices."""
MOST_SECONDS: Final = 1800.0
_LONGEST_SLICE: Final = 7 * 24
_OK: Final = "success"

Labels = Mapping[str, str]


class Series(NamedTuple):
    """The values of one series, in the order of their times."""

    labels: Labels
    values: tuple[tuple[float, float], ...]


class Prometheus:
    """Asks one server, for at most ``seconds`` in all."""

    def __init__(
        self, web: Web, url: str, seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began = clock()
        self._web = web
        self._url = url.rstrip("/")
        self.asked = 0
        """How many questions were asked."""

    def series(self, selector: str, start: float, end: float) -> list[Labels]:
        """Return the labels of all series that had a sample from ``start`` to ``end``, also of those that are gone."""
        data = self._ask("series", {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"})
        with _of_the_api():
            return [_labels(each) for each in _bounded(data.items())]

    def hourly(self, expression: str, first: float, last: float, series: int) -> Iterator[Series]:
        """Yield the values of an expression at the end of each hour; ``{window}`` in it is the time before.

        ``first`` and ``last`` are ends of hours. ``series`` says how many series are expected, so that no answer has
        too many values: the time is cut into slices.
        """
        step = max(1, min(_LONGEST_SLICE, _MOST_VALUES // max(1, series))) * HOUR_SECONDS
        start = first
        while start <= last:
            end = min(last, start + step - HOUR_SECONDS)
            query = {"query": expression.replace("{window}", "1h"), "start": f"{start:.3f}", "end": f"{end:.3f}"}
            yield from self._values("query_range", query | {"step": str(HOUR_SECONDS)}, "values")
            start = end + HOUR_SECONDS

    def at(self, expression: str, end: float, seconds: int) -> Iterator[Series]:
        """Yield the value of an expression over the seconds before a time."""
        query = {"query": expression.replace("{window}", f"{seconds}s"), "time": f"{end:.3f}"}
        return self._values("query", query, "value")

    def raw(self, selector: str, end: float, seconds: int) -> Iterator[Series]:
        """Yield the samples of the seconds before a time, as they were scraped."""
        return self._values("query", {"query": f"{selector}[{seconds}s]", "time": f"{end:.3f}"}, "values")

    def _values(self, path: str, query: dict[str, str], field: str) -> Iterator[Series]:
        data = self._ask(path, query)
        with _of_the_api():
            for each in _bounded(data.field("result").items()):
                found = each.field(field)
                pairs = found.items() if field == "values" else [found]
                values = [(pair.items()[0].seconds(), _number(pair.items()[1])) for pair in pairs]
                yield Series(_labels(each.field("metric")), tuple(values))

    def _ask(self, path: str, query: dict[str, str]) -> JsonValue:
        """Return ``data`` of an answer. Without ``nocache`` VictoriaMetrics moves the times that are asked for."""
        if self._clock() - self._began > self._seconds:
            problem = f"the server has taken more than {self._seconds:g} s for {self.asked} questions"
            raise MetricsUnread(f"{problem}: ask for a shorter time by --since, or for less by --match")
        self.asked += 1
        url = f"{self._url}/api/v1/{path}"
        body = self._web.get(url, "application/json", MOST_ANSWER_BYTES, query | {"nocache": "1"})
        with _of_the_api():
            answer = parse_json(body, "answer")
            if answer.field("status").text() != _OK:
                raise MetricsUnread(f"the server answered {answer.field('error').text()[:200]!r}")
            if "isPartial" in answer.fields() and answer.field("isPartial").value is not False:
                raise MetricsUnread("the answer is not whole: a node of VictoriaMetrics did not answer")
            if warnings := answer.fields().get("warnings"):
                raise MetricsUnread(f"the answer is not whole: {warnings.items()[0].text()[:200]!r}")
            return answer.field("data")


@contextmanager
def _of_the_api() -> Iterator[None]:
    """Say that an answer is of something else."""
    try:
        yield
    except (JsonError, IndexError) as error:
        raise MetricsUnread(f"this is not the API of Prometheus: {error}") from None


def _bounded(found: list[JsonValue]) -> list[JsonValue]:
    if len(found) > MOST_SERIES:
        raise MetricsUnread(f"the answer has {len(found)} series, more than {MOST_SERIES}: choose by --match")
    return found


def _labels(found: JsonValue) -> dict[str, str]:
    return {name: value.text() for name, value in found.fields().items()}


def _number(found: JsonValue) -> float:
    try:
        return float(found.text())
    except ValueError:
        raise found.wrong("a number") from None


def selector(labels: Labels, *more: str) -> str:
    """Return what selects the series with these labels, and with more conditions as they are."""
    exact = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(labels.items()))
    return f"{{{','.join([*exact, *more])}}}"
