"""How a transaction ends, with fake clients, and with signals at the worst moment."""

import gc
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from transcripts import sections

from featuregate_confluent import Aborted, Model, MustRejoin, Pipeline, RecordRefused, SwitchFatal
from featuregate_confluent.events import DeadLettered, Fenced, LatchRead, TransactionAborted, TransactionCommitted
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.member.failure_limits import LOST_AT_MOST, UNEXPLAINED_AT_MOST
from featuregate_confluent.member.outcome_handler import OutcomeHandler
from featuregate_confluent.member.positions import next_offsets, offsets_to_commit
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.producing import transaction as transactions
from featuregate_confluent.producing.rounds import Limits, Rounds
from featuregate_confluent.producing.transaction import Transaction
from featuregate_librdkafka import transaction_calls

BOUND = 30.0
TOLD = sections(__file__, "transactions.txt")
TOPIC = "orders"


class Client:
    """A fake producer that records its calls, and runs a given function in each."""

    def __init__(self, **does: Callable[[], None]) -> None:
        self.does = does
        self.asked: list[str] = []
        self.calls = 0

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        self.calls += 1
        try:
            self.does.get(name, lambda: None)()
        finally:
            self.calls -= 1

    def begin_transaction(self) -> None:
        self._ask("begin")

    def produce(self, *_: object, **__: object) -> None:
        self._ask("produce")

    def send_offsets_to_transaction(self, *_: object) -> None:
        self._ask("send")

    def commit_transaction(self, _timeout: float) -> None:
        self._ask("commit")

    def __len__(self) -> int:
        return 0

    def abort_transaction(self, _timeout: float) -> None:
        self._ask("abort")


class Reader:
    """A fake consumer in generation 5, which records where it is moved to."""

    def __init__(self) -> None:
        self.seeks: list[int] = []

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + (5).to_bytes(4, "little") + b"group\0member\0\0"

    def seek(self, place: Any) -> None:
        self.seeks.append(place.offset)


class Held:
    """The producers of a member, with a record of those that were closed or left behind."""

    def __init__(self) -> None:
        self.dropped: list[Client] = []
        self.left_behind: list[Client] = []
        self.seconds: list[float] = []

    def ended(self, _client: Client, seconds: float) -> None:
        self.seconds.append(seconds)

    def discard(self, client: Client) -> None:
        assert not client.calls, "closed while a call used it"
        self.dropped.append(client)

    def abandon(self, client: Client) -> None:
        self.left_behind.append(client)

    def id_of(self, _client: Client) -> str:
        return "billing:orders-0"


class Desk:
    """A member that owns partitions, each from offset 0 on."""

    def __init__(self, partitions: int = 3) -> None:
        self.reader = Reader()
        self.held = Held()
        self.events: list[object] = []
        self.state = MemberState()
        self.own(partitions, 0)
        self.conclusions = OutcomeHandler(
            self.state,
            producers=self.held,
            emit=self.events.append,
            process="one",
            rounds=Rounds(Limits(transaction=10.0, poll=300.0), self.events.append),
        )

    def own(self, partitions: int, position: int) -> None:
        self.state.take({(TOPIC, number): (position, Mark(None)) for number in range(partitions)})

    def transaction(self, client: Client, partition: int = 0, count: int = 10) -> Transaction:
        messages = [Message(topic=TOPIC, partition=partition, offset=offset, value=b"") for offset in range(count)]
        self.state.begin(messages)
        return self.another(client, partition, messages)

    def another(self, client: Client, partition: int, messages: list[Message]) -> Transaction:
        return Transaction(
            keeper=self.conclusions,
            consumer=self.reader,
            producer=client,
            model=Model.BRIDGE,
            messages=messages,
            offsets=offsets_to_commit(self.state.partitions, {(TOPIC, partition): len(messages)}, Model.BRIDGE),
            assignment=self.state.assignment,
        )


@pytest.fixture
def desk() -> Iterator[Desk]:
    found = Desk()
    with closing(found.conclusions.callers):
        yield found


def left_behind(desk: Desk) -> bool:
    """Do what consume() does first; return whether another consumer is needed."""
    desk.conclusions.leave_behind()
    return desk.state.lost is not None


