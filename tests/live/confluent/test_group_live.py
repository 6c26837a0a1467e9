"""Reading a group on real brokers, old and new."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from topics import create_topics

from featuregate.testing import LocalKafka
from featuregate_confluent.client.committed import stable_read
from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import TakeoverTimedOut
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.member.membership import close_static_member, leave_group
from featuregate_confluent.models import Model

pytestmark = pytest.mark.live

BOUND = 60.0
V2 = "fg1;model=v2|theirs"
VERSIONS = [*(pytest.param(old, marks=pytest.mark.proof("switch")) for old in ("2.4.1", "2.8.2", "3.9.2")), "4.2.0"]
STATIC_KEEPS_OLD_ID = "a classic group keeps the client id of the static member that was replaced"


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    return shared_kafka(request.param)


@pytest.fixture
def topic(kafka: LocalKafka, request: pytest.FixtureRequest) -> str:
    name = str(request.node.originalname)
    create_topics(kafka.client_config(), name, partitions=2)
    return name


@pytest.fixture
def member(kafka: LocalKafka) -> Iterator[Callable[..., Consumer]]:
    """Join the group that is named like the topic; all consumers leave at the end of the test."""
    members: list[Consumer] = []

    def join(topic: str, **properties: Any) -> Consumer:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        ours = {"group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**kafka.client_config(), **ours, **named})
        consumer.subscribe([topic])
        members.append(consumer)
        return consumer

    yield join
    for consumer in members:
        leave_group(consumer)


def protocols(kafka: LocalKafka) -> tuple[str, ...]:
    return ("classic", "consumer") if kafka.node(1).version.startswith("4") else ("classic",)


def until(met: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll the consumers until the condition holds, within the bound."""
    end = time.monotonic() + BOUND
    while not met():
        assert time.monotonic() < end, "it did not come to be so within the bound"
        for consumer in consumers:
            consumer.poll(0.1)


def settled(reader: GroupReader, count: int) -> bool:
    seen = reader.members()
    return seen.state == "stable" and len(seen.members) == count


def test_members_are_named_with_their_tags(kafka: LocalKafka, topic: str, member: Callable[..., Consumer]) -> None:
    """The description has each member's client id, instance id and host, the coordinator, and the group's state."""
    for protocol in protocols(kafka):
        group = f"{topic}-{protocol}"
        reader = GroupReader(kafka.client_config(), group)
        unused = reader.members()
        assert (unused.members, unused.state, unused.empty) == ((), "dead", True)

        tagged = member(topic, group_id=group, client_id="app#fg=bridge", group_protocol=protocol)
        static = member(topic, group_id=group, client_id="old", group_instance_id="one", group_protocol=protocol)
        until(lambda reader=reader: settled(reader, 2), tagged, static)
        seen = reader.members()
        by_client = {found.client_id: found for found in seen.members}
        assert {name: found.model for name, found in by_client.items()} == {"app#fg=bridge": Model.BRIDGE, "old": None}
        assert (by_client["old"].instance_id, by_client["app#fg=bridge"].instance_id) == ("one", None)
        assert all("127.0.0.1" in found.host and found.member_id for found in seen.members)
        assert f"{seen.coordinator.host}:{seen.coordinator.port}" == kafka.bootstrap
        assert (seen.coordinator.node_id, seen.kind, seen.empty) == (1, protocol, False)
        reader.close()


