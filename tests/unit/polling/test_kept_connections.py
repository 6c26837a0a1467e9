"""A discoverer that keeps its connections between polls."""

import asyncio
import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import featuregate as fg
from featuregate.config import Settings
from featuregate.sources.brokers import BrokerSource
from featuregate.testing import FakeCluster
from featuregate.testing.fakes.releases import release_facts

BOUND = 30.0
HOUR = 3600.0


def test_a_broker_that_stops_is_noticed_at_once() -> None:
    """The end of a connection is news, long before the next poll."""
    with FakeCluster(brokers=3) as cluster, fg.Discoverer(cluster.bootstrap, interval=HOUR) as features:
        assert features.wait(BOUND)
        cluster.broker(2).stop()
        assert features.wait_until(lambda: [one.node_id for one in features.view.missing] == [2], BOUND)


def test_without_kept_connections_the_next_poll_notices_it() -> None:
    """The test above can fail; and nothing is open between polls."""
    with (
        FakeCluster(brokers=3) as cluster,
        fg.Discoverer(source=fg.BrokerSource(cluster.bootstrap, keep_connections=False), interval=HOUR) as features,
    ):
        assert features.wait(BOUND)
        cluster.broker(2).stop()
        assert not features.wait_until(lambda: bool(features.view.missing), 0.3)
        assert [one.node_id for one in features.refresh().missing] == [2]


def seen(view: fg.View) -> object:
    """Return what brokers have said. Which brokers are missing depends on which of them gave the list, by chance."""
    said = {broker.node_id: (broker.api_ranges, broker.supported, broker.finalized) for broker in view.brokers}
    for broker in view.missing:
        del said[broker.node_id]
    return view.cluster_id, view.epoch, view.finalized, said


class Changes(RuleBasedStateMachine):
    """A cluster that changes in any order, asked on kept connections and on new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster(brokers=3, release="4.2", finalized={"metadata.version": 21}).start()
        self.down: set[int] = set()
        settings = {"interval": HOUR, "clock": lambda: 0.0}
        sources = [fg.BrokerSource(self.cluster.bootstrap, keep_connections=keep) for keep in (True, False)]
        self.both = [fg.Discoverer(source=source, **settings) for source in sources]
        self.look()

    def look(self) -> None:
        """Poll with both, and compare what they have seen."""
        kept, new = (seen(features.refresh(BOUND)) for features in self.both)
        assert kept == new

    @rule(broker=st.integers(1, 3), release=st.sampled_from(["3.9", "4.0", "4.2"]), restart=st.booleans())
    def upgrade(self, broker: int, release: str, *, restart: bool) -> None:
        """Give a broker another release, between a stop and a start, or behind a connection that lives."""
        if restart or broker in self.down:
            self.cluster.roll(broker, release)
            self.down.discard(broker)
        else:
            facts = release_facts(release)
            self.cluster.broker(broker).set(api_ranges=facts.ranges("broker"), supported=facts.supported)
        self.look()

    @precondition(lambda self: len(self.down) < 2)
    @rule(broker=st.integers(1, 3))
    def stop(self, broker: int) -> None:
        """Stop a broker."""
        if broker not in self.down:
            self.cluster.broker(broker).stop()
            self.down.add(broker)
        self.look()

    @rule(level=st.integers(0, 2))
    def finalize(self, level: int) -> None:
        """Finalize a level, or another one."""
        self.cluster.finalize({"metadata.version": 19 + level})
        self.look()

    @rule()
    def rebuild(self) -> None:
        """Let another cluster take the same addresses."""
        self.cluster.rebuild()
        self.look()

    def teardown(self) -> None:
        """Close everything."""
        for features in self.both:
            features.close()
        self.cluster.close()


TestKeptAndNewConnectionsTellTheSame = Changes.TestCase
TestKeptAndNewConnectionsTellTheSame.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


async def test_a_connection_that_ends_is_news_once_and_then_not_for_a_tenth_of_the_interval() -> None:
    """A proxy that ends each connection does not cause a poll each second."""
    with FakeCluster(brokers=2) as cluster:
        source = BrokerSource(Settings.parse(cluster.bootstrap), keep_connections=True)
        await source.fetch()
        cluster.broker(2).stop()
        async with asyncio.timeout(BOUND):
            await source.changed(HOUR)
        await source.fetch()
        cluster.broker(2).start()
        await source.fetch()
        cluster.broker(2).stop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await source.changed(HOUR)
        source.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_asks_on_connections_of_its_own() -> None:
    """Two processes on one connection would read each other's answers."""
    with FakeCluster(brokers=2) as cluster, fg.Discoverer(cluster.bootstrap, interval=HOUR) as features:
        assert features.wait(BOUND)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if all(not features.refresh(BOUND).missing for _ in range(3)) else 2
            finally:
                os._exit(code)
        for _ in range(3):
            assert not features.refresh(BOUND).missing
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
