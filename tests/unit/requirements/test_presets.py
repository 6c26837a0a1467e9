"""Presets: what each requires, and which claims it does not make; what was measured of clients."""

import pickle
from collections.abc import Iterator

import pytest
from builders import view

import featuregate as fg
from featuregate.catalog import captured_as
from featuregate.catalog.clients import ClientRow, OnBroker, client_rows, measured_clients, version_numbers
from featuregate.gating.decisions import evaluate
from featuregate.requirements import ApiBetween, Feature, features_in, parse, presets
from featuregate.view.answers import ApiRange, BrokerAnswer


def test_each_says_what_it_requires() -> None:
    """A change of the text here is a change of what a preset means."""
    assert {preset.name: str(preset) for preset in presets.all()} == {
        "kip447": "TxnOffsetCommit>=3 & OffsetFetch>=7 & AddOffsetsToTxn>=0",
        "kip848": (
            "group.version>=1 & ConsumerGroupHeartbeat>=0 & config:group.coordinator.rebalance.protocols has consumer"
        ),
        "kip890": "transaction.version>=2 & Produce>=12 & EndTxn>=5 & TxnOffsetCommit>=5",
        "kip932": (
            "share.version>=1 & ShareGroupHeartbeat>=1 & ShareGroupDescribe>=1 & ShareFetch>=1 & ShareAcknowledge>=1"
        ),
        "kip1071": (
            "streams.version>=1 & StreamsGroupHeartbeat>=0 & config:group.coordinator.rebalance.protocols has streams"
        ),
        "zstd": "Produce>=7 & Fetch>=10",
    }


@pytest.mark.parametrize("preset", presets.all())
def test_each_has_a_title_a_note_and_sources(preset: presets.Preset) -> None:
    """A reader cannot check a level without its source."""
    assert preset.title
    assert preset.note
    assert preset.sources[0].startswith("KIP-")


@pytest.mark.parametrize("preset", presets.all())
def test_each_is_found_by_its_name(preset: presets.Preset) -> None:
    """A preset is also an attribute of the module."""
    assert presets.by_name(preset.name) is preset is getattr(presets, preset.name)


def test_an_unknown_name_finds_nothing() -> None:
    """by_name() returns None rather than a preset with a similar name."""
    assert presets.by_name("kip0") is None


def test_a_preset_is_a_requirement() -> None:
    """A preset combines and pickles, and its decision is that of its requirement."""
    both = presets.kip447 & (Feature("group.version") >= 1)
    assert str(both) == f"{presets.kip447} & group.version>=1"
    assert features_in(both | presets.kip890) == ("group.version", "transaction.version")
    assert pickle.loads(pickle.dumps(presets.kip447)) == presets.kip447


@pytest.mark.parametrize(("txn", "verdict"), [(2, "closed"), (3, "open")])
def test_kip447_opens_with_2_5(txn: int, verdict: str) -> None:
    """Brokers of 2.4.1 serve TxnOffsetCommit 0..2, and do not fence zombies."""
    ranges = {28: ApiRange(0, txn), 9: ApiRange(0, 7), 25: ApiRange(0, 1)}
    assert (
        evaluate(view(BrokerAnswer(node_id=1, host="b", port=9092, api_ranges=ranges)), presets.kip447).verdict
        == verdict
    )


B1 = BrokerAnswer(node_id=1, host="b1", port=9092, api_ranges={0: ApiRange(0, 3), 1: ApiRange(2, 3)})
B2 = BrokerAnswer(node_id=2, host="b2", port=9092, api_ranges={0: ApiRange(1, 2), 1: ApiRange(0, 3), 2: ApiRange(0, 0)})


def test_kip_35_worked_example() -> None:
    """Which of two features a client can use, and "version 3 of api_key 0 is not supported by all interested brokers".

    KIP-35, Scenarios, "A client developer wants to add support for a new feature".
    """
    merged = view(B1, B2)
    assert merged.api_ranges == {0: (1, 2), 1: (2, 3)}
    first = evaluate(merged, parse("Produce in 3..3 & Fetch in 2..3"))
    assert first.verdict == "closed"
    assert str(first.sorted_reasons[0]) == "Produce in 3..3: broker 2 (b2:9092) serves Produce 1..2"
    assert evaluate(merged, parse("Produce in 0..1 & Fetch in 2..3")).verdict == "open"


# ------------------------------------------------------------------ what was measured of clients: the api versions th


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
