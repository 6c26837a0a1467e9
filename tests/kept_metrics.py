"""Metrics that a Prometheus has kept for days, made up; and a server of this process that answers about them."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from http_serving import serving_http

from featuregate_fleet.metrics.evidence import MetricsEvidence
from featuregate_fleet.metrics.history import History
from featuregate_fleet.metrics.prometheus import Prometheus, Web
from featuregate_fleet.metrics.spellings import Meaning

REQUESTS = "kafka_network_requestmetrics_requests_total"
SOFTWARE = "kafka_server_socket_server_metrics_connections_software"
DEPRECATED = "kafka_network_requestmetrics_deprecatedrequests_total"
START = "process_start_time_seconds"
INTERVAL = 60
Values = list[tuple[float, float]]


@dataclass
class Kept:
    until: float
    hours: int
    series: dict[tuple[tuple[str, str], ...], Values] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        count = self.hours * 3600 // INTERVAL
        return [self.until - 5 - INTERVAL * (count - 1 - at) for at in range(count)]

    def ago(self, hours: float) -> float:
        return self.until - hours * 3600

    def add(self, name: str, values: Mapping[float, float], instance: str = "b1:9404", **labels: str) -> None:
        key = tuple(sorted({"__name__": name, "job": "kafka", "instance": instance, **labels}.items()))
        self.series.setdefault(key, []).extend(sorted(values.items()))

    def broker(
        self,
        instance: str = "b1:9404",
        restarts: tuple[float, ...] = (),
        missing: Any = (),
        days: float = 90,
        **labels: str,
    ) -> list[float]:
        """Add a broker with clients of today, that started long ago and again at these times; return its samples."""
        times = [at for at in self.times if not any(low < at <= high for low, high in missing)]
        starts = {at: max([self.until - days * 86400, *(one for one in restarts if one < at)]) for at in times}
        self.add(START, starts, instance, **labels)
        since_start = {at: 1 + (at - starts[at]) // 10 for at in times}
        for api, version in (("Metadata", "12"), ("FindCoordinator", "4"), ("Fetch", "16"), ("FetchConsumer", "16")):
            self.add(REQUESTS, since_start, instance, request=api, version=version, **labels)
        self.software("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", dict.fromkeys(times, 3.0), instance, **labels)
        return times

    def controller(self, instance: str = "c1:9404") -> None:
        for api, version in (("BrokerHeartbeat", "1"), ("Fetch", "17"), ("FetchFollower", "17")):
            self.add(REQUESTS, {at: 1 + at // 60 for at in self.times}, instance, request=api, version=version)
        self.add(START, dict.fromkeys(self.times, self.until - 70 * 86400), instance)

    def software(
        self, name: str, version: str, values: Mapping[float, float], instance: str = "b1:9404", **more: str
    ) -> None:
        labels = {"clientSoftwareName": name, "clientSoftwareVersion": version, **more}
        self.add(SOFTWARE, values, instance, listener="CLIENT", networkProcessor="0", **labels)

    def openmetrics(self) -> str:
        lines = []
        by_name: dict[str, list[str]] = {}
        for key, values in self.series.items():
            labels = dict(key)
            name = labels.pop("__name__")
            text = ",".join(f'{label}="{value}"' for label, value in labels.items())
            by_name.setdefault(name, []).extend(f"{name}{{{text}}} {value} {at:.3f}" for at, value in values)
        for name, found in by_name.items():
            lines += [f"# TYPE {name} gauge", *found]
        return "\n".join([*lines, "# EOF\n"])


def _matches(labels: Mapping[str, str], selector: str) -> bool:
    for name, operator, quoted in re.findall(r'(\w+)(=~|!=|=)("(?:[^"\\]|\\.)*")', selector):
        wanted, value = json.loads(quoted), labels.get(name, "")
        if operator == "=~":
            flags = re.IGNORECASE if wanted.startswith("(?i)") else 0
            if not re.fullmatch(wanted.removeprefix("(?i)"), value, flags):
                return False
        elif (operator == "=") is not (value == wanted):
            return False
    return True


class Evaluator:
    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.queries: list[str] = []

    def answer(self, path: str, form: Mapping[str, str]) -> Any:
        if path == "series":
            low, high = float(form["start"]), float(form["end"])
            chosen = self._chosen(form["match[]"])
            return [dict(key) for key, values in chosen if any(low <= at <= high for at, _ in values)]
        self.queries.append(form["query"])
        if raw := re.fullmatch(r"(\{.*\})\[(\d+)s\]", form["query"]):
            end = float(form["time"])
            found = [
                (dict(key), [one for one in values if end - int(raw[2]) < one[0] <= end])
                for key, values in self._chosen(raw[1])
            ]
            return self._result([one for one in found if one[1]])
        if path == "query":
            return self._result(
                [(labels, [one]) for labels, one in self._aggregated(form["query"], float(form["time"]))], single=True
            )
        points: dict[str, tuple[dict[str, str], Values]] = {}
        at = float(form["start"])
        while at <= float(form["end"]):
            for labels, one in self._aggregated(form["query"], at):
                points.setdefault(str(labels), (labels, []))[1].append(one)
            at += float(form["step"])
        return self._result(list(points.values()))

    def _chosen(self, selector: str) -> list[tuple[tuple[tuple[str, str], ...], Values]]:
        return [(key, values) for key, values in self.kept.series.items() if _matches(dict(key), selector)]

    def _aggregated(self, query: str, at: float) -> Iterator[tuple[dict[str, str], tuple[float, float]]]:
        outer, function, selector, size, unit = re.fullmatch(
            r"(max|min|sum) by \([^)]*\) \((max|min|count)_over_time\((\{.*\})\[(\d+)(h|s)\]\)\)", query
        ).groups()  # type: ignore[union-attr]  # another question fails the test
        by = [name.strip() for name in re.findall(r"by \(([^)]*)\)", query)[0].split(",")]
        low = at - int(size) * (3600 if unit == "h" else 1)
        over = {"max": max, "min": min, "count": len}[function]
        groups: dict[tuple[str, ...], list[float]] = {}
        for key, values in self._chosen(selector):
            if inside := [value for time, value in values if low < time <= at]:
                groups.setdefault(tuple(dict(key).get(name, "") for name in by), []).append(float(over(inside)))
        for place, found in groups.items():
            labels = {name: value for name, value in zip(by, place, strict=True) if value}
            yield labels, (at, {"max": max, "min": min, "sum": sum}[outer](found))

    @staticmethod
    def _result(found: list[tuple[dict[str, str], Values]], *, single: bool = False) -> Any:
        texts = [(labels, [[at, _text(value)] for at, value in values]) for labels, values in found]
        return {
            "resultType": "vector" if single else "matrix",
            "result": [
                {"metric": labels, **({"value": values[0]} if single else {"values": values})}
                for labels, values in texts
            ],
        }


def _text(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


def read_history(
    url: str, since: datetime, until: datetime, decides: Callable[[Meaning], bool], *conditions: str
) -> MetricsEvidence:
    with closing(Web()) as web:
        return History(Prometheus(web, url), conditions, since, until, decides).read()


@contextmanager
def serving(kept: Kept) -> Iterator[tuple[str, Evaluator]]:
    evaluator = Evaluator(kept)

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), keep_blank_values=True)
            data = evaluator.answer(self.path.rpartition("/")[2], {name: values[0] for name, values in form.items()})
            body = json.dumps({"status": "success", "data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Api) as url:
        yield url, evaluator
