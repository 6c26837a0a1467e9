"""What becomes of records, step by step."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="an extra")

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from featuregate.rehearsal.runbook import StepCounts, StepFinding
from featuregate.rehearsal.state import read_progress
from featuregate.rehearsal.watch import AppWatch, _key_of
from featuregate.testing.traffic import CommittedOutput

G = ("g", "t-0")


@pytest.fixture
def watch() -> Any:
    """Return the watch of apps that say nothing; what a test sends is acknowledged while it waits for that."""
    kafka: Any = SimpleNamespace(client_config=dict, internal_bootstrap="localhost:1")
    apps: Any = SimpleNamespace(ended=list, new_errors=list, restarted=list, tail=str)
    made: Any = AppWatch(kafka, apps, None, record="{n}", rate=20, timeout=0.0)
    made._load = SimpleNamespace(sent={}, now={})
    made._wait = lambda *_: made._load.sent.update(made._load.now)
    return made


def sends(watch: Any, *keys: str) -> None:
    watch._load.now = dict.fromkeys(keys, 0.0)


def comes_out(watch: Any, at: float, *keys: str) -> None:
    watch._seen += [CommittedOutput(at, key) for key in keys]


def test_each_record_counts_in_one_step(watch: Any) -> None:
    """A record counts where it was sent, what came out again where it did, and a pause also between two steps."""
    steps = [
        (["1", "2"], 1.0, ["1", "2"], StepCounts(2, 2, 0, 0, 0.0)),
        (["3"], 6.5, ["3"], StepCounts(1, 1, 0, 0, 5.5)),
        (["4", "5"], 7.0, ["5"], StepCounts(2, 1, 1, 0, 0.5)),
        (["6"], 7.0, ["5", "6"], StepCounts(1, 1, 0, 1, 0.0)),
        (["7"], 7.0, ["7"], StepCounts(1, 1, 0, 0, 0.0)),
    ]
    for sent, at, out, expected in steps:
        sends(watch, *sent)
        comes_out(watch, at, *out)
        counts, findings = watch.end_step()
        assert counts == expected
        assert findings == [StepFinding("block", "1 record came out again")] * counts.doubled


def test_a_step_after_which_no_record_is_sent_is_unknown(watch: Any) -> None:
    """Where a broker does not come back for the producer, all that was sent before has come out."""
    watch._load.sent["1"] = 0.0
    comes_out(watch, 1.0, "1")
    counts, (finding,) = watch.end_step()
    assert (counts, finding.verdict) == (StepCounts(1, 1, 0, 0, 0.0), "unknown")
    del watch._wait
    watch._timeout = 60.0
    later = threading.Timer(0.3, lambda: (watch._load.sent.update({"2": 0.0}), comes_out(watch, 1.0, "2")))
    later.start()
    assert watch.end_step() == (StepCounts(1, 1, 0, 0, 0.0), [])


def test_an_app_that_has_ended_blocks(watch: Any) -> None:
    """Nobody waits for its records."""
    del watch._wait
    watch._timeout = 600.0
    watch._apps.ended = lambda: ["app ended with 3"]
    watch._load.sent["1"] = 0.0
    counts, findings = watch.end_step()
    assert counts.lost == 1
    assert findings == [StepFinding("block", "app ended with 3")]


@pytest.mark.parametrize(
    ("said", "verdicts"),
    [
        ([{G: (5, 9)}, {G: (6, 8)}], []),
        ([None, {G: (5, 9)}, {G: (5, 9), ("new", "t-0"): (1, 1)}, {G: (5, 0)}], []),
        ([{G: (5, 9)}, {G: (5, 9)}], ["warn"]),
        ([{G: (5, 9), ("g", "t-1"): (5, 9)}, {G: (5, 9), ("g", "t-1"): (9, 5)}], ["warn"]),
        ([{G: (5, 9)}, None], ["unknown"]),
    ],
)
def test_a_group_stands_still_until_it_commits_again(watch: Any, said: list[Any], verdicts: list[str]) -> None:
    """Only what it commits after the step counts, in each partition: the leader of one may serve no such client.

    What brokers do not say is not known, and is asked again.
    """

    def progress() -> dict[tuple[str, str], tuple[int, int]]:
        told = said.pop(0)
        if told is None:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return told

    del watch._wait
    watch._load, watch._timeout, watch._progress = None, 600.0, progress
    watch._apps.ended = lambda: [] if said else ["it ends the wait"]
    counts, findings = watch.end_step()
    assert counts is None
    assert [each.verdict for each in findings if each.verdict != "block"] == verdicts
    if "warn" in verdicts:
        assert findings[0].text == "group g stands still in t-0: 9 records wait for it"


def test_the_mark_of_a_transaction_is_no_record_that_waits() -> None:
    """A group that has read all of a topic of transactions is one behind its end. Share groups commit nothing."""

    def told(value: object) -> SimpleNamespace:
        return SimpleNamespace(result=lambda _: value)

    committed = SimpleNamespace(topic_partitions=[TopicPartition("t", 0, 5), TopicPartition("t", 1, 5)])
    ends = {
        TopicPartition("t", 0): told(SimpleNamespace(offset=6)),
        TopicPartition("t", 1): told(SimpleNamespace(offset=9)),
    }
    admin = SimpleNamespace(
        list_consumer_group_offsets=lambda _: {"g": told(committed)},
        list_offsets=lambda _: ends,
    )
    assert read_progress(admin, {"g": "classic", "queue": "share"}) == {("g", "t-0"): (5, 0), ("g", "t-1"): (5, 3)}


def test_an_output_is_known_by_its_key_or_its_value() -> None:
    """An app need not copy both."""
    told = [(b"rehearsal-7", b"x"), (None, b'{"id": "rehearsal-12", "sum": 3}'), (None, None)]
    messages: Any = [SimpleNamespace(key=lambda key=key: key, value=lambda value=value: value) for key, value in told]
    assert [_key_of(each) for each in messages] == ["rehearsal-7", "rehearsal-12", ""]
