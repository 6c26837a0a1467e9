"""``doctor`` names what installed clients cannot do with a cluster."""

import pytest
from fleet_evidence import view

from featuregate.cli.diagnosis.clients import client_findings
from featuregate.clients.declared import client


@pytest.mark.parametrize(
    ("version", "release", "mechanism", "codes"),
    [
        ("1.5.0", "4.2", None, ["client-breaks"]),
        ("1.5.0", "2.8", None, []),
        ("2.6.0", "4.2", None, []),
        ("2.6.0", "4.2", "PLAIN", []),
        ("2.6.0", "4.2", "SCRAM-SHA-512", ["client-breaks"]),
        ("2.6.0", "4.2", "OAUTHBEARER", []),
        ("2.16.1", "4.2", "SCRAM-SHA-512", []),
        ("99.0", "4.2", None, ["client-not-measured"]),
    ],
)
def test_a_client_has_a_finding_where_it_cannot_work(
    version: str, release: str, mechanism: str | None, codes: list[str]
):
    """A mechanism counts where the configuration logs in; what was not measured says so."""
    found = list(client_findings(view(release), [client("confluent-kafka", version)], mechanism))
    assert [finding.code for finding in found] == codes


@pytest.mark.parametrize(
    ("version", "level", "codes"),
    [("2.14.2", 1, ["client-too-old"]), ("2.14.2", 0, []), ("2.15.1", 1, []), ("2.16.1", 1, [])],
)
def test_a_client_is_too_old_for_a_preset_that_the_cluster_has(version: str, level: int, codes: list[str]):
    """Share groups are in confluent-kafka from 2.15 on; where the feature is off, no client needs them."""
    found = list(client_findings(view("4.2", share_version=level), [client("confluent-kafka", version)], None))
    assert [finding.code for finding in found] == codes
    assert all(finding.advice.startswith("install confluent-kafka 2.15.1 or newer") for finding in found)


@pytest.mark.parametrize(
    ("version", "problem", "advised"),
    [
        ("4.0.0", "does not do all of it", "4.2.0"),
        ("4.1.1", "has a preview of it", "4.2.0"),
        ("4.2.0", None, None),
    ],
)
def test_a_preview_is_not_what_was_measured(version: str, problem: str | None, advised: str | None):
    """Share groups work from kafka-clients 4.1 on, and their makers call them ready in 4.2."""
    found = list(client_findings(view("4.2", share_version=1), [client("kafka-clients", version)], None))
    assert [(each.problem, each.advice) for each in found if each.code == "client-too-old"] == (
        [
            (
                f"The cluster has kip932, and this release of the client {problem}.",
                f"install kafka-clients {advised} or newer before an app uses it",
            )
        ]
        if problem
        else []
    )


@pytest.mark.parametrize(
    ("version", "release", "problem"),
    [
        ("2.0.2", "4.2", "With an api_version below 0.11.0 it does not work on Kafka 4.2."),
        ("2.0.2", "3.9", None),
    ],
)
def test_a_client_whose_setting_would_break_it_has_a_note(version: str, release: str, problem: str | None):
    """Older brokers work with each value, and there is nothing to say."""
    all_found = client_findings(view(release), [client("kafka-python", version)], None)
    found = [each for each in all_found if each.code == "client-setting"]
    assert [each.problem for each in found] == ([problem] if problem else [])
    assert all(each.advice.startswith("leave api_version out") for each in found)


def test_the_finding_names_the_release_that_works():
    """It says what fails, why, and what to install."""
    (found,) = client_findings(view("4.2"), [client("confluent-kafka", "2.6.0")], "SCRAM-SHA-256")
    assert (found.severity, found.where) == ("warning", "confluent-kafka 2.6.0 (librdkafka 2.6.0)")
    assert found.problem == "It cannot do this on Kafka 4.2: SASL SCRAM-SHA-256."
    assert found.advice == "install confluent-kafka 2.6.1 or newer"
