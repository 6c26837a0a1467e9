"""Missing rights: what brokers answer, and that an empty answer is not trusted."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from topics import create_topics
from waiting import BOUND, eventually

from featuregate.testing import LocalKafka
from featuregate_confluent import ExactlyOnceProcessor, Record, SwitchFatal
from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import LatchTopicError, SwitchError
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.models import Model
from featuregate_confluent.operator.rollback import Rollback, RollbackRefused

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": 0,
}
PLACE = ("orders", 0)
LATCHED = (5, Mark(Model.V2))
APP_NEEDS = (
    (ResourceType.GROUP, "payroll", ResourcePatternType.LITERAL, AclOperation.READ),
    (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, AclOperation.READ),
    (ResourceType.TOPIC, "bills", ResourcePatternType.LITERAL, AclOperation.WRITE),
    (ResourceType.TRANSACTIONAL_ID, "payroll", ResourcePatternType.PREFIXED, AclOperation.WRITE),
)


@pytest.fixture
def kafka() -> Iterator[LocalKafka]:
    """Start a cluster with an authorizer, a topic, a latch topic, and a latched group without members."""
    users = {"admin": "admin-secret", "alice": "alice-secret"}
    with LocalKafka(
        "4.2.0", security="SASL_PLAINTEXT", sasl_mechanism="PLAIN", users=users, properties=AUTHORIZER
    ) as cluster:
        create_topics(cluster.client_config(), "orders", "bills")
        create_topics(cluster.client_config(), "latches", cleanup_policy="compact")
        latch(cluster)
        yield cluster


def latch(kafka: LocalKafka) -> None:
    """Commit a latch as the group. Unlike an admin client, a consumer waits for the coordinator."""
    with Consumer({**kafka.client_config(), "group.id": "billing"}) as consumer:
        allowed(lambda: consumer.committed([TopicPartition(*PLACE)], timeout=BOUND))
        latched = [TopicPartition(*PLACE, 5, "fg1;model=v2")]
        (written,) = allowed(lambda: consumer.commit(offsets=latched, asynchronous=False))
    assert written.error is None, written.error


@pytest.fixture
def alice(kafka: LocalKafka) -> dict[str, Any]:
    return {**kafka.client_config(), "sasl.username": "alice", "sasl.password": "alice-secret"}


def allowed(call: Callable[[], Any]) -> Any:
    """Call until no error is raised: a new right takes a moment to reach the broker."""
    return eventually(call, "it is not allowed", met=lambda _: True, despite=(Exception,))


def allow(kafka: LocalKafka, kind: ResourceType, name: str, operation: AclOperation) -> None:
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW)
    admin = AdminClient(kafka.client_config())
    for made in admin.create_acls([binding]).values():
        made.result(BOUND)


def test_silence_about_topics_is_not_an_empty_latch(kafka: LocalKafka, alice: dict[str, Any]) -> None:
    """Without DESCRIBE on the topic, the list of all offsets is empty without an error: a rollback does not trust it.

    Who asks for the partition by its name is refused. READ on group and topic is enough for everything.
    """
    reader = GroupReader(alice, "billing")
    rollback = Rollback.connect(alice, "billing", to=Model.BRIDGE, latch_topic=None, timeout=BOUND)
    with pytest.raises(GroupUnreadable, match="GROUP_AUTHORIZATION_FAILED"):
        reader.members(5)
    allow(kafka, ResourceType.GROUP, "billing", AclOperation.DESCRIBE)
    assert allowed(reader.members).empty
    assert (reader.members().state, reader.offsets()) == ("empty", {})
    with pytest.raises(GroupUnreadable, match=r"in orders\[0\]: TOPIC_AUTHORIZATION_FAILED"):
        reader.offsets([PLACE])
    with pytest.raises(RollbackRefused, match="shows no offset"):
        rollback.plan()

    allow(kafka, ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
    assert allowed(lambda: reader.offsets([PLACE])) == {PLACE: LATCHED}
    assert reader.input_partitions(["orders"]) == reader.input_partitions(["^ord"]) == (PLACE,)
    with pytest.raises(SwitchError, match="needs the right READ"):
        rollback.carry_out(rollback.plan())
    assert reader.offsets() == {PLACE: LATCHED}

    allow(kafka, ResourceType.GROUP, "billing", AclOperation.READ)
    allow(kafka, ResourceType.TOPIC, "orders", AclOperation.READ)
    allowed(lambda: rollback.carry_out(rollback.plan()))
    assert reader.offsets() == {PLACE: (5, Mark(Model.BRIDGE))}


def test_the_latch_topic_names_the_right_that_is_missing(kafka: LocalKafka, alice: dict[str, Any]) -> None:
    """To read it needs DESCRIBE_CONFIGS and READ, and DESCRIBE on the group; to erase it, WRITE."""
    latch_topic = LatchTopic("latches", alice, group="billing", gate="kip447")
    with pytest.raises(LatchTopicError, match="needs the right DESCRIBE"):
        latch_topic.read(BOUND)
    allow(kafka, ResourceType.TOPIC, "latches", AclOperation.READ)
    allowed(lambda: GroupReader(alice, "billing").input_partitions(["latches"]))
    with pytest.raises(LatchTopicError, match="needs the right DESCRIBE_CONFIGS"):
        latch_topic.read(BOUND)
    allow(kafka, ResourceType.TOPIC, "latches", AclOperation.DESCRIBE_CONFIGS)
    allow(kafka, ResourceType.GROUP, "billing", AclOperation.DESCRIBE)
    assert allowed(lambda: latch_topic.read(BOUND)) is None


def test_an_app_needs_four_rights_and_names_the_one_that_is_missing(kafka: LocalKafka, alice: dict[str, Any]) -> None:
    """With them it commits and moves to v2; without one of them it ends, and names the right."""
    admin = AdminClient(kafka.client_config())
    for kind, name, pattern, operation in APP_NEEDS:
        binding = AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
        admin.create_acls([binding])[binding].result(BOUND)
    allowed(lambda: must_go_on(until_v2(kafka, alice)))
    for kind, name, pattern, operation in APP_NEEDS:
        found = AclBindingFilter(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
        admin.delete_acls([found])[found].result(BOUND)
        allowed(lambda name=name: must_miss(name, until_v2(kafka, alice)))
        binding = AclBinding(kind, name, pattern, "User:alice", "*", operation, AclPermissionType.ALLOW)
        admin.create_acls([binding])[binding].result(BOUND)
        allowed(lambda: must_go_on(until_v2(kafka, alice)))


def must_miss(name: str, failure: Exception | None) -> None:
    assert isinstance(failure, SwitchFatal), f"it ended with {failure!r} without the right on {name}"
    assert "AUTHORIZATION_FAILED" in str(failure)


def must_go_on(failure: Exception | None) -> None:
    assert failure is None, failure


def until_v2(kafka: LocalKafka, user: dict[str, Any]) -> Exception | None:
    """Process an order as that user until the group is latched at v2; return an error that ended it."""
    processor = ExactlyOnceProcessor(
        consumer={**user, "group.id": "payroll", "auto.offset.reset": "earliest"},
        producer=user,
        topics=["orders"],
        app_id="payroll",
        instance_id="0",
        transform=lambda messages: [Record("bills", message.value()) for message in messages],
        group_interval=0.2,
    )
    failures: list[Exception] = []

    def run() -> None:
        try:
            processor.run()
        except SwitchError as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    orders = Producer(kafka.client_config())
    try:
        end = time.monotonic() + BOUND
        while thread.is_alive() and not (processor.health()["committed"] and processor.health()["latch"] == "v2"):
            assert time.monotonic() < end, processor.health()
            orders.produce("orders", "an order")
            assert orders.flush(BOUND) == 0
            time.sleep(0.1)
    finally:
        processor.stop()
        thread.join()
    return failures[0] if failures else None
