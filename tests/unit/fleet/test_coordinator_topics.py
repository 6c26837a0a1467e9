"""What a batch of coordinators' records does not take for granted."""

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.runs import topics
from featuregate_fleet.runs.internal_topics import TopicEnds

ENDS = [TopicEnds("__share_group_state", {0: (5, 5)}), TopicEnds("__consumer_offsets", {0: (5, 5), 1: (2, 9)})]


def check(monkeypatch: pytest.MonkeyPatch, *, in_spark: bool, in_kafka: bool) -> None:
    records = SimpleNamespace(isEmpty=lambda: not in_spark)
    monkeypatch.setattr(topics, "records_of", lambda *_, **__: records)
    monkeypatch.setattr(topics, "has_records", lambda *_: in_kafka)
    topics._check_not_empty(None, {}, ENDS)


def test_a_topic_with_records_that_gives_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark leaves internal topics out, and the batch would note them as read."""
    check(monkeypatch, in_spark=True, in_kafka=True)
    check(monkeypatch, in_spark=False, in_kafka=False)  # all transactions were aborted
    with pytest.raises(TablesBroken, match="__consumer_offsets has 7 offsets, and Spark returned no record of it"):
        check(monkeypatch, in_spark=False, in_kafka=True)
