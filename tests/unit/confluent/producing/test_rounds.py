"""The rounds of a member: measured with a clock that the test moves."""

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from featuregate_confluent.errors import RoundTooLong
from featuregate_confluent.events import RoundExceededLimit, RoundResized, SwitchEvent
from featuregate_confluent.producing.rounds import ALONE_AT_MOST, Limits, Rounds

SLOW = 0.025
"""Seconds of work for a message."""


class Batch:
    """Messages of one transaction."""

    def __init__(self, count: int, partition: int = 0) -> None:
        self.messages = [Message(topic="orders", partition=partition, offset=7, value=b"") for _ in range(count)]


class Member:
    """A member whose transform takes some seconds for each message, on a clock of its own."""

    def __init__(self, transaction: float = 10.0, poll: float = 300.0, most: int = 500) -> None:
        self.now = 1000.0
        self.events: list[SwitchEvent] = []
        self.rounds = Rounds(Limits(transaction, poll), self.events.append, lambda: self.now)
        self.most = most
        self.aborted = 0

    def process(self, batch: Batch, seconds: float, *, inside: bool, delivery: float = 0.0) -> None:
        """Run the app's code for a transaction: within it, or before it begins. Then brokers take its records."""
        self.rounds.given(batch)
        if not inside:
            self.now += seconds
        self.rounds.begun(batch)
        if inside:
            self.now += seconds
        self.rounds.ran(batch)
        self.now += delivery
        self.rounds.ended(batch, self.now)

    def round(
        self,
        each: float,
        *,
        lost: bool = False,
        inside: bool = False,
        partitions: int = 1,
        there: int = 10_000,
        fixed: float = 0.0,
        delivery: float = 0.0,
    ) -> float:
        count = min(there, self.size())
        self.rounds.polled(self.aborted)
        began = self.now
        for number in range(min(partitions, count)):
            share = len(range(number, count, partitions))
            self.process(Batch(share, number), fixed + share * each, inside=inside, delivery=share * delivery)
        self.aborted += lost
        return self.now - began

    def size(self) -> int:
        return self.rounds.size(self.most, self.aborted)

    def told(self, kind: type) -> list[SwitchEvent]:
        return [event for event in self.events if isinstance(event, kind)]


def loses(member: Member, each: float) -> bool:
    """Run a round, which is lost if it exceeds a limit. Return whether it was."""
    size = member.size()
    seconds = size * each
    lost = seconds > member.rounds.limits.poll
    member.round(each, lost=lost)
    return lost


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("partitions", [1, 16])
def test_work_of_25_ms_a_message_stays_well_within_ten_seconds(*, inside: bool, partitions: int) -> None:
    """500 messages would take 12.5 s; no round is lost from the first one on."""
    member = Member(transaction=10.0, poll=10.0)
    longest = max(member.round(SLOW, inside=inside, partitions=partitions) for _ in range(30))
    assert 0.4 < longest <= 0.5


def test_code_in_a_transaction_counts_against_its_timeout_and_code_before_it_does_not() -> None:
    """The processor's transform returns before its transaction begins; an app's own loop works within it."""
    within, before = Member(transaction=2.0), Member(transaction=2.0)
    for _ in range(10):
        within.round(SLOW, inside=True)
        before.round(SLOW, inside=False)
    assert (within.size(), before.size()) == (4, 20)


def test_the_size_survives_losses_and_a_rejoin() -> None:
    """A lost round comes again with half of its messages; what was measured is kept."""
    member = Member(poll=6.0)
    for _ in range(6):
        member.round(1e-5)
    assert member.size() == 500
    member.round(SLOW, lost=True)
    assert member.told(RoundExceededLimit) == []
    assert member.size() == 12
    assert member.told(RoundExceededLimit) == [
        RoundExceededLimit(messages=500, seconds=12.5, limit="max.poll.interval.ms=6000")
    ]


def test_a_loss_for_another_reason_halves_the_round_and_blames_no_limit() -> None:
    """The reason may be a rebalance during a commit."""
    member = Member()
    for _ in range(6):
        member.round(1e-5)
    member.round(1e-5, lost=True)
    assert member.size() == 250
    assert member.told(RoundExceededLimit) == []


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30))
def test_no_work_of_a_possible_pace_is_lost_for_ever(paces: list[float]) -> None:
    """A loss measures the pace: whatever the pace becomes, one of three rounds is committed."""
    member = Member(poll=6.0)
    for each in paces:
        assert not all(loses(member, each) for _ in range(3))


