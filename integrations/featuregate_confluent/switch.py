"""The switch for apps that own their loop: which producer for these messages, and when the model moves up.

It is used by one thread, that of the loop, but for :meth:`ProducerSwitch.health`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from featuregate import presets
from featuregate.errors import ClosedError
from featuregate.printable import harmless
from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.config import settings
from featuregate_confluent.config.options import SwitchOptions, complete, make_discoverer
from featuregate_confluent.errors import SwitchFatal
from featuregate_confluent.events import Stopped, event_emitter
from featuregate_confluent.member.group_observer import GroupObserver, GroupWatch
from featuregate_confluent.member.membership import Membership
from featuregate_confluent.member.outcome_handler import OutcomeHandler
from featuregate_confluent.member.positions import transactions_of
from featuregate_confluent.member.process_name import claim_process_name
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.member.takeover import Takeover
from featuregate_confluent.models import Model, parse_model
from featuregate_confluent.producing.producers import Producers
from featuregate_confluent.producing.rounds import Limits, Rounds

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from featuregate_confluent.producing.transaction import Transaction

GATE: Final = "kip447"
FIRST_VIEW_SECONDS: Final = 15.0
IDENTIFY_SECONDS: Final = 5.0


class ProducerSwitch:
    """Moves one member of a consumer group from a producer for each partition to one for the process, and never back.

    .. code-block:: python

        switch = ProducerSwitch(consumer=..., producer=..., topics=["orders"], app_id="billing")
        consumer = Consumer(switch.consumer_config)
        switch.subscribe(consumer)
        while running:
            for transaction in switch.transactions(switch.consume(500, 0.2)):
                with transaction:
                    for message in transaction.messages:
                        transaction.produce("bills", message.value(), key=message.key())
        switch.close()

    On :class:`~featuregate_confluent.errors.MustRejoin` make another consumer and subscribe it.
    Raises `ConfigError`: a property or parameter cannot be used.

    Parameters
    ----------
    options
        Those of :class:`~featuregate_confluent.config.options.SwitchOptions`; ``consumer``, ``producer``, ``topics``
        and ``app_id`` are needed.
    """

    def __init__(self, **options: Unpack[SwitchOptions]) -> None:
        given = complete(options)
        consumer, producer, app_id = given["consumer"], given["producer"], given["app_id"]
        pinned = parse_model(given["model"])
        self.topics = list(given["topics"])
        self.consumer_config = settings.consumer_config(
            consumer, app_id=app_id, tag=Model.LEGACY if pinned is Model.LEGACY else Model.BRIDGE
        )
        group_id = str(self.consumer_config["group.id"])
        produced = settings.producer_config(producer, transactional_id=app_id)
        settings.require_one_cluster(consumer, producer)
        transaction_seconds = int(produced["transaction.timeout.ms"]) / 1000
        limits = Limits(transaction=transaction_seconds, poll=settings.poll_seconds(self.consumer_config))
        name = given["instance_id"] or consumer.get("group.instance.id")
        self._own_features = given["features"] is None
        self._features = given["features"] or make_discoverer(given, instance=name)
        self._gate = self._features.gate(GATE, presets.kip447)
        self._reader = GroupReader(self.consumer_config, group_id)
        latch_topic = given["latch_topic"]
        self._latch_topic = (
            LatchTopic(latch_topic, self.consumer_config, group=group_id, gate=GATE) if latch_topic else None
        )
        self.process = claim_process_name(app_id, instance_id=name, state_dir=given["state_dir"])
        """The name of this process among its siblings."""
        self._producers = Producers(producer, app_id=app_id, process=self.process.name, name_of=given["name_of"])
        self.emit = event_emitter(given["metrics"])
        """Logs an event, and hands it to ``metrics``."""
        self.rounds = Rounds(limits, self.emit)
        """Measures how long the app's code takes, for the processor."""
        self._state = MemberState()
        self._observer = GroupObserver(
            self._state,
            pinned=pinned,
            gate=self._gate,
            reader=self._reader,
            latch_topic=self._latch_topic,
            topics=self.topics,
            emit=self.emit,
            every=given["group_interval"],
        )
        takeover = Takeover(
            self._state,
            producers=self._producers,
            observer=self._observer,
            emit=self.emit,
            transaction_seconds=transaction_seconds,
        )
        self._conclusions = OutcomeHandler(
            self._state, producers=self._producers, emit=self.emit, process=self.process.name, rounds=self.rounds
        )
        self._membership = Membership(
            self._state,
            config=self.consumer_config,
            topics=self.topics,
            observer=self._observer,
            takeover=takeover,
            conclusions=self._conclusions,
            watch=GroupWatch(self._state, reader=self._reader, emit=self.emit, longest_round=limits.poll),
        )
        self._closed = False
        self._pid = os.getpid()

    # ------------------------------------------------------------------ the loop

    def subscribe(self, consumer: Consumer) -> None:
        """Subscribe a consumer, which was made of ``consumer_config``, and follow its assignments.

        The consumer before it, if any, leaves the group.

        Raises
        ------
        SwitchFatal
            The switch was made before a fork: its clients have no threads here, and its name is the parent's. Or
            ``features`` discovers another cluster than the one that this consumer is connected to.
        """
        self.require_own_process()
        self.leave()
        self._producers.close()  # a new member begins with new producers: the last failure may be theirs
        self._features.wait(FIRST_VIEW_SECONDS)
        with suppress(GroupUnreadable):  # a cluster that does not answer now is identified with the first assignment
            self._observer.identify(consumer, IDENTIFY_SECONDS)
        self._membership.join(consumer)
        self.rounds.end(self.aborted)
        self.rounds.polled(self.aborted)

    def consume(self, max_messages: int = 500, timeout: float = 0.2) -> list[Message]:
        """Consume up to ``max_messages`` of partitions that are this member's, for ``timeout`` seconds at most.

        Returns no messages after a rebalance: those in hand come again to the new owner of their partition (R9).
        Messages that the app did not give to :meth:`transactions`, or whose transactions it did not run, because it
        caught an error, come again as well. After any error of this call only :meth:`subscribe` helps.

        Raises
        ------
        MustRejoin
            This member was replaced, or its partitions could not be taken over: make a new consumer.
        ModelRefused, UnknownMark, LatchTopicError, SwitchFatal
            This member must not take part as it is.
        """
        self.require_own_process()
        self._conclusions.leave_behind()
        consumer = self._subscribed()
        self.rounds.end(self.aborted)
        try:
            self._producers.poll()
            return self._membership.poll(consumer, max_messages, timeout)
        finally:
            self.rounds.polled(self.aborted)

    def transactions(self, messages: Sequence[Message]) -> Iterator[Transaction]:
        """Yield the transactions for messages of :meth:`consume`. Run each one before the next is taken.

        Give it the messages of each :meth:`consume`, also where you have left out all of them: else they come again.

        Raises
        ------
        SwitchFatal
            A message was given before, is of an earlier :meth:`consume`, or is before one of its partition that was
            given in an earlier call.
        MustRejoin
            A producer that has lost a connection could not be replaced: make a new consumer.
        """
        messages = list(messages)  # also of an iterator, and whatever the app does with its own
        if not messages:
            self._state.begin(messages)
            return
        consumer = self._subscribed()
        if self._state.under_way:
            raise SwitchFatal("commits of another round are under way: end the block of its Pipeline first")
        yield from transactions_of(
            messages,
            self._state,
            consumer=consumer,
            producers=self._producers,
            keeper=self._conclusions,
            latch_topic=self._latch_topic,
            renew=partial(self._membership.renew, consumer, messages),
        )

    def round_size(self, most: int = 500) -> int:
        """Return how many messages to consume now, so that the round ends well within both limits.

        Between 1 and ``most``: one before anything was measured, then up to eight times as many from round to round.
        The pace is measured from where :meth:`transactions` gives a transaction to the end of its commit. It lasts
        when the member joins again, and a round that was aborted comes again with at most half of the messages. See
        :class:`~featuregate_confluent.producing.pace.Pace`.
        Raises `RoundTooLong`: one message alone takes longer than a limit, time and again.
        """
        return self.rounds.size(most, self.aborted)

    def time_left(self) -> float:
        """Return the seconds until the first limit, negative once that has passed.

        The limits are ``max.poll.interval.ms`` since :meth:`subscribe` or :meth:`consume` returned, and
        ``transaction.timeout.ms`` since each transaction began that is open. A transaction whose commit was started is
        not open any more.
        """
        return self.rounds.time_left()

    def leave(self) -> None:
        """Leave the group and close the consumer, so that others take over at once; :meth:`subscribe` joins again.

        A static member (``group.instance.id``) keeps its place until its session times out: no other member takes over,
        and it comes back to its own partitions. A transaction that is open is aborted when its producer is closed.
        """
        if self.in_own_process:
            self._membership.leave()

    def close(self) -> None:
        """Leave the group, and close everything. Closing twice is closing once.

        A process that was forked closes nothing: everything is its parent's.
        """
        if self._closed:
            return
        self._closed = True
        if not self.in_own_process:
            return
        with ExitStack() as at_end:
            at_end.callback(lambda: self.emit(Stopped(committed=self.committed, aborted=self.aborted)))
            if self._own_features:
                at_end.callback(self._features.close)
            at_end.callback(self.process.release)
            at_end.callback(self._reader.close)
            at_end.callback(self._conclusions.callers.close)
            at_end.callback(self._producers.close)
            self.leave()

    # ------------------------------------------------------------------ what can be read from anywhere

    @property
    def model(self) -> Model:
        """The model of the next transaction."""
        return self._state.group.model

    @property
    def latch(self) -> Model | None:
        """The highest model that the group is known to have committed in."""
        return self._state.group.latch

    @property
    def generation(self) -> int:
        """The generation of the group that this member was last seen in; -1 before the first."""
        return self._state.group.generation

    @property
    def committed(self) -> int:
        """Transactions that were committed."""
        return self._state.committed

    @property
    def aborted(self) -> int:
        """Transactions that were aborted, or lost with their producer."""
        return self._state.aborted

    def health(self) -> dict[str, Any]:
        """Return the state of this member for a periodic health check, as plain JSON-able values.

        ``commit_seconds`` is for how long brokers have not answered the commit or abort that is under way, and
        ``seconds_since_commit`` the time since the last commit (None before the first). A commit that takes longer than
        a few seconds makes ``waiting`` true, and ``why`` says so.

        ``stalled`` lists partitions of the whole group whose committed offset has not moved between two looks, one a
        minute, although there was more to consume: ``partition``, ``owner`` (None: no member), ``lag`` and ``seconds``.

        ``aborting`` is whether several transactions in a row were aborted, or lost, with no commit in between.

        Of rounds: ``round_size`` is the most messages that the next one may have (None before :meth:`round_size` was
        called), ``round_cut`` whether that is less than what was asked for because messages take long,
        ``message_seconds`` the seconds that a message is expected to take, and ``round_seconds`` for how long this
        member has not polled: after ``max.poll.interval.ms`` its group goes on without it.
        """
        discovery = self._features.health()
        return harmless(
            {
                **self._state.health(time.monotonic()),
                "gate": self._gate.open,
                "gate_why": self._gate.decision.summary,
                "producers": len(self._producers),
                "process": self.process.name,
                "process_is_stable": self.process.stable,
                **self.rounds.health(),
                "round_seconds": self.rounds.seconds,
                "discovery": discovery["status"],
                "usage": discovery["usage"],
            }
        )

    def require_own_process(self) -> None:
        """Return in the process that has made this switch.

        Raises SwitchFatal in one that was forked from it: the clients have no threads there, and the name is the
        parent's.
        """
        if not self.in_own_process:
            raise SwitchFatal(
                "this switch was made in another process: make it in the one that runs it, after the fork"
            )

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process that has made this switch, and not one that was forked from it."""
        return self._pid == os.getpid()

    def _subscribed(self) -> Consumer:
        if self._closed:
            raise ClosedError("this ProducerSwitch is closed")
        return self._membership.consumer
