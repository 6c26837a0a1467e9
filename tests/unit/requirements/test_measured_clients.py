"""What was measured of clients: the API versions that they call, and the clients that a preset names."""

from collections.abc import Iterator

import pytest

import featuregate as fg
from featuregate.catalog import captured_as
from featuregate.catalog.clients import ClientRow, OnBroker, client_rows, measured_clients, version_numbers
from featuregate.requirements import ApiBetween

MEASURED = [(row, release) for client in measured_clients() for row in client_rows(client) for release in row.brokers]
CORE_STEPS = ("produce", "consume", "commit", "offsets", "rebalance")
CORE_APIS = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14)
"""Produce, Fetch, ListOffsets, Metadata, and the classic protocol of groups."""


def works(found: OnBroker) -> bool:
    return all(found.steps.get(step) and found.steps[step].fate == "works" for step in CORE_STEPS)


def called(row: ClientRow) -> Iterator[ApiBetween]:
    """Yield the ranges of the lowest and of the highest version of an API that a broker was sent: both are needed."""
    asked = [found for offer, found in row.offers.items() if offer != "none"]  # else it guesses, whatever brokers serve
    worked = [found for found in (*row.brokers.values(), *asked) if works(found)]
    for key in CORE_APIS:
        sent = [versions for found in worked if (versions := found.sends.get(key))]
        if sent:
            lowest, highest = [min(each) for each in sent], [max(each) for each in sent]
            ends = (min(lowest), max(lowest)), (min(highest), max(highest))
            yield from (ApiBetween(key, *both) for both in dict.fromkeys(ends))


@pytest.mark.parametrize(("row", "release"), MEASURED, ids=lambda each: getattr(each, "version", each))
def test_api_versions_predict_the_measured_fate(row, release):
    """On each broker that was measured, all core steps work where the requirement holds, and one fails elsewhere.

    So a step that failed on a busy machine alone would be noticed here.
    """
    captured = captured_as(release)
    assert captured is not None
    served = [(captured.served(part.key) or (0, -1), part) for part in called(row)]
    holds = all(lowest <= part.highest and part.lowest <= highest for (lowest, highest), part in served)
    assert holds is works(row.brokers[release])


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
