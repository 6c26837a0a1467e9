"""The verdict on 100 brokers and 90 days that a Prometheus has kept, as a whole process beside a bare reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from importing import ENVIRONMENT
from importing import START as COMMAND
from measuring import Bar, Row, Sample, each, take_turns

BROKERS, DAYS, SECONDS = 100, 90, 15
HOUR = 3600
MILLION = Bar(30, "<= 30 s for a million samples")
MEMORY_BAR = 1000.0
"""Megabytes."""
STARTED = 1_700_000_000.0
REQUESTS, START = "kafka_network_requestmetrics_requests_total", "process_start_time_seconds"
SOFTWARE = "kafka_server_socket_server_metrics_connections_software"
NEW = {"clientSoftwareName": "confluent-kafka-python", "clientSoftwareVersion": "2.16.1-rdkafka-2.16.0"}
SERIES = (
    *({"__name__": REQUESTS, "request": api, "version": version} for api, version in (
        ("Metadata", "12"), ("FindCoordinator", "4"), ("Fetch", "16"), ("FetchConsumer", "16"), ("Produce", "1"),
    )),
    {"__name__": SOFTWARE, "listener": "CLIENT", "networkProcessor": "0", **NEW},
    {"__name__": START},
)  # fmt: skip
MEASURED = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([took, peak / 1024, done.returncode, done.stderr]))
"""
READER = """
import json, sys, urllib.request
values = 0
for body in json.load(sys.stdin):
    with urllib.request.urlopen(sys.argv[1] + "/api/v1/query_range", body.encode()) as answer:
        values += sum(len(one["values"]) for one in json.load(answer)["data"]["result"])
print(values)
"""
"""Asks the same questions, and counts."""


def instance(number: int) -> dict[str, str]:
    return {"job": "kafka", "instance": f"broker-{number}:9404"}


class Api(BaseHTTPRequestHandler):
    """A server whose brokers have run all the time, and counted five old calls each before that."""

    questions: list[str] = []  # noqa: RUF012 - of the one server of this process
    values = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: found[0] for name, found in parse_qs(body).items()}
        path = self.path.rpartition("/")[2]
        if path == "series":
            data: object = [{**one, **instance(number)} for number in range(BROKERS) for one in SERIES]
        elif path == "query_range":
            Api.questions.append(body)
            data = {"resultType": "matrix", "result": list(self._hours(form))}
        elif "[" in form["query"] and "over_time" not in form["query"]:
            end, (name,) = float(form["time"]), re.findall(r'instance="([^"]+)"', form["query"])
            times = (end - HOUR + SECONDS * n for n in range(1, HOUR // SECONDS + 1))
            values = [[at, value(form["query"], 0)] for at in times]
            data = {"resultType": "matrix", "result": [{"metric": {"instance": name}, "values": values}]}
        else:
            data = {"resultType": "vector", "result": list(self._now(form))}
        self._send({"status": "success", "data": data})

    def do_GET(self) -> None:
        """Answer with what was asked since the last time."""
        said = [Api.values, Api.questions]
        Api.values, Api.questions = 0, []
        self._send(said)

    def _send(self, answer: object) -> None:
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _hours(self, form: dict[str, str]) -> Iterator[dict[str, object]]:
        start, end = int(float(form["start"])), int(float(form["end"]))
        for number in range(BROKERS):
            values = [[at, value(form["query"], number)] for at in range(start, end + 1, HOUR)]
            Api.values += len(values)
            yield {"metric": instance(number), "values": values}

    def _now(self, form: dict[str, str]) -> Iterator[dict[str, object]]:
        at = float(form["time"])
        for number in range(BROKERS):
            counted = str(int(at % HOUR) // SECONDS) if "count" in form["query"] else ""
            yield {"metric": instance(number), "value": [at, counted or value(form["query"], number)]}

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def value(query: str, number: int) -> str:
    """Return what a function of an hour is."""
    if "count_over_time" in query:
        return str(HOUR // SECONDS)
    if START in query:
        return str(STARTED + 100 * number)
    return "5"


@contextmanager
def serving() -> Iterator[str]:
    """Serve in a process of its own."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import prometheus; prometheus.serve()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def serve() -> None:
    """Print the address, and answer until the process ends. ``/asked`` has what was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


def asked(url: str) -> tuple[int, str]:
    """Return how many values were sent since the last time, and the questions as JSON."""
    from urllib.request import urlopen  # noqa: PLC0415 - as the bare reader

    with urlopen(f"{url}/asked") as answer:
        values, questions = json.load(answer)
    return values, json.dumps(questions)


def verdict(url: str, peaks: list[float]) -> float:
    """Run the command; return its seconds, and keep the megabytes that it had at most."""
    options = ("--since", f"{DAYS}d", "--to", "4.2", "--brokers", str(BROKERS), "--listener", "CLIENT=none")
    command = [sys.executable, "-c", COMMAND, "readiness", "--prometheus", url, *options]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    took, peak, code, said = json.loads(done.stdout)
    assert code in {0, 1, 3}, said
    peaks.append(peak)
    return float(took)


def bare(url: str, questions: str) -> float:
    """Ask the same questions, and count the values; return the seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", READER, url], input=questions, text=True, check=True, capture_output=True)
    return time.perf_counter() - began


def rows(rounds: int) -> tuple[Row, ...]:
    """Measure the seconds of a million samples, and the memory of the whole."""
    peaks: list[float] = []
    with serving() as url:
        verdict(url, peaks)
        sent, questions = asked(url)
        peaks.clear()
        contestants = {"readiness": partial(verdict, url, peaks), "bare": partial(bare, url, questions)}
        ours, peer = take_turns("readiness --prometheus", rounds, contestants, "s").values()
    what = f"`featuregate readiness` of {BROKERS} brokers and {DAYS} days, {sent / 1e6:.2f} million hours of series"
    million = Sample("a million", "s", tuple(one * 1e6 / sent for one in ours.values))
    return (
        Row(what=f"{what}, whole process beside a bare reader", ours=ours, peer=peer, score=million, bar=MILLION),
        each(MEMORY_BAR, f"{what}, peak memory", Sample("readiness", "MB", tuple(peaks))),
    )
