"""Verdicts from a real Prometheus and a real VictoriaMetrics that have kept what makes counters lie."""

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from kept_metrics import DEPRECATED, REQUESTS, Kept, read_history, serving
from waiting import eventually

from featuregate.catalog import captured
from featuregate_fleet.metrics.evidence import MetricsEvidence
from featuregate_fleet.metrics.verdicts import decides
from featuregate_fleet.readiness.api_ranges import ReleaseApis

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

APIS = ReleaseApis(captured()["4.2"])
HOURS = 30


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def running(command: list[str], url: str, folder: Path) -> Iterator[None]:
    with (folder / "server.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            eventually(lambda: _answers(url) or process.poll() is not None, "a server that answers")
            assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
            yield
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok or requests.get(f"{url}/health", timeout=5).ok
    except requests.RequestException:
        return False


@contextmanager
def prometheus(kept: Kept, folder: Path) -> Iterator[str]:
    (folder / "kept.txt").write_text(kept.openmetrics())
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "kept.txt"), str(folder / "data")]
    subprocess.run(made, check=True, capture_output=True, timeout=120)
    address = f"127.0.0.1:{free_port()}"
    options = {
        "--config.file": folder / "prometheus.yml",
        "--storage.tsdb.path": folder / "data",
        "--storage.tsdb.retention.time": "400d",
        "--web.listen-address": address,
    }
    with running(["prometheus", *(f"{name}={value}" for name, value in options.items())], f"http://{address}", folder):
        yield f"http://{address}"


@contextmanager
def victoria_metrics(kept: Kept, folder: Path) -> Iterator[str]:
    """Start a VictoriaMetrics, and let it import these samples, with times in milliseconds."""
    address = f"127.0.0.1:{free_port()}"
    options = {"-storageDataPath": folder / "data", "-httpListenAddr": address, "-retentionPeriod": "10y"}
    with running(
        ["victoria-metrics", *(f"{name}={value}" for name, value in options.items())], f"http://{address}", folder
    ):
        lines = [line for line in kept.openmetrics().splitlines() if not line.startswith("#")]
        text = "\n".join(f"{one} {round(float(at) * 1000)}" for one, _, at in (line.rpartition(" ") for line in lines))
        requests.post(f"http://{address}/api/v1/import/prometheus", data=text, timeout=60).raise_for_status()
        requests.get(f"http://{address}/internal/force_flush", timeout=60).raise_for_status()
        yield f"http://{address}"


def worlds() -> Kept:
    now = float(int(datetime.now(UTC).timestamp()))
    kept = Kept(now, HOURS)
    born = kept.broker("born:1", days=90)
    kept.add(REQUESTS, {at: 5 for at in born if at > kept.ago(5)}, "born:1", request="Produce", version="1")
    restart = kept.ago(6.5) + 30
    times = kept.broker("restarted:1", restarts=(restart,), days=91)
    for low, high in ((kept.ago(8), restart), (restart, now)):
        kept.add(REQUESTS, {at: 2 for at in times if low < at < high}, "restarted:1", request="Fetch", version="1")
    one = kept.broker("one-sample:1", days=92)[-700]
    kept.add(REQUESTS, {one: 1}, "one-sample:1", request="ListOffsets", version="0")
    label = {"request_ListOffsets_version_0_clientSoftwareName": "librdkafka", "clientSoftwareVersion": "1.5.0"}
    kept.add(DEPRECATED, {one: 1}, "one-sample:1", **label)
    in_an_hour = (now // 3600 - 5) * 3600 + 600
    kept.broker("gap:1", missing=[(in_an_hour, in_an_hour + 600)], days=93)
    for instance in ("two:1", "two:2"):
        of_two = kept.broker(instance, days=94)
        kept.add(REQUESTS, {at: 4 for at in of_two if at > kept.ago(3)}, instance, request="Produce", version="0")
    of_old = kept.broker("software:1", days=95)
    connected = {at: 2.0 if kept.ago(7) < at < kept.ago(6) else 0.0 for at in of_old}
    kept.software("confluent-kafka-python", "2.4.0-rdkafka-2.4.0", connected, "software:1")
    return kept


def evidence(url: str, kept: Kept) -> MetricsEvidence:
    until = datetime.fromtimestamp(kept.until, UTC)
    return read_history(url, until - timedelta(hours=24), until, lambda one: decides(one, APIS), 'job="kafka"')


@pytest.mark.parametrize(("binary", "server"), [("prometheus", prometheus), ("victoria-metrics", victoria_metrics)])
def test_real_servers_say_what_happened(
    binary: str, server: Callable[[Kept, Path], "contextmanager[str]"], tmp_path: Path
) -> None:
    """Counters that are born with their value, restarts without a drop, one sample, a gap, and two exporters."""
    if not shutil.which(binary):
        pytest.skip(f"there is no {binary}: Debian has it as a package")
    kept = worlds()
    with server(kept, tmp_path) as url:
        found = evidence(url, kept)
    with serving(kept) as (url, _):
        expected = evidence(url, kept)
    low = {(one.broker, one.api, one.version): 0 for one in found.requests if one.version < 3}
    for one in found.requests:
        if one.version < 3:
            low[one.broker, one.api, one.version] += one.count
    assert low == {
        ("born:1", "Produce", 1): 5,
        ("restarted:1", "Fetch", 1): 4,
        ("one-sample:1", "ListOffsets", 0): 1,
        ("two:1", "Produce", 0): 4,
    }
    assert {one.broker: one.hours for one in found.brokers} == {
        **dict.fromkeys(("born:1", "restarted:1", "one-sample:1", "two:1", "software:1"), 24),
        "gap:1": 23,
    }
    assert found.deprecated == expected.deprecated
    assert sorted(found.requests, key=str) == sorted(expected.requests, key=str)
    assert sorted(found.software, key=str) == sorted(expected.software, key=str)


RULES_TEST = """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - {series: 'SERIES{request="Fetch",version="3",instance="born"}', values: '_x119 5x200'}
  - {series: 'SERIES{request="Fetch",version="3",instance="steady"}', values: '7x400'}
  - {series: 'SERIES{request="Fetch",version="4",instance="new"}', values: '1+1x400'}
  - {series: 'SERIES{request="Produce",version="1",instance="grows"}', values: '7x119 8x281'}
  - {series: 'SERIES{request="Produce",version="1",instance="restarted"}', values: '7x119 _x30 2x250'}
  - {series: 'SERIES{request="Produce",version="1",instance="gone"}', values: '7x119 _x280'}
  alert_rule_test:
  - {eval_time: 100m, alertname: KafkaOldCall, exp_alerts: []}
  - eval_time: 160m
    alertname: KafkaOldCall
    exp_alerts:
    - exp_labels: {request: Fetch, version: "3", instance: born}
    - exp_labels: {request: Produce, version: "1", instance: grows}
    - exp_labels: {request: Produce, version: "1", instance: restarted}
  - {eval_time: 390m, alertname: KafkaOldCall, exp_alerts: []}
"""


def test_the_alert_of_the_page_fires_when_an_old_call_comes_back(tmp_path: Path) -> None:
    """Also for a counter that is born with five, and after a restart; not for one that stands still, or is gone."""
    if not shutil.which("promtool"):
        pytest.skip("there is no promtool: Debian has it in the package prometheus")
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "judge-by-metrics.md").read_text()
    (tmp_path / "rules.yml").write_text(page.partition("```yaml\ngroups:")[2].partition("```")[0].join(["groups:", ""]))
    (tmp_path / "test.yml").write_text(RULES_TEST.replace("SERIES", REQUESTS))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
