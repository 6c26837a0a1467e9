"""The table of clients: its form, its size, and when it is loaded."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import featuregate.catalog
from featuregate.catalog import API_NAMES, captured_as
from featuregate.catalog.clients import client_of_software, client_rows, measured_clients, version_numbers

PATH = Path(featuregate.catalog.__file__).parent / "data" / "clients.json"
STEPS = {
    *("produce", "consume", "commit", "offsets", "rebalance", "admin", "zstd", "transactions"),
    *("kip848", "kip848-describe", "share", "tls"),
    *("sasl-PLAIN", "sasl-SCRAM-SHA-256", "sasl-SCRAM-SHA-512", "sasl-OAUTHBEARER", "sasl-GSSAPI"),
}
ROWS = [row for client in measured_clients() for row in client_rows(client)]


def test_the_table_is_small_and_has_a_schema():
    """An app that never asks does not carry much."""
    assert PATH.stat().st_size <= 300_000
    assert json.loads(PATH.read_text())["schema"] == 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}-{row.version}")
def test_each_row_says_how_and_when_it_was_seen(row):
    """Brokers, steps and APIs are those that exist; a row without brokers names the library that speaks for it."""
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.seen)
    assert row.how
    assert row.brokers or row.bundles
    assert all(captured_as(release) is not None for release in row.brokers)
    assert row.offers.keys() <= {"newest", "oldest", "none"}
    for found in (*row.brokers.values(), *row.offers.values()):
        assert found.steps.keys() <= STEPS
        assert found.sends.keys() <= API_NAMES.keys()
        assert {step.fate for step in found.steps.values()} <= {"works", "fails", "absent"}
        assert all(step.why for step in found.steps.values() if step.fate == "fails")


@pytest.mark.parametrize("client", measured_clients())
def test_releases_are_in_order(client: str):
    """Neighbours are found by their order."""
    numbers = [version_numbers(row.version) for row in client_rows(client)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("name", "version", "client"),
    [
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", ("librdkafka", "2.16.0")),
        ("confluent-kafka-go", "1.4.2-librdkafka-1.4.2", ("librdkafka", "1.4.2")),
        ("confluent-kafka-go", "v2.3.0-rdkafka-v2.3.0", ("librdkafka", "2.3.0")),
        ("confluent-kafka-python", "2.6.1rc1-rdkafka-2.6.1-RC1", ("librdkafka", "2.6.1-RC1")),
        ("confluent-kafka-go", "1.4.2-dirty", ("confluent-kafka-go", "1.4.2-dirty")),
        ("librdkafka", "1.9.0", ("librdkafka", "1.9.0")),
        ("apache-kafka-java", "3.9.1", ("kafka-clients", "3.9.1")),
        ("unknown", "unknown", None),
    ],
)
def test_software_is_that_of_a_client(name: str, version: str, client: tuple[str, str] | None):
    """As clients report it to brokers (KIP-511)."""
    assert client_of_software(name, version) == client


def test_the_table_is_loaded_only_when_it_is_asked():
    """Neither the package, nor its clients, nor the checks of the fleet load it."""
    code = """
import featuregate as fg, featuregate_fleet.readiness.report
from featuregate.catalog import clients
fg.clients
print(clients._table.cache_info().currsize)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "0"