def raising(failure: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise failure

    return call


def kafka(code: int, **more: Any) -> Callable[[], None]:
    return raising(KafkaException(KafkaError(code, "as told", **more)))


REFUSED = kafka(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True)
FENCED = kafka(KafkaError._FENCED, fatal=True)
FAILED = kafka(KafkaError._STATE)
TOO_LARGE = kafka(KafkaError.MSG_SIZE_TOO_LARGE, txn_requires_abort=True)
NO_RIGHT = kafka(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, txn_requires_abort=True)
TAKEN = kafka(KafkaError.FENCED_INSTANCE_ID, txn_requires_abort=True)
EARLY = kafka(KafkaError.INVALID_TXN_STATE, fatal=True)
"""What a coordinator of 4.2 answers to an abort while it completes the transaction before."""

ENDS: dict[str, dict[str, Callable[[], None]]] = {
    "all is well": {},
    **{f"a fenced producer, which {call} reports": {call: FENCED} for call in ("send", "commit")},
    "a producer that is fenced at the abort": {"send": REFUSED, "abort": FENCED},
    "the process was replaced, where the consumer cannot be moved either": {"send": TAKEN, "seek": FAILED},
    **{f"a refused record, which {call} reports": {call: TOO_LARGE} for call in ("produce", "send", "commit")},
    "a refused record, where the consumer cannot be moved": {"commit": TOO_LARGE, "seek": FAILED},
    "a refused record, and an abort that fails": {"commit": TOO_LARGE, "abort": EARLY},
    "a missing right, and an abort that fails": {"send": NO_RIGHT, "abort": FENCED},
    "a failure in the background, whose reason the next call tells": {"produce": FAILED, "send": TOO_LARGE},
    "a failure for no reason, which is never committed": {"produce": FAILED},
}


@pytest.mark.parametrize("scene", ENDS)
def test_each_end_of_a_transaction_is_told(desk: Desk, scene: str) -> None:
    """What the client was asked, what the app gets, and what becomes of producer, consumer and member."""
    client = Client(**ENDS[scene])
    seek = desk.reader.seek
    desk.reader.seek = lambda place: ENDS[scene].get("seek", lambda: seek(place))()
    raised = "nothing is raised"
    try:
        with desk.transaction(client) as transaction:
            transaction.produce("bills", b"")
    except (MustRejoin, SwitchFatal) as error:
        raised = f"{type(error).__name__}: {error}"
    assert not desk.state.under_way
    member = "lost" if desk.state.lost else "in the group"
    told = [
        ", ".join(client.asked),
        raised,
        f"{len(desk.held.dropped)} dropped, {len(desk.held.left_behind)} left behind, moved to {desk.reader.seeks}",
        f"{desk.state.committed} committed, {desk.state.aborted} aborted, the member is {member}",
    ]
    assert "\n".join(told) == TOLD[scene]


@pytest.mark.parametrize("ends", [{}, {"send": REFUSED}])
def test_the_producers_learn_how_long_the_end_of_a_transaction_took(desk: Desk, ends: dict[str, Any]) -> None:
    """A request of a commit or abort that took long may arrive later. The app's own seconds do not count."""
    transaction = desk.transaction(Client(**ends))
    transaction.begin()
    transaction._began -= 100
    with suppress(Aborted):
        transaction.commit()
    (seconds,) = desk.held.seconds
    assert 0 < seconds < 50
    assert transaction.own_seconds > 50


def test_what_is_refused_is_aborted_before_anybody_waits_for_it(desk: Desk) -> None:
    """The loop may still run another partition's transform, for longer than brokers wait."""
    aborted = threading.Event()
    client = Client(send=REFUSED, abort=aborted.set)
    transaction = desk.transaction(client)
    transaction.begin()
    transaction.start_commit()
    assert aborted.wait(BOUND)
    assert not desk.reader.seeks, "the conclusions are drawn in the loop"
    with pytest.raises(Aborted):
        transaction.finish_commit()
    assert (desk.reader.seeks, client.asked) == ([0], ["begin", "send", "abort"])
    assert not desk.state.under_way


@pytest.mark.parametrize(
    "ends",
    [
        {"send": kafka(KafkaError._TIMED_OUT, retriable=True)},
        {"send": kafka(KafkaError._TIMED_OUT, txn_requires_abort=True)},
        {"send": lambda: threading.Event().wait(BOUND)},
    ],
    ids=["no time is left for another attempt", "the client gives up", "the client stands still"],
)
def test_a_transaction_whose_offsets_no_broker_answered_is_left_open(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, ends: dict[str, Any]
) -> None:
    """Old brokers may take them after an abort, into the producer's next transaction: see test_late_offsets_live."""
    monkeypatch.setattr(transactions, "SEND_SECONDS", 0.1)
    monkeypatch.setattr(transaction_calls, "GRACE_SECONDS", 0.1)
    client = Client(**ends)
    with pytest.raises(MustRejoin), desk.transaction(client):
        pass
    assert {"abort", "commit"}.isdisjoint(client.asked)
    assert (desk.held.left_behind, desk.held.dropped, desk.reader.seeks) == ([client], [], [])
    assert desk.state.lost is not None


def test_a_refused_timestamp_is_named_with_the_clock_of_this_host(desk: Desk) -> None:
    """Microseconds are seen at once, and so is a clock that is ahead."""
    client = Client(commit=kafka(KafkaError.INVALID_TIMESTAMP, txn_requires_abort=True))
    for given, named in [((5, 7), "5 to 7"), ((7,), "7"), ((0,), "none of its own")]:
        transaction = desk.transaction(client)
        transaction.begin()
        for timestamp in given:
            transaction.produce("bills", b"", timestamp=timestamp)
        with pytest.raises(RecordRefused) as refused:
            transaction.commit()
        assert "message.timestamp.after.max.ms" in str(refused.value)
        assert re.search(rf"; timestamp: {named}; this host's clock: \d{{4}}-\d\d-\d\dT\S+Z$", str(refused.value))
        desk.state.receive(())


def test_an_error_that_is_not_known_ends_after_a_few_aborts(desk: Desk) -> None:
    """An endless loop of them would be noticed by nobody."""
    client = Client(commit=kafka(KafkaError.UNKNOWN, txn_requires_abort=True))
    for _ in range(UNEXPLAINED_AT_MOST - 1):
        with desk.transaction(client):
            pass
        desk.state.receive(())
    ended = pytest.raises(SwitchFatal, match="5 transactions were aborted, the last one for: UNKNOWN: the broker")
    with ended, desk.transaction(client):
        pass


def test_events_of_a_transaction_are_emitted_with_its_commit(desk: Desk) -> None:
    """Those of one that is aborted are not."""
    letter = DeadLettered(topic=TOPIC, partition=0, offset=7, error="poison")
    for client in (Client(send=REFUSED), Client()):
        with desk.transaction(client) as transaction:
            transaction.events = [letter]
        desk.state.receive(())
    assert [type(event) for event in desk.events] == [TransactionAborted, LatchRead, TransactionCommitted, DeadLettered]


def test_an_abort_after_the_limit_of_the_transaction_names_it(desk: Desk) -> None:
    """The client only says that messages were not delivered."""
    undelivered = kafka(KafkaError._INCONSISTENT, txn_requires_abort=True)
    desk.conclusions.rounds = Rounds(Limits(transaction=0.001, poll=300.0), desk.events.append)
    with desk.transaction(Client(commit=undelivered)):
        threading.Event().wait(0.002)
    (aborted,) = (event for event in desk.events if isinstance(event, TransactionAborted))
    assert re.search(r"; the transaction was open for 0\.\d s, and transaction\.timeout\.ms=1$", aborted.why)


def test_one_reason_is_one_loss_and_what_came_through_beside_it_counts(desk: Desk) -> None:
    """More producers are fenced than may be lost in a row. One commit succeeds although the member was replaced."""
    clients = [Client(commit=FENCED) for _ in range(LOST_AT_MOST + 1)]
    fine = Client()
    first = desk.transaction(clients[0])

    def run() -> None:
        with Pipeline() as pipeline:
            for client in [*clients, fine]:
                transaction = desk.another(client, 0, list(first.messages))
                with transaction:
                    pipeline.commit(transaction)

    with pytest.raises(MustRejoin):
        run()
    assert len([event for event in desk.events if isinstance(event, Fenced)]) == 1
    assert (desk.held.dropped, desk.state.committed, next_offsets(desk.state.partitions)) == (clients, 1, {})


class InterruptedSet(set):
    """A set of transactions under way, with a signal just before one is removed."""

    def discard(self, _item: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), ValueError("of a callback"), TimeoutError("of a callback in the properties")]
)
def test_an_error_before_the_conclusions_are_drawn_asks_for_another_consumer(
    desk: Desk, failure: BaseException
) -> None:
    """The commit succeeded, and the member does not know it: to rewind would duplicate the messages."""
    client = Client()
    if isinstance(failure, KeyboardInterrupt):
        desk.state.under_way = InterruptedSet()
    else:
        client.does["commit"] = raising(failure)
    transaction = desk.transaction(client)
    with pytest.raises(type(failure)), transaction:
        pass
    desk.state.under_way = set(desk.state.under_way)
    assert left_behind(desk)
    assert (desk.held.left_behind, desk.held.dropped) == ([client], [])


