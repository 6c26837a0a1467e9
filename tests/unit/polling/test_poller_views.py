"""What a poller takes in: views of a relay and of an earlier process, and the answers of a source that it asks."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from builders import broker, deaf, view

import featuregate as fg
from featuregate.errors import DiscoveryError, OlderAnswers, OtherCluster, RefreshTimedOut, RelayError
from featuregate.gating.durable_latches import LatchStart
from featuregate.gating.events import Changed, Event, Polled
from featuregate.gating.gates import Gate
from featuregate.gating.holds import named_holds
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState
from featuregate.gating.store import Store
from featuregate.polling.poll_state import PollState
from featuregate.polling.poller import Poller
from featuregate.sources.source import BrokerAnswers, MergedView
from featuregate.testing import StaticFeatures
from featuregate.view.answers import BrokerAnswer

MIDDLE = 0.5
"""A chance at which a delay has no jitter."""
TXN = "TxnOffsetCommit>=4"
NEW = view(broker(1, txn=3), deaf(2))


class Asked:
    """A source that does what the test says."""

    timeout = 20.0

    def __init__(self, fetch: Callable[[], Any] = lambda: MergedView(NEW)) -> None:
        self._fetch = fetch

    async def fetch(self) -> MergedView:
        found = self._fetch()
        return await found if asyncio.iscoroutine(found) else found


class Polling:
    """A poller with a clock, and the events of its store."""

    def __init__(self, source: Any = None, **options: Any) -> None:
        self.now, self.events = 100.0, list[Event]()
        self.store = Store(wall=lambda: 7.0, **options)
        self.store.hooks.hook(self.events.append)
        self.state = PollState.checked(interval=60, stale_after=None, forget_after=9)
        source = Asked() if source is None else source
        self.poller = Poller(source, self.store, self.state, lambda: self.now, chance=lambda: MIDDLE)

    def gate(self, name: str, requirement: str = TXN) -> Gate:
        wanted = fg.parse(requirement)
        return self.store.add_gate(name, lambda: Gate(name, wanted, policy="sticky", owner=StaticFeatures()))


async def test_a_view_has_no_age_where_there_is_none_or_the_clock_jumps_back() -> None:
    """Hooks learn of the first view."""
    polling = Polling(Asked(lambda: MergedView(NEW)))
    assert polling.poller.view_and_age() == (None, 0.0)
    await polling.poller.poll()
    assert polling.events[0] == Changed(before=None, after=NEW, differences=())
    polling.now = 80.0
    assert polling.poller.view_and_age() == (NEW, 0.0)


async def test_a_poll_tells_what_it_found_and_how_long_it_took() -> None:

    def fetch() -> MergedView:
        polling.now += 2
        return MergedView(NEW)

    polling = Polling(Asked(fetch))
    assert await polling.poller.poll() == 60
    assert polling.events[-1] == Polled(cluster_id="c", epoch=10, seconds=2.0, answered=1, known=2)
    assert polling.poller.view_and_age() == (NEW, 0.0)


@pytest.mark.parametrize(
    ("changed", "delay"),
    [
        ({}, 60.0),
        ({"stale_after": 30.0}, 15.0),
        ({"moved_at": 99.0}, 6.0),
        ({"last_error": RelayError("http://relay", "busy", 40.0)}, 60.0),
    ],
)
async def test_the_next_poll_is_due_by_what_polls_have_shown(changed: dict[str, Any], delay: float) -> None:
    """Sooner before the view is stale, and while something moves. An error of an earlier poll does not matter."""
    polling = Polling(Asked(lambda: MergedView(view(broker()))))
    for name, value in changed.items():
        setattr(polling.state, name, value)
    assert await polling.poller.poll() == delay


async def test_brokers_that_differ_are_polled_more_often() -> None:
    """It looks like a roll."""
    polling = Polling(Asked(lambda: MergedView(view(broker(1, txn=3), broker(2, txn=4)))))
    assert await polling.poller.poll() == 6


def answers(*found: BrokerAnswer, registered: bool = False) -> BrokerAnswers:
    return BrokerAnswers("c", 1, "cluster", registered, "broker", found, 5.0)


def test_answers_are_merged_with_what_was_known() -> None:
    """The levels of before stay where no answer is newer, and brokers that are not listed any more stay for a time."""
    polling = Polling()
    polling.poller.apply(answers(broker(1, group_version=1), broker(2, epoch=9)))
    late = polling.poller.apply(answers(broker(1, epoch=9)))
    assert (late.epoch, late.level("group.version"), late.seen_at) == (10, 1, 5.0)
    assert [each.node_id for each in late.missing] == [2]
    assert polling.state.vanished_since == {("c", 2): 100.0}
    polling.now = 108.0
    assert "8 s" in str(polling.poller.apply(answers(broker(1))).missing[0].failure)
    polling.now = 109.0
    assert polling.poller.apply(answers(broker(1))).missing == ()
    polling.poller.apply(answers(broker(1), broker(3)))
    assert polling.poller.apply(answers(broker(1), registered=True)).missing == ()


def test_a_view_that_falls_behind_keeps_the_newest_levels() -> None:
    polling = Polling()
    before = view(broker(epoch=10, group_version=2))
    polling.poller.apply(MergedView(before))
    late = view(broker(epoch=9, txn=5, group_version=1))
    expected = replace(late, epoch=10, finalized={"group.version": 2})
    assert polling.poller.apply(MergedView(late)) == expected == polling.store.view
    same = view(broker(epoch=10, txn=6, group_version=1))
    assert polling.poller.apply(MergedView(same)) is same


@pytest.mark.parametrize(("age", "transit", "behind"), [(5.0, 5.0, None), (5.0, 4.5, 0.5), (-1.0, 0.0, None)])
def test_answers_that_are_older_than_those_at_hand_are_refused(age: float, transit: float, behind: float) -> None:
    """Unless the way here may be all of the difference. The view before stays, and its age."""
    polling = Polling()
    polling.poller.apply(MergedView(NEW))
    other = MergedView(replace(NEW, seen_at=2.0), age=age, transit=transit)
    if behind is None:
        polling.poller.apply(other)
        assert polling.poller.view_and_age() == (other.view, max(age, 0.0))
        return
    with pytest.raises(OlderAnswers) as raised:
        polling.poller.apply(other)
    assert raised.value.seconds == behind
    assert polling.poller.view_and_age() == (NEW, 0.0)


def test_what_is_latched_and_held_elsewhere_comes_with_the_view() -> None:
    """As from a relay, which polls for its clients."""
    polling = Polling()
    latched, held = polling.gate("latched"), polling.gate("held", "TxnOffsetCommit>=3")
    key = LatchKey("latched", TXN)
    polling.poller.apply(MergedView(NEW, latched=frozenset([key]), holds=named_holds("held", "the relay")))
    assert (latched.open, held.open) == (True, False)
    assert polling.store.latch_state.gates == {key: LatchedGate(gate="latched", requirement=TXN, opened_at=7, epoch=10)}
    assert held.decision.summary == "closed: hold: held by the relay"


async def test_a_source_that_hangs_is_cut_off_after_twice_its_time() -> None:
    source = Asked(lambda: asyncio.Event().wait())
    source.timeout = 0.01
    polling = Polling(source)
    await polling.poller.poll()
    assert isinstance(polling.state.last_error, RefreshTimedOut)
    assert str(polling.state.last_error) == "no poll has ended within 0.02 s"


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: DiscoveryError([("b1:9092", error)])])
async def test_a_broker_of_another_cluster_takes_a_start_from_latches_back(
    wrap: Callable[[Exception], Exception],
) -> None:
    """Whether the source raises that by itself, or as the cause at one address."""
    kept = LatchedGate(gate="txn", requirement=TXN, opened_at=1.0, epoch=1)

    class Kept:
        def load(self, cluster_id: str) -> LatchState:
            return LatchState(cluster_id=cluster_id, gates={kept.key: kept})

    def fetch() -> MergedView:
        raise wrap(OtherCluster("b1:9092", "other", "c"))

    polling = Polling(Asked(fetch), latch_store=Kept(), start=LatchStart(cluster_id="c"))
    gate = polling.gate("txn")
    assert gate.open
    await polling.poller.poll()
    assert not gate.open
    assert polling.store.troubles()[0].startswith("cluster other answers, and not cluster c")


@pytest.mark.parametrize("kept", [True, False])
async def test_a_latch_store_works_beside_the_loop_of_an_app(*, kept: bool) -> None:
    """It may block. Hooks are called in the loop, and without a latch store there is nothing to wait for."""
    threads: dict[str, threading.Thread] = {}

    class Kept:
        def load(self, _: str) -> None:
            threads["load"] = threading.current_thread()

        def save(self, state: LatchState) -> LatchState:
            return state

    polling = Polling(latch_store=Kept() if kept else None)
    polling.store.hooks.hook(lambda event: threads.setdefault(type(event).__name__, threading.current_thread()))
    await polling.poller.poll(aside=True)
    here = threading.current_thread()
    assert polling.store.view is NEW
    assert (threads["Changed"], threads["Polled"]) == (here, here)
    assert threads.get("load", here) is not here or not kept
    await polling.poller.poll()
    assert threads.get("load", here) is here


class Configured(Asked):
    """A source that can ask for configs, and notes for which it was asked."""

    configs: frozenset[str] = frozenset()


async def test_a_poll_asks_for_the_configs_of_gates_and_comes_again_at_once_for_a_new_one() -> None:
    """A gate that is made during a poll need not wait for an interval."""
    asked = []

    def fetch() -> MergedView:
        asked.append(set(source.configs))
        polling.gate(f"gate-{len(asked)}", f"config:{'ab'[min(len(asked), 2) - 1]} has x")
        return MergedView(view(broker()))

    source = Configured(fetch)
    polling = Polling(source)
    delays = [await polling.poller.poll() for _ in range(3)]
    assert asked == [set(), {"a"}, {"a", "b"}]
    assert delays == [0, 0, 60]


async def test_news_come_from_the_source_after_the_least_time_between_polls() -> None:
    """Not after a poll that failed, and not from a source that learns of nothing."""

    class Notified(Asked):
        within: float | None = None

        async def changed(self, within: float) -> None:
            self.within = within

    source = Notified()
    polling = Polling(source)
    polling.state.interval = 0.05
    loop = asyncio.get_running_loop()
    began, news = loop.time(), polling.poller.news()
    assert news is not None
    await news(30.0)
    assert source.within == 30.0
    assert loop.time() - began > 0.045
    polling.state.fail(OSError())
    assert polling.poller.news() is None
    assert Polling(Asked()).poller.news() is None