@pytest.mark.parametrize(
    ("inside", "limit"), [(False, "max.poll.interval.ms=6000"), (True, "transaction.timeout.ms=2000")]
)
def test_a_message_that_alone_outlives_a_limit_ends_it_with_the_name_of_the_property(inside: bool, limit: str) -> None:  # noqa: FBT001
    """The first time is no error: a process that was stopped for a while looks the same."""
    member = Member(transaction=2.0, poll=6.0)
    seconds = 3.0 if inside else 8.0
    for _ in range(ALONE_AT_MOST):
        member.round(seconds, lost=True, inside=inside)
    with pytest.raises(RoundTooLong) as caught:
        member.size()
    assert caught.value.limit == limit
    assert str(caught.value) == (
        f"the message orders[0]@7 alone took {seconds:.1f} s, longer than {limit} allows, 3 times in a row, and was "
        f"never committed: raise {limit.partition('=')[0]}, or make the transform faster"
    )


def test_a_slow_message_that_was_committed_is_no_error_and_counts_the_others_anew() -> None:
    """The member goes on where such a message is lost only now and then."""
    member = Member(poll=6.0)
    for _ in range(5):
        member.round(8.0, lost=True)
        member.round(8.0, lost=True)
        member.round(5.9)
    assert len(member.told(RoundExceededLimit)) == 10


def test_one_line_says_that_rounds_are_cut_and_one_that_they_are_not_any_more() -> None:
    """There is no line for each round, and none while the first rounds grow."""
    member = Member(transaction=10.0, poll=10.0)
    for _ in range(20):
        member.round(1e-5)
    assert member.events == []
    for _ in range(20):
        member.round(SLOW)
    (cut,) = member.events
    assert isinstance(cut, RoundResized)
    assert (cut.messages, cut.most, cut.limit) == (20, 500, "max.poll.interval.ms=10000")
    assert cut.message_seconds == pytest.approx(SLOW)
    assert member.rounds.health() == {"round_size": 20, "round_cut": True, "message_seconds": pytest.approx(SLOW)}
    for _ in range(20):
        member.round(1e-5)
    assert [(event.messages, event.most) for event in member.told(RoundResized)[1:]] == [(500, 500)]
    assert member.rounds.health()["round_cut"] is False


def test_few_messages_are_not_cut() -> None:
    """A few slow messages fill no round: there was nothing more to consume."""
    member = Member(transaction=10.0, poll=10.0)
    for _ in range(50):
        member.round(SLOW, there=3)
    assert member.told(RoundResized) == []


def test_the_limit_is_named_that_the_size_comes_from() -> None:
    """A quarter of the transaction's timeout also bounds the code before it."""
    for limits, inside, named in [
        ((10.0, 300.0), False, "transaction.timeout.ms=10000"),
        ((10.0, 300.0), True, "transaction.timeout.ms=10000"),
        ((60.0, 6.0), True, "max.poll.interval.ms=6000"),
    ]:
        member = Member(*limits)
        for _ in range(20):
            member.round(1.0, inside=inside)
        (cut,) = member.told(RoundResized)
        assert isinstance(cut, RoundResized)
        assert cut.limit == named


def test_the_time_left_is_that_of_the_first_limit() -> None:
    """The limits are that of the consumer since its last poll, and that of each open transaction."""
    member, batch = Member(transaction=2.0, poll=6.0), Batch(1)
    member.rounds.polled(0)
    member.now += 1.0
    assert member.rounds.time_left() == 5.0
    member.rounds.begun(batch)
    assert member.rounds.time_left() == 2.0
    member.now += 2.5
    assert member.rounds.time_left() == -0.5
    assert member.size() == 1, "asked in the middle of a transaction"
    assert member.rounds.time_left() == -0.5
    member.rounds.ran(batch)
    assert member.rounds.time_left() == 2.5
    member.rounds.polled(0)
    assert member.rounds.time_left() == 6.0


