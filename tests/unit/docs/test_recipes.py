"""What the pages say in YAML: manifests of Kubernetes, rules of Prometheus, commands of Airflow."""

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from apps_in_process import call
from doc_pages import ROOT
from prometheus_client import CollectorRegistry, generate_latest

import featuregate as fg
from featuregate.cli import main
from featuregate.health import write_health
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_metrics.prometheus import FeatureCollector
from featuregate_relay.app import PolledCluster, make_app

BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def documents(page: str) -> list[dict[str, Any]]:
    return [yaml.safe_load(text) for text in BLOCK.findall((ROOT / "docs" / page).read_text())]


def one_with(key: str, page: str = "how-to/recipes.md") -> dict[str, Any]:
    (found,) = [document for document in documents(page) if key in document]
    return found


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(1, release="4.2") as running:
        yield running


def test_the_init_container_ends_when_the_brokers_can(brokers: FakeCluster) -> None:
    """Its command is that of the page, with another address."""
    (container,) = one_with("spec")["spec"]["initContainers"]
    program, *arguments = [word.replace("kafka:9092", brokers.bootstrap) for word in container["command"]]
    assert program == "featuregate"
    assert main(arguments) == 0


def test_the_command_of_airflow_decides_by_its_exit_code(brokers: FakeCluster) -> None:
    """Open, and closed where the brokers are too old."""
    task = one_with("bash_command")
    program, *arguments = shlex.split(task["bash_command"])
    assert program == "featuregate"
    assert main([word.replace("kafka:9092", brokers.bootstrap) for word in arguments]) == 0
    now = [word.replace("60", "0.1") for word in arguments]
    with FakeCluster(1, release="3.9") as older:
        assert main([word.replace("kafka:9092", older.bootstrap) for word in now]) == task["skip_on_exit_code"]


def test_alerts_ask_for_numbers_that_the_collector_has() -> None:
    """A misspelt name would never fire."""
    registry = CollectorRegistry()
    registry.register(FeatureCollector(StaticFeatures(release_view("4.2")), cluster="orders"))
    assert asked_by("how-to/check-health.md") <= names_in(generate_latest(registry))


def test_alerts_ask_for_numbers_that_a_relay_has() -> None:
    """The same for the rules of the relay."""
    features = StaticFeatures(release_view("4.2"))
    app = make_app({"orders": PolledCluster(features, (features.gate("groups", fg.presets.kip848),))})
    _, _, body = asyncio.run(call(app, "/metrics"))
    assert asked_by("how-to/run-a-relay.md") <= names_in(body)


def asked_by(page: str) -> set[bytes]:
    rules = [rule for group in one_with("groups", page)["groups"] for rule in group["rules"]]
    asked = {name.encode() for rule in rules for name in re.findall(r"featuregate_\w+", rule["expr"])}
    assert asked
    return asked


def names_in(exposition: bytes) -> set[bytes]:
    return set(re.findall(rb"^# TYPE (\S+)", exposition, re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "prefix"),
    [("how-to/recipes.md", "/kafka/"), ("how-to/run-a-relay.md", "/"), ("how-to/install.md", "/kafka/")],
)
def test_probes_of_manifests_ask_paths_that_are_served(page: str, prefix: str) -> None:
    """Readiness and liveness have paths of their own, at ports and volumes that the manifest declares."""
    spec = one_with("spec", page)["spec"]
    spec = spec.get("template", {}).get("spec", spec)
    container, *_ = spec["containers"]
    probes = {name: container[name]["httpGet"] for name in PROBES if name in container}
    assert probes["readinessProbe"]["path"] == f"{prefix}readyz"
    assert probes["livenessProbe"]["path"] == f"{prefix}healthz"
    ports = [port for each in spec["containers"] for port in each.get("ports", [])]
    declared = {port["name"] for port in container.get("ports", [])} | {port["containerPort"] for port in ports}
    if ports:
        assert {probe["port"] for probe in probes.values()} <= declared
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes


def test_probes_without_http_read_the_file_of_the_worker(tmp_path: Path) -> None:
    """Their commands are those of the page, with another folder."""
    write_health(StaticFeatures(release_view("4.2")), tmp_path / "worker.json")
    for probe in one_with("readinessProbe", "how-to/check-health.md").values():
        program, *arguments = probe["exec"]["command"]
        assert program == "featuregate"
        assert main([word.replace("/run", str(tmp_path)) for word in arguments]) == 0
