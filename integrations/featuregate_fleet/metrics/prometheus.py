"""The HTTP API of Prometheus, VictoriaMetrics and what answers like them, in questions of bounded size.

Functions that extrapolate, such as ``increase()``, are never asked: a counter that is born with its value reads 0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from featuregate.abortable import AbortableAdapter, DirectSession
from featuregate.json_values import JsonError, JsonValue, parse_json
from featuregate.printable import shown
from featuregate.sources.bodies import ACCEPTED, BodyError, read_body
from featuregate.sources.relay_connection import Identity
from featuregate.sources.relay_responses import reason_of
from featuregate_fleet.metrics.evidence import HOUR_SECONDS

if TYPE_CHECKING:
    from featuregate.config.secrets import Secret
    from featuregate_fleet.metrics.spellings import Labels

MOST_SERIES: Final = 100_000
"""Series in one answer: 100 brokers have 20,000 of these metrics."""
MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MOST_VALUES: Final = 100_000
"""Values that one question asks for; longer times are asked about in slices."""
_LONGEST_SLICE: Final = 7 * 24
_OK: Final = "success"


class MetricsUnread(ValueError):
    """A document cannot be read: its text says why."""


class Web:
    """Reads documents with one identity; one connection for each server is kept."""

    def __init__(
        self,
        *,
        token: Secret | None = None,
        verify: bool | str = True,
        cert: str | None = None,
        seconds: float = 30.0,  # the first scrape of a broker with many rules takes two
    ) -> None:
        self._identity = Identity(token=token, verify=verify, cert=cert)
        self._seconds = seconds
        self._adapter = AbortableAdapter()
        self._session = DirectSession(self._adapter)
        self._session.auth = self._identity
        self._session.headers["Accept-Encoding"] = ACCEPTED

    def get(self, url: str, accept: str, most_bytes: int, query: Mapping[str, str] | None = None) -> bytes:
        """Return the body of a response with status 200. A query is sent as a form, because a URL has its limits.

        Raises MetricsUnread (it cannot be reached, answers something else, or has more bytes than are believed).
        """
        check_url(url)
        began = time.monotonic()
        try:
            with (
                self._adapter.limited(self._seconds),
                self._session.request(
                    "GET" if query is None else "POST",
                    url,
                    data=query,
                    headers={"Accept": accept},
                    timeout=self._seconds,
                    verify=self._identity.verify,
                    cert=self._identity.cert,
                    allow_redirects=False,
                    stream=True,
                ) as response,
            ):
                return self._body(response, most_bytes)
        except (requests.RequestException, HTTPError, OSError) as error:
            late = self._adapter.aborted or time.monotonic() - began >= self._seconds
            raise MetricsUnread(f"no answer within {self._seconds:g} s" if late else reason_of(error)) from error
        except BodyError as error:
            raise MetricsUnread(f"the answer is refused: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _body(self, response: requests.Response, most_bytes: int) -> bytes:
        if response.status_code == HTTPStatus.OK:
            if not response.headers.keys() & {"content-length", "transfer-encoding"}:
                raise MetricsUnread("the answer does not say how long it is, so that it may be cut")
            return read_body(response, most_bytes)
        try:
            said = shown(read_body(response, 64 * 1024).decode(errors="replace").strip())
        except BodyError:
            said = ""
        moved = ", and redirects are not followed" if response.is_redirect or "Location" in response.headers else ""
        raise MetricsUnread(f"the server answered {response.status_code}{moved}{f': {said}' if said else ''}")


def check_url(url: str) -> None:
    """Raise `MetricsUnread` for what is not an address of HTTP, or has a password in it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its text may have a part of a password
        parts, usable = None, False
    if parts is None or not usable:
        raise MetricsUnread("this is not a URL such as http://broker-1:9404/metrics or http://prometheus:9090")
    if "@" in parts.netloc:
        raise MetricsUnread("a URL with a password is not used: give --token-file")