def test_an_interrupt_while_a_commit_is_started_aborts_nothing_beside_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit's thread may have begun and use the producer. The app gets the KeyboardInterrupt."""
    client = Client()
    transaction = desk.transaction(client)
    monkeypatch.setattr(desk.conclusions.callers, "start", lambda _work: raising(KeyboardInterrupt())())
    with pytest.raises(KeyboardInterrupt), transaction:
        pass
    assert client.asked == ["begin"]
    assert left_behind(desk)


@pytest.mark.parametrize("failure", [FENCED, raising(ValueError("of a callback in the properties"))])
def test_nothing_takes_the_place_of_an_interrupt(desk: Desk, failure: Callable[[], None]) -> None:
    """A failing abort does not replace it either."""
    with pytest.raises(KeyboardInterrupt), desk.transaction(Client(abort=failure)):
        raise KeyboardInterrupt


def test_a_commit_whose_outcome_was_lost_is_not_finished_later(desk: Desk) -> None:
    """The signal has discarded the outcome: another attempt must not hide that another consumer is needed."""
    desk.state.under_way = InterruptedSet()
    transaction = desk.transaction(Client())
    transaction.begin()
    transaction.start_commit()
    with pytest.raises(KeyboardInterrupt):
        transaction.finish_commit()
    desk.state.under_way = set(desk.state.under_way)
    with pytest.raises(SwitchFatal, match="finished once"):
        transaction.finish_commit()
    assert left_behind(desk)