def test_a_static_member_that_is_replaced_keeps_its_client_id_in_classic_groups(
    kafka: LocalKafka, topic: str, member: Callable[..., Consumer]
) -> None:
    """The coordinator shows the new member id beside the *old* client id, also after another rebalance.

    So a client id says nothing about the software of a static member there: who replaces a tagged member by one
    without a tag still sees the tag. Groups of KIP-848 show the new one.
    """
    for protocol in protocols(kafka):
        group = f"{topic}-{protocol}"
        reader = GroupReader(kafka.client_config(), group)
        about = {"group_id": group, "group_protocol": protocol}
        other = member(topic, **about, client_id="dynamic")
        old = member(topic, **about, client_id="app#fg=bridge", group_instance_id="one")
        until(lambda reader=reader: settled(reader, 2), other, old)
        before = static_member(reader)
        close_static_member(old)
        new = member(topic, **about, client_id="handwritten", group_instance_id="one")
        until(lambda reader=reader, before=before: static_member(reader)[0] != before[0], other, new)
        until(lambda new=new: bool(new.assignment()), other, new)
        shown = "app#fg=bridge" if protocol == "classic" else "handwritten"
        assert static_member(reader)[1] == shown, STATIC_KEEPS_OLD_ID

        third = member(topic, **about, client_id="third")
        until(lambda reader=reader: settled(reader, 3), other, new, third)
        assert static_member(reader)[1] == shown, STATIC_KEEPS_OLD_ID
        reader.close()


def test_a_static_member_under_another_instance_id_is_another_member(
    kafka: LocalKafka, topic: str, member: Callable[..., Consumer]
) -> None:
    """The instance id is always that of the live member: brokers accept a tag in it, ``#`` included."""
    for protocol in protocols(kafka):
        group = f"{topic}-{protocol}"
        reader = GroupReader(kafka.client_config(), group)
        about = {"group_id": group, "group_protocol": protocol}
        tagged = member(topic, **about, client_id="app", group_instance_id="one#fg=bridge")
        until(lambda reader=reader: settled(reader, 1), tagged)
        plain = member(topic, **about, client_id="app", group_instance_id="one")
        until(lambda reader=reader: settled(reader, 2), tagged, plain)
        assert {found.instance_id for found in reader.members().members} == {"one#fg=bridge", "one"}
        reader.close()


def static_member(reader: GroupReader) -> tuple[str, str]:
    (found,) = [found for found in reader.members().members if found.instance_id == "one"]
    return found.member_id, found.client_id


def test_marks_are_read_from_outside(kafka: LocalKafka, topic: str, member: Callable[..., Consumer]) -> None:
    """Each partition has an offset and a mark, or none, also in a group of KIP-848."""
    for protocol in protocols(kafka):
        group = f"{topic}-{protocol}"
        reader = GroupReader(kafka.client_config(), group)
        consumer = member(topic, group_id=group, group_protocol=protocol)
        until(lambda consumer=consumer: len(consumer.assignment()) == 2, consumer)
        consumer.commit(offsets=[TopicPartition(topic, 1, 5, V2)], asynchronous=False)
        marked = (5, Mark(Model.V2, "theirs"))
        assert reader.offsets([(topic, 0), (topic, 1)]) == {(topic, 0): (None, Mark(None)), (topic, 1): marked}
        assert reader.offsets() == {(topic, 1): marked}
        assert stable_read(consumer, [(topic, 1)], BOUND) == {(topic, 1): marked}
        reader.close()


def test_a_stable_read_waits_for_a_pending_transaction(
    kafka: LocalKafka, topic: str, member: Callable[..., Consumer]
) -> None:
    """The unstable read returns the previous offset at once; the stable read waits, and names the partition.

    Brokers before 2.5 have no stable read: it returns what stood before, which is why the gate asks for OffsetFetch.
    """
    reader = GroupReader(kafka.client_config(), topic)
    consumer = member(topic)
    until(lambda: len(consumer.assignment()) == 2, consumer)
    before = [TopicPartition(topic, number, 1, "fg1;model=bridge") for number in (0, 1)]
    consumer.commit(offsets=before, asynchronous=False)
    producer = Producer({**kafka.client_config(), "transactional.id": topic, "transaction.timeout.ms": 60_000})
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 9, V2)], consumer.consumer_group_metadata(), BOUND)
    old = (1, Mark(Model.BRIDGE))
    both = [(topic, 0), (topic, 1)]
    assert reader.offsets(both) == dict.fromkeys(both, old)
    if kafka.node(1).version.startswith("2.4"):
        assert stable_read(consumer, both, 3) == dict.fromkeys(both, old)
    else:
        with pytest.raises(TakeoverTimedOut, match=rf"{topic}\[0\], {topic}\[1\] did not settle within 3 s"):
            stable_read(consumer, both, 3)
        assert stable_read(consumer, [(topic, 1)], BOUND) == {(topic, 1): old}
    producer.commit_transaction(BOUND)
    new = (9, Mark(Model.V2, "theirs"))
    until(lambda: stable_read(consumer, both, BOUND) == {both[0]: new, both[1]: old})
    reader.close()