class Series(NamedTuple):
    """The values of one series, in the order of their times."""

    labels: Labels
    values: tuple[tuple[float, float], ...]


class Prometheus:
    """Asks one server, for at most ``seconds`` in all."""

    def __init__(
        self, web: Web, url: str, seconds: float = 1800.0, clock: Callable[[], float] = time.monotonic
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
        query = {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        with self._asked("series", query) as data:
            return [_labels(each) for each in _bounded(data.items())]

    def hourly(self, expression: str, first: float, last: float, series: int) -> Iterator[Series]:
        """Yield the values of an expression at the end of each hour.

        ``first`` and ``last`` are ends of hours. ``series`` says how many series are expected, so that no answer has
        too many values: the time is cut into slices.
        """
        step = max(1, min(_LONGEST_SLICE, _MOST_VALUES // max(1, series))) * HOUR_SECONDS
        start = first
        while start <= last:
            end = min(last, start + step - HOUR_SECONDS)
            query = {"query": expression, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": str(HOUR_SECONDS)}
            yield from self._values("query_range", query)
            start = end + HOUR_SECONDS

    def at(self, expression: str, time: float) -> Iterator[Series]:
        """Yield the value of an expression at a time; of a range, the samples before it as they were scraped."""
        return self._values("query", {"query": expression, "time": f"{time:.3f}"})

    def _values(self, path: str, query: dict[str, str]) -> Iterator[Series]:
        with self._asked(path, query) as data:
            for each in _bounded(data.field("result").items()):
                one = each.fields().get("value")
                found = each.field("values") if one is None else one
                yield Series(_labels(each.field("metric")), _pairs(found, found.value if one is None else [one.value]))

    @contextmanager
    def _asked(self, path: str, query: dict[str, str]) -> Iterator[JsonValue]:
        """Give ``data`` of an answer. Without ``nocache`` VictoriaMetrics moves the times that are asked for."""
        if self._clock() - self._began > self._seconds:
            problem = f"the server has taken more than {self._seconds:g} s for {self.asked} questions"
            raise MetricsUnread(f"{problem}: ask for a shorter time by --since, or for less by --match")
        self.asked += 1
        url = f"{self._url}/api/v1/{path}"
        body = self._web.get(url, "application/json", MOST_ANSWER_BYTES, query | {"nocache": "1"})
        try:
            answer = parse_json(body, "answer")
            if answer.field("status").text() != _OK:
                raise MetricsUnread(f"the server answered {answer.field('error').text()[:200]!r}")
            if "isPartial" in answer.fields() and answer.field("isPartial").value is not False:
                raise MetricsUnread("the answer is not whole: a node of VictoriaMetrics did not answer")
            if warnings := answer.fields().get("warnings"):
                raise MetricsUnread(f"the answer is not whole: {warnings.items()[0].text()[:200]!r}")
            yield answer.field("data")
        except (JsonError, IndexError) as error:
            raise MetricsUnread(f"this is not the API of Prometheus: {error}") from None


def _bounded(found: list[JsonValue]) -> list[JsonValue]:
    if len(found) > MOST_SERIES:
        raise MetricsUnread(f"the answer has {len(found)} series, more than {MOST_SERIES}: choose by --match")
    return found


def _labels(found: JsonValue) -> dict[str, str]:
    return {name: value.text() for name, value in found.fields().items()}


def _pairs(found: JsonValue, pairs: Any) -> tuple[tuple[float, float], ...]:
    """Return times and values: as they are, because there may be a million."""
    try:
        return tuple((float(at), float(text)) for at, text in pairs)
    except (TypeError, ValueError, OverflowError):
        raise found.wrong("pairs of a time and a number") from None


def selector(labels: Labels, *more: str) -> str:
    """Return what selects the series with these labels, and with more conditions as they are."""
    exact = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(labels.items()))
    return f"{{{','.join([*exact, *more])}}}"
