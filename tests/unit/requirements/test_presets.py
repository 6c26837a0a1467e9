"""Presets: what each requires, and which claims it does not make."""

import pickle

import pytest
from builders import view

from featuregate.gating.decisions import evaluate
from featuregate.requirements import Feature, features_in, presets
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
