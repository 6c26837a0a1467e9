"""The requirement that brokers serve what a client calls."""

import pytest

import featuregate as fg
from featuregate.catalog import captured_as
from featuregate.catalog.clients import client_rows, measured_clients, version_numbers
from featuregate.errors import ConfigError
from featuregate.gating.decisions import evaluate
from featuregate.requirements.client_calls import requirement_of, works
from featuregate.testing import FakeCluster

MEASURED = [(row, release) for client in measured_clients() for row in client_rows(client) for release in row.brokers]


@pytest.mark.parametrize(("row", "release"), MEASURED, ids=lambda each: getattr(each, "version", each))
def test_api_versions_predict_the_measured_fate(row, release):
    """On each broker that was measured, all core steps work where the requirement holds, and one fails elsewhere.

    So a step that failed on a busy machine alone would be noticed here.
    """
    captured = captured_as(release)
    assert captured is not None
    served = [(captured.served(part.key) or (0, -1), part) for part in requirement_of(row).parts]
    holds = all(lowest <= part.highest and part.lowest <= highest for (lowest, highest), part in served)
    assert holds is works(row.brokers[release])


@pytest.mark.parametrize(
    ("release", "version", "verdict"),
    [("3.9", "1.5.0", "open"), ("4.2", "1.5.0", "closed"), ("3.9", "2.16.1", "open"), ("4.2", "2.16.1", "open")],
)
def test_a_gate_opens_where_the_client_works(release: str, version: str, verdict: str):
    """librdkafka 1.5.0 sends ListOffsets 0, which brokers from 4.0 on do not serve."""
    with FakeCluster(2, release=release) as cluster:
        view = fg.discover(cluster.bootstrap)
    decision = evaluate(view, fg.presets.client("confluent-kafka", version))
    assert decision.verdict == verdict
    assert verdict == "open" or "ListOffsets in 0..0" in str(decision)


def test_the_installed_release_is_the_default():
    """The preset names it, with the brokers on which it was measured."""
    found = fg.presets.client("kafka-python")
    assert found.name == f"kafka-python {client_rows('kafka-python')[-1].version}"
    assert "on Kafka 2.8.2, 3.9.2, 4.0.0" in found.sources[1]


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        (
            "confluent-kafka",
            "99.0",
            r"confluent-kafka 99\.0 was not measured, or never worked; measured are 0\.11\.6, ",
        ),
        ("kafka-clients", None, "kafka-clients is not installed here: give its version"),
        ("unheard-of", "1.0", "measured are none"),
    ],
)
def test_a_release_that_was_not_measured_is_an_error(name: str, version: str | None, said: str):
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match=said):
        fg.presets.client(name, version)


def test_a_preset_names_the_clients_that_use_it():
    """By the oldest release from which on all measured ones do all steps; a preset without a measure names none.

    confluent-kafka before 2.10 and kafka-clients before 3.8 join a group of the new protocol, and their admin clients
    do not know what it is.
    """
    assert dict(fg.presets.kip848.clients) == {"confluent-kafka": "2.10.1", "kafka-clients": "3.8.1"}
    assert dict(fg.presets.kip932.clients) == {"confluent-kafka": "2.15.1", "kafka-clients": "4.1.1"}
    assert dict(fg.presets.zstd.clients)["confluent-kafka"] == "1.0.1"
    assert fg.presets.kip447.clients == {}


def test_a_preset_names_the_clients_that_are_ready():
    """What their makers say is another thing than what was measured, and newer."""
    for preset in fg.presets.all():
        for client, ready in preset.ready.items():
            assert version_numbers(ready) > version_numbers(preset.clients[client])
    assert fg.presets.kip848.ready["confluent-kafka"] == "2.12.0"
