"""Takes part in the group with one consumer after the other: subscribes, follows the assignments, polls, leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from featuregate.logs import get_logger
from featuregate_confluent.config.settings import last, text
from featuregate_confluent.errors import InstanceTaken, MustRejoin, SwitchFatal
from featuregate_confluent.member.failure_limits import UNRELEASED_SECONDS
from featuregate_confluent.member.positions import by_partition, places, rewind, take_back
from featuregate_confluent.producing.offsets import read_group_metadata
from featuregate_librdkafka.error_table import ErrorAction, action_for, explain

if TYPE_CHECKING:
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.member.group_observer import GroupObserver, GroupWatch
    from featuregate_confluent.member.outcome_handler import OutcomeHandler
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.member.takeover import Takeover

logger = get_logger("featuregate.confluent")

_TRANSIENT: Final = frozenset({"_PARTITION_EOF", "_MAX_POLL_EXCEEDED", "UNKNOWN_TOPIC_OR_PART"})
# A consumer with a fatal error says ``_FATAL``; only the text has the broker's reason.
_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
_UNRELEASED: Final = KafkaError(KafkaError.UNRELEASED_INSTANCE_ID).str()


@dataclass(eq=False, repr=False)
class Membership:
    """The consumer of this member, and its place in the group."""

    state: MemberState
    _: KW_ONLY
    config: InitVar[Mapping[str, Any]]
    topics: InitVar[Sequence[str]]
    observer: GroupObserver
    takeover: Takeover
    conclusions: OutcomeHandler
    watch: GroupWatch
    _consumer: Consumer | None = field(default=None, init=False)
    _failure: Exception | None = field(default=None, init=False)

    def __post_init__(self, config: Mapping[str, Any], topics: Sequence[str]) -> None:
        self._incremental = _is_incremental(config)
        self._static = bool(config.get("group.instance.id"))
        self._topics = list(topics)

    @property
    def consumer(self) -> Consumer:
        """The consumer that takes part. Raises MustRejoin, SwitchFatal."""
        if self._consumer is None:
            raise SwitchFatal("there is no consumer yet: call subscribe() first")
        if self.state.lost is not None:
            raise MustRejoin(f"another consumer has to be subscribed: {self.state.lost}")
        return self._consumer

    def join(self, consumer: Consumer) -> None:
        """Subscribe a consumer, after the one before it has left."""
        self._consumer, self._failure = consumer, None
        self.state.join()
        revoke = self._on_revoke
        consumer.subscribe(self._topics, on_assign=self._on_assign, on_revoke=revoke, on_lost=revoke)

    def poll(self, consumer: Consumer, max_messages: int, timeout: float) -> list[Message]:
        """Return messages of partitions that are this member's; none after a rebalance (R9).

        After any error this member owns nothing any more. Raises MustRejoin where a new consumer helps.
        """
        with self._losing():
            messages = self._poll(consumer, max_messages, timeout)
        self.state.receive(messages)
        return messages

    def renew(self, consumer: Consumer, messages: Sequence[Message]) -> bool:
        """Replace the producers of these messages that may have sent a request twice. No transaction may be open.

        Return whether the messages are still the next ones. Raises as :meth:`poll`.
        """
        with self._losing():
            return self.takeover.renew(consumer, by_partition(messages))

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Own nothing after an error, also of a callback of the app: the client drops what it has fetched."""
        try:
            yield
        except BaseException as why:
            self.state.lose(str(why) or type(why).__name__)
            raise

    def leave(self) -> None:
        """Leave the group and close the consumer. A static member keeps its place until its session times out."""
        self.conclusions.leave_behind()
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            (close_static_member if self._static else leave_group)(consumer)

    # ------------------------------------------------------------------ polling

    def _poll(self, consumer: Consumer, max_messages: int, timeout: float) -> list[Message]:
        state = self.state
        take_back(consumer, state)
        self.takeover.identify(consumer)
        if state.partitions and self.observer.needs_group_state:
            generation = read_group_metadata(consumer.consumer_group_metadata()).generation
            if state.group.first_v2_generation not in {None, generation}:
                # The group moved on before the first commit in v2: decide again (R5).
                self.takeover.take(consumer, [], generation)
            self.takeover.look(consumer, generation)
        if state.group.generation < 0:
            self.observer.look_for_topics()
        else:
            self.watch.step()
        waiting = self.observer.commit_blocker() is not None
        assignment = state.assignment
        found = consumer.consume(1 if waiting else max_messages, timeout)  # also where it waits: it has to be polled
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        messages = [message for message in found if message.error() is None]
        if len(messages) != len(found):
            self._raise_for_errors(error for message in found if (error := message.error()) is not None)
        if waiting or not assignment.current:
            rewind(consumer, state.partitions, messages)
            return []
        return messages

    def _raise_for_errors(self, errors: Iterable[KafkaError]) -> None:
        try:
            raise_for_consumer_errors(errors)
        except InstanceTaken as taken:
            now = time.monotonic()
            self.state.failures = self.state.failures.unreleased(now)
            if self.state.failures.unreleased_for_too_long(now):
                raise SwitchFatal(f"{taken}; it has had it for {UNRELEASED_SECONDS:g} s") from taken
            raise

    # ------------------------------------------------------------------ these run within consume()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._consumer is None:
            return  # it is leaving: nothing is taken over, and what it is assigned comes back at once
        self.conclusions.leave_behind()
        if self.state.lost is not None:
            return  # another consumer has to be subscribed
        new = _partitions(partitions)
        try:
            self.takeover.take(consumer, new, read_group_metadata(consumer.consumer_group_metadata()).generation)
            self.state.failures = self.state.failures.assigned()
            assign = consumer.incremental_assign if self._incremental else consumer.assign
            assign(places(self.state.partitions, new))
        except Exception as error:  # noqa: BLE001 - poll() raises it, once the callback has returned
            self._failure = error

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.conclusions.leave_behind()  # before any of their producers is closed
        self.takeover.give_back(_partitions(partitions))