def test_input_partitions_of_names_and_patterns(kafka: LocalKafka, topic: str) -> None:
    """All partitions of both are found. A missing topic has none, and is not created by the request."""
    reader = GroupReader(kafka.client_config(), "inputs")
    both = ((topic, 0), (topic, 1))
    assert reader.input_partitions([topic, "no-such-topic"]) == both
    assert reader.input_partitions([f"^{topic[:-3]}", topic]) == both
    assert set(both) < set(reader.input_partitions([r"^[[:alpha:]_]+s$"])), "everything, where we cannot be sure"
    assert reader.input_partitions(["^no-such-topic"]) == ()
    admin = AdminClient(kafka.client_config())
    assert "no-such-topic" not in admin.list_topics(timeout=BOUND).topics
    reader.close()


@pytest.mark.proof("switch")
def test_asking_does_not_wait_and_an_answer_has_a_bound() -> None:
    """While the coordinator does not answer, asking does not block, and reading the answer ends within the bound."""
    with LocalKafka("4.2.0") as kafka:
        reader = GroupReader(kafka.client_config(), "orders")
        assert reader.members().state == "dead"
        kafka.pause(1)
        began = time.monotonic()
        asked, all_marks = reader.ask(timeout=2), reader.ask_offsets([("orders", 0)], timeout=2)
        assert time.monotonic() - began < 1
        assert (asked.done, all_marks.done) == (False, False)
        for waiting in (asked, all_marks):
            with pytest.raises(GroupUnreadable):
                waiting.result()
            assert waiting.done
        assert time.monotonic() - began < 10
        kafka.resume(1)
        reader.close()


@pytest.mark.proof("switch")
def test_the_readers_own_client_takes_the_apps_token_callback() -> None:
    """With OAUTHBEARER and the app's ``oauth_cb``, the group is read as the app's own user."""
    with LocalKafka("4.2.0", security="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER") as kafka:
        config = kafka.client_config()
        calls: list[str] = []

        def token(said: str) -> tuple[str, float]:
            calls.append(said)
            return "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyIiwiZXhwIjo0MTAyNDQ0ODAwfQ.", 4102444800.0

        unsecured = {name: value for name, value in config.items() if "unsecure" not in name}
        reader = GroupReader({**unsecured, "oauth_cb": token, "group.id": "orders"}, "orders")
        assert reader.members().state == "dead"
        assert calls
        reader.close()


@pytest.mark.proof("switch")
def test_a_reader_finds_a_coordinator_that_has_moved_between_two_reads() -> None:
    """The admin client of librdkafka remembers the coordinator, whatever that broker answers."""
    with LocalKafka("4.2.0", nodes=3) as kafka:
        reader = GroupReader(kafka.client_config(), "orders")
        before = reader.members(BOUND).coordinator.node_id
        kafka.kill(before)
        until(lambda: coordinator(kafka) not in {None, before})
        kafka.start(before)
        until(lambda: coordinator(kafka) not in {None, before})
        assert reader.members(BOUND).coordinator.node_id != before
        reader.close()


def coordinator(kafka: LocalKafka) -> int | None:
    reader = GroupReader(kafka.client_config(), "orders")
    try:
        return reader.members().coordinator.node_id
    except GroupUnreadable:
        return None
    finally:
        reader.close()
