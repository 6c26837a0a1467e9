"""The latch topic on real brokers."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from topics import create_topics

from featuregate.testing import LocalKafka
from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.errors import LatchTopicError, LatchTopicUnreadable, UnknownMark
from featuregate_confluent.models import Model

pytestmark = pytest.mark.live

BOUND = 60.0


@pytest.fixture(scope="module", params=["2.8.2", "4.2.0"])
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    return shared_kafka(request.param)


@pytest.fixture
def topic(kafka: LocalKafka, request: pytest.FixtureRequest) -> str:
    """Make a compacted topic of two partitions that is this test's own."""
    name = str(request.node.originalname)
    make(kafka, name, "compact")
    return name


def make(kafka: LocalKafka, name: str, policy: str) -> None:
    create_topics(kafka.client_config(), name, partitions=2, cleanup_policy=policy)


def latch_topic(kafka: LocalKafka, topic: str, group: str = "orders", gate: str = "kip447") -> LatchTopic:
    return LatchTopic(topic, kafka.client_config(), group=group, gate=gate)


def put(kafka: LocalKafka, record: tuple[str, bytes, bytes]) -> None:
    producer = Producer(kafka.client_config())
    producer.produce(*record)
    assert producer.flush(BOUND) == 0


def test_a_latch_counts_from_the_commit_of_its_transaction_on(kafka: LocalKafka, topic: str) -> None:
    """There is no latch before the commit or after an abort, and none for another group or gate."""
    ours = latch_topic(kafka, topic)
    assert ours.read(BOUND) is None
    record = ours.record(Model.V2)
    producer = Producer({**kafka.client_config(), "transactional.id": topic})
    producer.init_transactions(BOUND)
    for ending in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(*record)
        producer.flush(BOUND)
        assert ours.read(BOUND) is None
        ending(BOUND)
    assert ours.read(BOUND) is Model.V2
    assert latch_topic(kafka, topic, group="orders2").read(BOUND) is None
    assert latch_topic(kafka, topic, gate="other").read(BOUND) is None


def test_a_late_writer_of_a_lower_model_lowers_nothing(kafka: LocalKafka, topic: str) -> None:
    """The latch only rises."""
    ours = latch_topic(kafka, topic)
    put(kafka, ours.record(Model.V2))
    put(kafka, ours.record(Model.BRIDGE))
    assert ours.read(BOUND) is Model.V2


def begin(kafka: LocalKafka, name: str) -> Producer:
    producer = Producer({**kafka.client_config(), "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    return producer


def send(producer: Producer, record: tuple[str, bytes, bytes]) -> None:
    producer.produce(*record, 0)
    assert producer.flush(BOUND) == 0


@pytest.mark.proof("switch")
def test_a_latch_that_another_group_s_transaction_hides_is_not_passed_over(kafka: LocalKafka, topic: str) -> None:
    """Brokers show nothing behind the first open transaction, whoever has committed there. A record that the open
    transaction itself wrote, or that was aborted behind it, is no latch."""
    ours, theirs = latch_topic(kafka, topic), latch_topic(kafka, topic, group="theirs")
    open_one, committed, aborted = (begin(kafka, f"{topic}-{each}") for each in ("open", "committed", "aborted"))
    send(open_one, theirs.record(Model.V2))
    send(aborted, latch_topic(kafka, topic, group="third").record(Model.V2))
    aborted.abort_transaction(BOUND)
    assert ours.read(BOUND) is None, "nothing of this group is hidden"
    send(committed, ours.record(Model.V2))
    committed.commit_transaction(BOUND)
    with pytest.raises(LatchTopicUnreadable, match=r"transaction of another producer has not ended within 4 s, .* try"):
        ours.read(4)
    assert theirs.read(BOUND) is None
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(ours.read, BOUND)
        open_one.abort_transaction(BOUND)
        assert reading.result(BOUND) is Model.V2
    assert theirs.read(BOUND) is None
    assert latch_topic(kafka, topic, group="third").read(BOUND) is None


def test_newer_software_is_not_passed_over(kafka: LocalKafka, topic: str) -> None:
    """An unknown model stops this member; a rollback erases it like any other."""
    ours = latch_topic(kafka, topic)
    put(kafka, (topic, b"fg1;model=v9", b"fg1|orders||model|kip447|v9"))
    with pytest.raises(UnknownMark):
        ours.read(BOUND)
    assert ours.erase(BOUND) == 1
    assert ours.read(BOUND) is None


def test_erasing_takes_all_back_and_nothing_of_others(kafka: LocalKafka, topic: str) -> None:
    """A record in another partition is erased, too, since partitions were added. To erase nothing is no error."""
    ours, theirs = latch_topic(kafka, topic), latch_topic(kafka, topic, group="bills")
    for number in range(2):
        producer = Producer(kafka.client_config())
        record = ours.record(Model.V2)
        producer.produce(*record, number)
        assert producer.flush(BOUND) == 0
    put(kafka, ours.record(Model.BRIDGE))
    put(kafka, theirs.record(Model.V2))
    admin = AdminClient(kafka.client_config())
    for grown in admin.create_partitions([NewPartitions(topic, 5)]).values():
        grown.result(BOUND)
    assert ours.erase(BOUND) == 3
    assert ours.read(BOUND) is None
    assert theirs.read(BOUND) is Model.V2
    assert ours.erase(BOUND) == 0


def test_a_missing_topic_is_named_with_what_to_do(kafka: LocalKafka) -> None:
    """The request does not create it: such a topic would not be compacted."""
    with pytest.raises(LatchTopicError, match=r"'nowhere': it does not exist. Create it with cleanup.policy=compact"):
        latch_topic(kafka, "nowhere").read(BOUND)
    admin = AdminClient(kafka.client_config())
    assert "nowhere" not in admin.list_topics(timeout=BOUND).topics


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_deletes_is_refused(kafka: LocalKafka, policy: str) -> None:
    """Brokers would delete the latch after a week, so nothing is read and nothing is erased."""
    name = policy.replace(",", "-")
    make(kafka, name, policy)
    with pytest.raises(LatchTopicError, match=f"cleanup.policy is {policy}"):
        latch_topic(kafka, name).read(BOUND)
    with pytest.raises(LatchTopicError, match=f"cleanup.policy is {policy}"):
        latch_topic(kafka, name).erase(BOUND)


@pytest.mark.proof("switch")
def test_reading_ends_within_its_bound() -> None:
    """The error says that the broker did not answer."""
    with LocalKafka("4.2.0") as kafka:
        make(kafka, "latches", "compact")
        ours = latch_topic(kafka, "latches")
        assert ours.read(BOUND) is None
        kafka.pause(1)
        began = time.monotonic()
        with pytest.raises(LatchTopicError):
            ours.read(2)
        assert time.monotonic() - began < 15
        kafka.resume(1)
        assert ours.read(BOUND) is None
