"""How the state of a stream ages: the rows say what a live gate of a discoverer says, also over restarts."""

import json
from dataclasses import replace

import pytest
from builders import broker, deaf
from hypothesis import given
from hypothesis import strategies as st

import featuregate as fg
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.gating.decisions import FRESH
from featuregate.sources.source import BrokerAnswers
from featuregate.view.answers import BrokerAnswer
from featuregate_spark.source.feature_poller import FeaturePoller
from featuregate_spark.source.feature_state import FeatureState, document_of, latched_levels, seen_levels, state_from
from featuregate_spark.source.reader_options import ReaderOptions

BOUND = 30.0
TV = "transaction.version"
STALE_AFTER = 90.0
FORGET_AFTER = 300.0
OPTIONS = ReaderOptions.parse({"kafka.bootstrap.servers": "b:9092", "forget_after": str(FORGET_AFTER)})
NEW = broker(1, epoch=20, transaction_version=2)
OLDER = broker(1, epoch=10, transaction_version=1)
RESTORED = broker(1, epoch=10, transaction_version=2)
"""The levels are the same, so that the content does not change."""
SWITCHED_OFF = broker(1, epoch=-1)
SILENT: tuple[BrokerAnswer, ...] = ()


class Cluster:
    """A source whose answers and clock the test sets."""

    timeout = 1.0

    def __init__(self) -> None:
        self.now = 1_000.0
        self.error: Exception = DiscoveryError([])
        self.show(NEW)

    def clock(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1_700_000_000.0 + self.now

    def show(self, *answers: BrokerAnswer) -> None:
        self.answers = answers

    async def fetch(self) -> BrokerAnswers:
        if not self.answers:
            raise self.error
        return BrokerAnswers(
            cluster_id="c",
            controller_id=1,
            broker_list="cluster",
            registered=False,
            role="broker",
            answers=self.answers,
            answered_at=self.wall(),
        )


class Stream:
    """Polls as a stream does; restarts from its last offset, and with another monotonic clock."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.offset = ""
        self._start(None)

    def _start(self, before: FeatureState | None) -> None:
        since = self.cluster.now
        self.poller = FeaturePoller(
            self.cluster, OPTIONS, before, clock=lambda: self.cluster.now - since, wall=self.cluster.wall
        )

    def restart(self) -> None:
        self._start(state_from(json.loads(self.offset)) if self.offset else None)

    def poll(self, *, after: float = 30.0) -> FeatureState:
        self.cluster.now += after
        before = self.poller.state
        self.poller.poll()
        state = self.poller.state
        assert state is not None
        if before is None or before.number != state.number:
            self.offset = json.dumps(document_of(state))
        return state


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def stream(cluster: Cluster) -> Stream:
    """A stream that has polled once."""
    stream = Stream(cluster)
    stream.poll(after=0)
    return stream


@pytest.mark.parametrize(
    "answers", [[OLDER], [RESTORED], [SWITCHED_OFF], SILENT], ids=["older", "restored", "off", "silent"]
)
def test_invariant_9_rows_say_when_levels_are_stale_as_a_live_gate_does(cluster: Cluster, answers) -> None:
    """The levels are known again when brokers report them again."""
    stream = Stream(cluster)
    with fg.Discoverer(source=cluster, interval=1e6, stale_after=STALE_AFTER, clock=cluster.clock) as features:
        gate = features.gate("v2", f"{TV}>=2", policy="live")
        assert gate.wait(BOUND)
        levels = []
        for shown in [[NEW], *[answers] * 5, [NEW]]:
            cluster.show(*shown)
            state = stream.poll()
            if shown:
                features.refresh(BOUND)
            else:
                with pytest.raises(DiscoveryError):
                    features.refresh(BOUND)
            levels.append(seen_levels(state)[TV])
            assert (levels[-1] == 2, levels[-1] is None) == (gate.open, gate.decision.verdict == "unknown")
            assert latched_levels(state)[TV] == 2
    assert levels == [2, 2, 2, 2, None, None, 2]


@pytest.mark.parametrize("older", [OLDER, RESTORED, SWITCHED_OFF], ids=["older", "restored", "switched off"])
def test_invariant_9_levels_age_over_restarts(cluster: Cluster, stream: Stream, older: BrokerAnswer) -> None:
    """A query with availableNow polls once in each run."""
    cluster.show(older)
    levels = []
    for _ in range(5):
        cluster.now += 40
        stream.restart()
        levels.append(seen_levels(stream.poll(after=0))[TV])
    assert levels == [2, 2, 2, None, None]
    assert "for 120 s" in (state_from(json.loads(stream.offset)).stale.levels or "")
    cluster.show(NEW)
    assert seen_levels(stream.poll())[TV] == 2


def test_levels_that_brokers_reported_until_a_restart_are_not_stale(cluster: Cluster, stream: Stream) -> None:
    """No offset was written while nothing changed, however long the query ran."""
    stream.poll(after=3_600)
    stream.restart()
    cluster.show(OLDER)
    assert stream.poll(after=STALE_AFTER).stale == FRESH


def test_invariant_9_a_view_is_stale_when_no_broker_answers_after_a_restart(cluster: Cluster, stream: Stream) -> None:
    """The view of the offset is as old as the offset."""
    cluster.show(*SILENT)
    stream.restart()
    assert stream.poll(after=STALE_AFTER).stale == FRESH
    stale = stream.poll(after=1)
    assert (stale.number, stale.stale.view) == (2, "no broker has answered for 91 s")
    stream.restart()
    assert stream.poll().number == 2
    cluster.show(NEW)
    fresh = stream.poll()
    assert (fresh.number, fresh.stale) == (3, FRESH)


def test_invariant_1_the_epoch_of_an_offset_outvotes_a_broker_that_lags(cluster: Cluster, stream: Stream) -> None:
    """The levels stay, before a restart and after it."""
    cluster.show(deaf(1), replace(OLDER, node_id=2))
    assert seen_levels(stream.poll()) == {TV: 2}
    stream.restart()
    assert seen_levels(stream.poll()) == {TV: 2}


def test_a_broker_that_is_not_listed_any_more_counts_as_known_over_restarts(cluster: Cluster, stream: Stream) -> None:
    """It may come back from an upgrade with its old software."""
    cluster.show(NEW, replace(OLDER, node_id=2))
    stream.poll()
    cluster.show(NEW)
    for _ in range(5):
        assert [each.node_id for each in stream.poll(after=59).view.missing] == [2]
        stream.restart()
    assert not stream.poll(after=FORGET_AFTER).view.missing


def test_an_error_that_is_no_silence_fails_the_query(cluster: Cluster) -> None:
    """Certificates that cannot be read, for example, must not only be logged."""
    cluster.show(*SILENT)
    cluster.error = ConfigError("ssl.ca.location", "cannot be read")
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        Stream(cluster).poll()


answers = st.builds(
    lambda epoch, level, silent: deaf(1) if silent else broker(1, epoch=epoch, transaction_version=level),
    st.integers(-1, 9),
    st.integers(0, 3),
    st.booleans(),
)


@given(st.lists(st.tuples(answers, st.booleans(), st.sampled_from([1, 30, 100])), min_size=1, max_size=30))
def test_latched_levels_never_fall_over_any_history(history) -> None:
    """Upgrades, downgrades, lagging and silent brokers, and restarts, in any order."""
    cluster, highest = Cluster(), 0
    stream = Stream(cluster)
    for answer, restarts, seconds in history:
        if restarts:
            stream.restart()
        cluster.show(answer, broker(2, epoch=-1))
        state = stream.poll(after=seconds)
        level = latched_levels(state).get(TV) or 0
        assert level >= max(highest, seen_levels(state).get(TV) or 0)
        highest = level
