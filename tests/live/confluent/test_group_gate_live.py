"""The gate of a group, with members of a real consumer group."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from builders import broker, view
from confluent_kafka import Consumer
from topics import create_topics
from waiting import BOUND, eventually

import featuregate as fg
from featuregate.testing import LocalKafka, StaticFeatures
from featuregate_confluent import GroupGate, GroupMembers, TopicLatchStore

pytestmark = pytest.mark.live

TXN = "TxnOffsetCommit>=3"
HOUR = 3600.0
MANY = 200


class Member:
    """A process of the app: a consumer that polls, and perhaps the gate of its group."""

    def __init__(self, kafka: LocalKafka, group: str, at_end: ExitStack, *, protocol: str, gated: bool = True) -> None:
        config = kafka.client_config()
        self.consumer = Consumer({**config, "group.id": group, "group.protocol": protocol})
        self._ended = threading.Event()
        self.name: str | None = None
        self._thread = threading.Thread(target=self._poll)
        self.gate: GroupGate | None = None
        if gated:
            features = at_end.enter_context(fg.Discoverer(config, interval=HOUR))
            self.members = GroupMembers(config, group)
            at_end.callback(self.members.close)
            self.gate = GroupGate(
                features,
                features.gate("eos", TXN),
                group=group,
                store=TopicLatchStore(config, app="orders", topic=f"latches-{group}", timeout=BOUND),
                members=self.members,
                interval=0.2,
            )
            at_end.enter_context(self.gate)
        self.consumer.subscribe([f"input-{group}"], on_assign=self._assigned)
        self._thread.start()
        at_end.callback(self.leave)

    def _assigned(self, consumer: Consumer, _: object) -> None:
        self.name = consumer.memberid()
        if self.gate is not None:
            self.gate.joined(self.name)

    def _poll(self) -> None:
        while not self._ended.is_set():
            self.consumer.poll(0.1)
        self.consumer.close()

    def leave(self) -> None:
        self._ended.set()
        self._thread.join(BOUND)


@pytest.fixture
def at_end() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def create(kafka: LocalKafka, group: str) -> None:
    create_topics(kafka.client_config(), f"input-{group}", partitions=4)
    create_topics(kafka.client_config(), f"latches-{group}", cleanup_policy="compact")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_of_three_opens_when_the_last_of_them_has_featuregate(
    kafka: LocalKafka, at_end: ExitStack, protocol: str
) -> None:
    """A member without it keeps the group closed; the one in its place, and one that starts later, are open."""
    group = f"group-gate-{protocol}"
    create(kafka, group)
    plain = Member(kafka, group, at_end, protocol=protocol, gated=False)
    name = eventually(lambda: plain.name, "the name of the member without featuregate")
    # Only now: two who are alone in the group are all of it, and open before a slow third one is a member.
    one, other = (Member(kafka, group, at_end, protocol=protocol) for _ in range(2))
    assert one.gate is not None
    assert other.gate is not None
    for gate in (one.gate, other.gate):
        eventually(lambda gate=gate: gate.side == "old" and "no word of this gate" in gate.decision.summary)
        assert name in gate.decision.summary
    plain.leave()
    third = Member(kafka, group, at_end, protocol=protocol)
    assert third.gate is not None
    for gate in (one.gate, other.gate, third.gate):
        assert gate.wait(BOUND)
    one.leave()
    late = Member(kafka, group, at_end, protocol=protocol)
    assert late.gate is not None
    assert late.gate.wait(BOUND)


@pytest.mark.proof("switch")
@pytest.mark.parametrize("release", ["2.4.1", "3.9.2", "4.2.0"])
def test_two_hundred_members_agree(release: str, shared_kafka: Callable[[str], LocalKafka]) -> None:
    """Each looks at the same time as others; no two are ever on two sides, and each opens."""
    kafka, group = shared_kafka(release), "group-of-200"
    create(kafka, group)
    store = TopicLatchStore(kafka.client_config(), app="orders", topic=f"latches-{group}", timeout=BOUND)
    features = [StaticFeatures(view(broker(txn=3))) for _ in range(MANY)]
    gates = [
        GroupGate(
            each,
            each.gate("eos", TXN),
            group=group,
            store=store,
            members=lambda: {f"m{number}" for number in range(MANY)},
            member=f"m{number}",
        )
        for number, each in enumerate(features)
    ]
    sides: set[frozenset[str]] = set()

    def look(gate: GroupGate) -> None:
        gate.look()
        assert gate.health()["error"] is None
        sides.add(frozenset(each.side for each in gates))

    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):  # ready, stopped, open
            list(pool.map(look, gates))
    assert {gate.side for gate in gates} == {"new"}
    assert not [seen for seen in sides if {"old", "new"} <= seen]
