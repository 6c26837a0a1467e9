"""What an operator announces, in a topic of real brokers."""

import pytest
from confluent_kafka import KafkaException
from topics import create_topics
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.testing import LocalKafka
from featuregate.usage.announcement import Announcement
from featuregate_confluent import UsageTopic
from featuregate_librdkafka.announcements import announce

pytestmark = pytest.mark.live

HOUR = 3600.0


def test_an_app_that_reports_shows_what_is_announced(kafka: LocalKafka) -> None:
    """Reports of others are among the announcements, and what was announced before the start counts."""
    config, topic = kafka.client_config(), "usage-and-announcements"
    create_topics(config, topic, partitions=3)
    cluster_id = fg.discover(config).cluster_id
    sender = UsageTopic(config, topic)
    for number in range(10):
        sender(b'{"kind": "other"}')
        announce(config, topic, Announcement(cluster_id=cluster_id, announced_at=float(number), levels={"x": number}))
    assert [dict(each.levels) for each in sender.announced()] == [{"x": number} for number in range(10)]
    announce(config, topic, Announcement(cluster_id=cluster_id, announced_at=11.0, levels={"x": 11}, reason="INC-12"))
    assert len(sender.announced()) == 11
    with fg.Discoverer(
        config, interval=HOUR, usage=fg.UsageReporter(UsageTopic(config, topic), app="orders")
    ) as features:
        features.gate("eos", "TxnOffsetCommit>=3")
        (found,) = eventually(lambda: features.health()["announced"], "the announcement", BOUND)
    assert (found["levels"], found["reason"], found["gates"]) == ({"x": 11}, "INC-12", [])


def test_a_topic_that_is_not_there_is_an_error(kafka: LocalKafka) -> None:
    """The health of the app says so, and reports are counted for themselves."""
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        UsageTopic(kafka.client_config(), "no-such-usage").announced()
