"""What a batch of coordinators' records does not take for granted."""

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.runs.coordinator_topics import _check_not_empty, _check_not_replaced
from featuregate_fleet.runs.internal_topics import TopicEnds
from featuregate_fleet.runs.parts import TopicRead

OFFSETS = "__consumer_offsets"


def test_a_topic_with_records_that_gives_none_is_an_error():
    """Spark leaves internal topics out, and the batch would note them as read."""
    found = [TopicEnds(OFFSETS, {0: (5, 5), 1: (2, 9)}), TopicEnds("__share_group_state", {})]
    with pytest.raises(TablesBroken, match="__consumer_offsets has 7 offsets, and Spark returned no record of it"):
        _check_not_empty(found, lambda _: False, lambda _: True)
    _check_not_empty(found, lambda _: True, lambda _: True)
    _check_not_empty([TopicEnds(OFFSETS, {0: (5, 5)})], lambda _: False, lambda _: True)


def test_a_topic_whose_offsets_have_no_visible_records_is_no_error():
    """All of its transactions were aborted: a plain consumer gets nothing, either."""
    _check_not_empty([TopicEnds(OFFSETS, {0: (0, 2)})], lambda _: False, lambda _: False)


def test_a_topic_that_ends_before_what_was_read_is_of_another_cluster():
    """Its records would be taken for those that were read."""
    found = [TopicEnds(OFFSETS, {0: (0, 10)})]
    with pytest.raises(TablesBroken, match="ends at offset 10, and the table has offset 10 of it: this is another"):
        _check_not_replaced(found, {f"kafka:{OFFSETS}/0": TopicRead("id", 11)})
    _check_not_replaced(found, {f"kafka:{OFFSETS}/0": TopicRead("id", 10), f"kafka:{OFFSETS}/1": TopicRead("id", 99)})