def test_an_interrupt_waits_for_no_other_commit(desk: Desk) -> None:
    """Other commits may take a minute: they are left behind, and their producers are not closed."""
    free = threading.Event()
    slow = Client(commit=lambda: free.wait(BOUND))
    transaction = desk.transaction(slow)

    def run() -> None:
        with Pipeline() as pipeline:
            with transaction:
                pipeline.commit(transaction)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert not free.is_set()
    assert left_behind(desk)
    assert (desk.held.left_behind, desk.held.dropped) == ([slow], [])
    free.set()


def test_a_transaction_is_left_alone_while_it_is_committed(desk: Desk) -> None:
    """An abort beside the commit would close a producer that is in use."""
    free = threading.Event()
    transaction = desk.transaction(Client(commit=lambda: free.wait(BOUND)))
    transaction.begin()
    transaction.start_commit()
    for misuse in (transaction.abort, transaction.start_commit):
        with pytest.raises(SwitchFatal, match="being committed already"):
            misuse()
    free.set()
    transaction.finish_commit()
    with pytest.raises(SwitchFatal, match="finished once"):
        transaction.finish_commit()
    assert (desk.state.committed, desk.held.dropped) == (1, [])


def test_what_is_produced_too_late_closes_no_producer_in_use(desk: Desk) -> None:
    """The client reports that the producer is fenced while the commit that uses it has not returned."""
    free, begun = threading.Event(), threading.Event()
    client = Client(commit=lambda: (begun.set(), free.wait(BOUND)), produce=FENCED)
    transaction = desk.transaction(client)
    transaction.begin()
    transaction.start_commit()
    assert begun.wait(BOUND)
    with pytest.raises((MustRejoin, SwitchFatal)):
        transaction.produce("bills", b"")
    assert (desk.held.left_behind, desk.held.dropped) == ([client], [])
    free.set()


def test_a_pipeline_in_a_generator_waits_where_its_loop_is_left(desk: Desk) -> None:
    """Leaving the loop is no interrupt: the commits that were begun are ended."""

    def rounds() -> Iterator[None]:
        with Pipeline() as pipeline:
            transaction = desk.transaction(Client())
            with transaction:
                pipeline.commit(transaction)
            yield

    for _ in rounds():
        break
    gc.collect()
    assert (desk.state.committed, desk.state.under_way) == (1, set())


def test_a_producer_that_another_commit_uses_is_not_closed(desk: Desk) -> None:
    """The client refuses to begin the same partition again within one round."""
    free, begun = threading.Event(), threading.Event()
    client = Client(commit=lambda: (begun.set(), free.wait(BOUND)))
    first = desk.transaction(client)
    first.begin()
    first.start_commit()
    assert begun.wait(BOUND)
    client.does["begin"] = kafka(KafkaError._STATE)
    with pytest.raises((MustRejoin, SwitchFatal)):
        desk.another(client, 0, list(first.messages)).begin()
    assert (desk.held.left_behind, desk.held.dropped) == ([client], [])
    free.set()
    first.finish_commit()


def test_a_commit_that_is_finished_late_moves_nothing_back(desk: Desk) -> None:
    """Another member had the partition meanwhile, and has committed further."""
    transaction = desk.transaction(Client())
    transaction.begin()
    transaction.start_commit()
    desk.state.lose("it was left behind")
    desk.state.clear()
    desk.own(1, 50)
    transaction.finish_commit()
    assert next_offsets(desk.state.partitions) == {(TOPIC, 0): 50}


def test_messages_and_producers_are_freed_without_the_collector(desk: Desk) -> None:
    """A batch of large messages should not wait for the collector, which should not destroy a client either."""
    gc.disable()
    try:
        client = Client()
        transaction = desk.transaction(client)
        with transaction:
            pass
        seen = weakref.ref(client)
        desk.state.begin([])
        del client, transaction
        until = time.monotonic() + BOUND
        while seen() is not None and time.monotonic() < until:
            threading.Event().wait(0.001)  # the thread that committed is just putting it down
        assert seen() is None
    finally:
        gc.enable()
