"""A group that answers what a test sets, and a member of it, without brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import Model
from featuregate_confluent.client.group import Coordinator, GroupDescription
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Member, Partition
from featuregate_confluent.member.group_observer import GroupObserver, GroupWatch
from featuregate_confluent.member.membership import Membership
from featuregate_confluent.member.outcome_handler import OutcomeHandler
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.member.takeover import Takeover
from featuregate_confluent.models import tagged
from featuregate_confluent.producing.rounds import Limits, Rounds

A, B = ("orders", 0), ("orders", 1)
LEGACY, V2, NOTHING = "fg1;model=legacy", "fg1;model=v2", ""


def model(mark: str) -> Model | None:
    return next((each for each in Model if mark.endswith(each.label)), None)


def member(promised: Model | None) -> Member:
    """Return a live member whose client id promises this model, None: without a tag."""
    client_id = "app" if promised is None else tagged("app", promised)
    return Member(member_id="m", client_id=client_id, instance_id=None, host="h")


class FakeAnswer:
    def __init__(self, group: FakeGroup, answer: object) -> None:
        self._group = group
        self._answer = answer

    @property
    def done(self) -> bool:
        return self._group.answers

    def result(self) -> Any:
        if self._group.refuses is not None:
            raise self._group.refuses
        return self._answer


class FakeGroup:
    """A group that answers what it has committed, from outside and, once that is stable, to a member.

    It is the reader of the group, the member's consumer and its producers at once, and records the calls of all.
    """

    def __init__(self, marks: dict[Partition, str], stable: dict[Partition, str] | None = None) -> None:
        self.marks = marks
        self.stable = marks if stable is None else stable
        self.live = (member(Model.BRIDGE),)
        self.generation = 3
        self.answers = True
        self.messages: list[Message] = []
        self.refuses: Exception | None = None
        self.owners: dict[Partition, Member] = {}
        self.ends: dict[Partition, int] = {}
        self.unidentified: KafkaException | None = None
        """What the consumer raises in place of its metadata."""
        self.fails: BaseException | None = None
        """What the next poll raises."""
        self.calls: list[str] = []
        self.cluster_id: str | None = "static"
        self.missing: Collection[Partition] = ()
        """Partitions without a committed offset."""
        self.pending: Collection[Partition] = ()
        """Those that have one once no transaction is pending."""
        self.elsewhere: dict[Partition, tuple[int | None, Mark]] = {}
        """What the group has committed in other topics."""
        self.doubted: list[Partition] = []
        """Partitions whose producers may have sent a request twice."""
        self._rebalance: Callable[[], None] | None = None

    @property
    def consumer(self) -> Consumer:
        return cast("Consumer", self)

    # ---- as the reader of the group

    def input_partitions(self, _topics: object, _timeout: float) -> tuple[Partition, ...]:
        if self.refuses is not None:
            raise self.refuses
        return tuple(self.marks)

    def offsets(
        self, partitions: Collection[Partition] | None, _timeout: float
    ) -> dict[Partition, tuple[int | None, Mark]]:
        if partitions is None:
            return self.elsewhere
        return {key: (None if key in self.missing else 5, Mark(model(self.marks[key]))) for key in partitions}

    def ask(self) -> FakeAnswer:
        self.calls.append("ask")
        coordinator = Coordinator(1, "b1", 9092)
        described = GroupDescription(
            members=self.live, coordinator=coordinator, state="stable", kind="classic", owners=self.owners
        )
        return FakeAnswer(self, described)

    def ask_offsets(self, partitions: Collection[Partition]) -> FakeAnswer:
        return FakeAnswer(self, self.offsets(partitions, 0.0))

    def ask_ends(self, partitions: Collection[Partition]) -> FakeAnswer:
        return FakeAnswer(self, {key: self.ends[key] for key in partitions})

    # ---- as the consumer

    def subscribe(self, _topics: list[str], *, on_assign: Callable[..., None], **_others: object) -> None:
        self._rebalance = lambda: on_assign(self, [TopicPartition(*key) for key in self.marks])

    def list_topics(self, _topic: str = "", timeout: float = -1) -> SimpleNamespace:
        assert timeout > 0
        if self.unidentified is not None:
            raise self.unidentified
        return SimpleNamespace(cluster_id=self.cluster_id)

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + self.generation.to_bytes(4, "little") + b"group\0member\0\0"

    def consume(self, most: int, _timeout: float) -> list[Message]:
        rebalance, self._rebalance = self._rebalance, None
        if rebalance is not None:
            rebalance()
            return []
        self.calls.append(f"consume {most}")
        fails, self.fails = self.fails, None
        if fails is not None:
            raise fails
        return self.messages

    def assign(self, places: list[TopicPartition]) -> None:
        self.calls.append(f"assign {[each.partition for each in places]}")

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        self.calls.append(f"read {[each.partition for each in wanted]}")
        places = [(each.topic, each.partition) for each in wanted]
        lost = set(self.missing) - set(self.pending)
        return [TopicPartition(*key, OFFSET_INVALID if key in lost else 5, self.stable[key]) for key in places]

    def seek(self, place: TopicPartition) -> None:
        self.calls.append(f"seek {place.partition}")

    # ---- as the producers

    def open(self, partitions: Collection[Partition]) -> None:
        self._call("open", partitions)

    def fence(self, partitions: Collection[Partition]) -> None:
        self._call("fence", partitions)

    def close_for(self, partitions: Collection[Partition]) -> None:
        self._call("close", partitions)

    def renew(self, partitions: Collection[Partition]) -> list[Partition]:
        renewed = [key for key in self.doubted if key in partitions]
        self._call("renew", renewed)
        return renewed

    def open_for_process(self) -> None:
        self.calls.append("open for process")

    def __contains__(self, _partition: object) -> bool:
        return True

    def _call(self, name: str, partitions: Collection[Partition]) -> None:
        if partitions:
            self.calls.append(f"{name} {[number for _, number in partitions]}")


class FakeMember:
    def __init__(self, group: FakeGroup, release: str = "2.4", latch_topic: Any = None) -> None:
        self.group = group
        self.events: list[Any] = []
        self.features = StaticFeatures(release_view(release))
        self.state = MemberState()
        self.now = 0.0
        """The clock of the watch."""
        fake: Any = group
        self.observer = GroupObserver(
            self.state,
            pinned=None,
            gate=self.features.gate("kip447", presets.kip447),
            reader=fake,
            latch_topic=latch_topic,
            topics=["orders"],
            emit=self.events.append,
            every=0.0,
        )
        self.takeover = Takeover(
            self.state, producers=fake, observer=self.observer, emit=self.events.append, transaction_seconds=1.0
        )
        self.watch = GroupWatch(
            self.state, reader=fake, emit=self.events.append, longest_round=300.0, clock=lambda: self.now
        )
        self.membership = Membership(
            self.state,
            config={},
            topics=["orders"],
            observer=self.observer,
            takeover=self.takeover,
            watch=self.watch,
            conclusions=OutcomeHandler(
                self.state,
                producers=fake,
                emit=self.events.append,
                process="one",
                rounds=Rounds(Limits(transaction=10.0, poll=300.0), self.events.append),
            ),
        )

    def join(self) -> None:
        self.membership.join(self.group.consumer)
        assert self.poll() == []

    def poll(self) -> list[Message]:
        return self.membership.poll(self.group.consumer, 500, 0.1)