def test_a_round_is_late_once_half_of_the_poll_interval_is_over() -> None:
    """The messages that were not begun by then come again."""
    member = Member(poll=6.0)
    member.rounds.polled(0)
    member.now += 3.0
    assert not member.rounds.late
    member.now += 0.1
    assert member.rounds.late


def test_nothing_is_learned_from_a_round_without_messages() -> None:
    """Nothing is measured in a round whose transactions were never begun, either."""
    member = Member()
    member.rounds.given(Batch(5))
    member.now += 100.0
    member.rounds.polled(0)
    assert member.size() == 1
    assert member.rounds.health() == {"round_size": 1, "round_cut": False, "message_seconds": 0.5 * 5}


def test_the_seconds_of_delivery_count_with_those_of_the_app() -> None:
    """A quota delays the commit: 500 messages would need 13 s, of ten seconds that brokers wait."""
    member = Member(transaction=10.0)
    longest = max(member.round(1e-5, delivery=0.027) for _ in range(30))
    assert 0.4 < longest <= 2.0
    assert member.size() == 18


def test_a_transform_with_fixed_seconds_gets_larger_rounds() -> None:
    """200 calls of three seconds at the same time take as long as one."""
    for fixed in (2.0, 3.0):
        member = Member(transaction=10.0)
        for _ in range(8):
            member.round(1e-5, fixed=fixed)
        assert member.size() == 500


def test_a_record_that_is_not_delivered_is_named_after_the_second_time_alone() -> None:
    """The client gives it up when the transaction times out, and the app's code was fast."""
    member = Member(transaction=10.0)
    for _ in range(6):
        member.round(1e-5)
    began = member.now

    def run() -> None:
        while True:
            member.round(1e-5, lost=True, delivery=9.99 / member.size())

    with pytest.raises(RoundTooLong) as caught:
        run()
    assert member.now - began < 60.0
    assert (caught.value.undelivered, caught.value.limit, caught.value.times) == (
        True,
        "transaction.timeout.ms=10000",
        2,
    )
    assert str(caught.value) == (
        "the records for the message orders[0]@7 alone were not delivered in 10.0 s, which "
        "transaction.timeout.ms=10000 bounds, 2 times with at most one message committed in between: raise "
        "transaction.timeout.ms, or look for a quota of the producer (producer_byte_rate), a slow link, or brokers "
        "that do not answer"
    )
    assert {event.limit for event in member.told(RoundExceededLimit)} == {"transaction.timeout.ms=10000"}


def undelivered(member: Member) -> None:
    member.round(1e-5, lost=True, delivery=9.99 / member.size())


def test_the_first_request_of_a_new_producer_does_not_hide_a_quota() -> None:
    """A quota takes effect after the request that exceeds it, and each lost round is followed by a new producer."""
    member = Member(transaction=10.0)
    undelivered(member)
    member.round(1e-5, delivery=0.01)
    undelivered(member)
    with pytest.raises(RoundTooLong):
        member.size()


def test_records_that_are_late_now_and_then_are_no_error() -> None:
    """Brokers that are slow for once take what follows, too."""
    member = Member(transaction=10.0)
    for _ in range(9):
        undelivered(member)
        for _ in range(2):
            member.round(1e-5, delivery=0.01)
    assert len(member.told(RoundExceededLimit)) == 9


def test_commits_side_by_side_count_once() -> None:
    """The round waits for the longest of them."""
    member = Member(transaction=10.0)
    batches = [Batch(10, number) for number in range(4)]
    member.rounds.polled(0)
    for batch in batches:
        member.process(batch, 0.0, inside=True)
    for number, batch in enumerate(batches):
        member.rounds.given(batch)
        member.rounds.begun(batch)
        member.rounds.ran(batch)
        member.rounds.ended(batch, member.now + number)
    member.size()
    assert member.rounds.health()["message_seconds"] == pytest.approx(3.0 / 80)


def test_the_end_of_a_transaction_of_an_earlier_round_measures_nothing() -> None:
    """It was left behind, and the consumer was polled since."""
    member, batch = Member(), Batch(1)
    member.rounds.begun(batch)
    member.rounds.ran(batch)
    member.rounds.polled(0)
    member.rounds.ended(batch, member.now + 100.0)
    member.size()
    assert member.told(RoundExceededLimit) == []