def _partitions(places: Iterable[TopicPartition]) -> list[Partition]:
    return [(place.topic, place.partition) for place in places]


def _is_incremental(config: Mapping[str, Any]) -> bool:
    """Whether a consumer's assignments come as differences (``rd_kafka_rebalance_protocol``)."""
    strategies = text(last(config, ("partition.assignment.strategy",)))
    return text(last(config, ("group.protocol",))) == "consumer" or "cooperative" in strategies


def raise_for_consumer_errors(errors: Iterable[KafkaError]) -> None:
    """Return if all of these pass by themselves. Raises InstanceTaken, MustRejoin, SwitchFatal."""
    for error in errors:
        words, action = f"{error.name()} ({error.str()})", action_for(error)
        if error.name() in _TRANSIENT:
            logger.info("%s: %s", error.name(), error.str())
        elif _FENCED in error.str():
            raise SwitchFatal(
                "another process has this one's group.instance.id, and has taken its place in the group. Give each "
                f"process its own: {words}"
            )
        elif _UNRELEASED in error.str():
            raise InstanceTaken(f"another member has this one's group.instance.id: {words}")
        elif action is ErrorAction.FATAL:
            raise SwitchFatal(f"the consumer cannot go on: {words}: {explain(error).reason}")
        elif error.fatal() or action is ErrorAction.REJOIN:
            raise MustRejoin(f"create a new consumer: {words}")
        else:
            logger.warning("the consumer says: %s", words)


LEAVE_SECONDS: Final = 10.0
_POLL: Final = 0.01
_QUIET_POLLS: Final = 3


def leave_group(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Leave the group and close the consumer, which may have been removed from it, or be closed already.

    ``close()`` alone runs a callback for each rebalance that is pending. If there are two, the group ends within the
    first callback, and a request of the second one is never answered: the process blocks for good, with every Python
    thread (librdkafka #4041, #4884; ``rd_kafka_cgrp_op_serve``). So the member unsubscribes first, and polls the
    consumer until no callback is left.
    """
    with _going_on():
        consumer.unsubscribe()
        _run_callbacks(consumer, timeout, lambda: not consumer.assignment())
    _close(consumer)


def close_static_member(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Close the consumer of a static member, which keeps its place in the group until its session times out (KIP-345).

    To unsubscribe would be to leave (``rd_kafka_cgrp_leave_maybe``), and every other member would be assigned again. So
    only the callbacks that are pending already run before.
    """
    with _going_on():
        consumer.pause(consumer.assignment())  # the poll is for callbacks, not for messages
        _run_callbacks(consumer, timeout, lambda: True)
    _close(consumer)


@contextmanager
def _going_on() -> Iterator[None]:
    """Go on to close the consumer, whatever fails before."""
    try:
        yield
    except (KafkaException, RuntimeError):
        pass  # a fatal error, or closed: then nothing calls back any more
    except Exception:
        logger.exception("a callback of the app failed while its member left the group")


def _run_callbacks(consumer: Consumer, timeout: float, done: Callable[[], bool]) -> None:
    until, quiet = time.monotonic() + timeout, 0
    while quiet < _QUIET_POLLS and time.monotonic() < until:
        silent = consumer.poll(_POLL) is None and done()
        quiet = quiet + 1 if silent else 0


def _close(consumer: Consumer) -> None:
    with suppress(RuntimeError):
        consumer.close()
