"""Discoverers take any source, and treat a view that was merged elsewhere as their own polls."""

import asyncio
from dataclasses import replace

import pytest

import featuregate as fg
from featuregate.config import Settings
from featuregate.errors import DiscoveryError, RefreshTimedOut
from featuregate.sources.brokers import BrokerSource
from featuregate.sources.source import BrokerAnswers, MergedView
from featuregate.testing import FakeCluster, release_view

HOUR = 3600.0
BOUND = 30.0
NEW = release_view("4.2")


class Views:
    """Returns views as they are scripted, the last one for ever."""

    timeout = 1.0

    def __init__(self, *views: fg.View | None) -> None:
        self._views = list(views)

    def __str__(self) -> str:
        return "a script"

    async def fetch(self) -> MergedView:
        view = self._views.pop(0) if len(self._views) > 1 else self._views[0]
        if view is None:
            raise DiscoveryError([])
        return MergedView(view=view)


def test_a_view_that_was_merged_elsewhere_opens_a_gate() -> None:
    """A relay gives views."""
    with fg.Discoverer(source=Views(NEW), interval=HOUR) as features:
        gate = features.gate("groups", "group.version>=1")
        assert gate.wait(BOUND)
        assert features.health()["status"] == "ok"
        assert repr(features) == "<Discoverer of a script: ok>"


async def test_the_answers_of_brokers_merge_into_what_discover_returns(fake_cluster) -> None:
    """There is one way to ask."""
    cluster: FakeCluster = fake_cluster(2)
    source = BrokerSource(Settings.parse(cluster.bootstrap), keep_connections=False)
    answers = await source.fetch()
    assert answers.merge().same_content(await fg.adiscover(cluster.bootstrap))
    assert str(source) == cluster.bootstrap


class Shown:
    """Returns the view that the test shows."""

    timeout = 1.0
    age = transit = 0.0

    def __init__(self, view: fg.View | None) -> None:
        self.view = view

    async def fetch(self) -> MergedView:
        assert self.view is not None
        return MergedView(view=self.view, age=self.age, transit=self.transit)


def test_invariant_9_levels_age_where_a_source_falls_behind() -> None:
    """A source that only returns views of a lower epoch proves nothing new, however often it answers."""
    now = 0.0
    source = Shown(NEW)
    late = replace(NEW, epoch=NEW.epoch - 1, brokers=tuple(replace(b, epoch=NEW.epoch - 1) for b in NEW.brokers))
    with fg.Discoverer(source=source, interval=HOUR, stale_after=10, clock=lambda: now) as features:
        gate = features.gate("groups", "group.version>=1", policy="live")
        features.refresh(BOUND)
        assert gate.open
        source.view, now = late, 9.0
        features.refresh(BOUND)
        now = 18.0
        features.refresh(BOUND)
        assert not gate.open
        assert features.health()["status"] == "degraded"


class Hanging(Shown):
    """Returns its view once, and then nothing for ever."""

    timeout = 0.05

    async def fetch(self) -> MergedView:
        view, self.view = self.view, None
        if view is None:
            await asyncio.Event().wait()
        assert view is not None
        return MergedView(view=view)


def test_invariant_9_a_source_that_hangs_does_not_keep_a_live_gate_open() -> None:
    """The poll ends without it, and so the gate learns that the view is stale."""
    now = 0.0
    with fg.Discoverer(source=Hanging(NEW), interval=HOUR, stale_after=10, clock=lambda: now) as features:
        gate = features.gate("groups", "group.version>=1", policy="live")
        assert gate.wait(BOUND)
        now = 20.0
        with pytest.raises(RefreshTimedOut):
            features.refresh(BOUND)
        assert not gate.open
        assert features.health()["status"] == "stale"


class TimingOut(Shown):
    """Raises the same error at once."""

    error = TimeoutError("the registry of brokers did not answer within 2 s")

    async def fetch(self) -> MergedView:
        raise self.error


def test_a_poll_fails_with_the_timeout_error_of_its_source() -> None:
    """The bound of a poll has not passed, and the error of the source says what took too long."""
    with fg.Discoverer(source=TimingOut(None), interval=HOUR) as features:
        with pytest.raises(TimeoutError) as raised:
            features.refresh(BOUND)
        assert raised.value is TimingOut.error


def test_invariant_9_the_same_answers_are_as_old_as_the_source_says() -> None:
    """The clock of a machine that slept has stood still, and that of the source has not."""
    source = Shown(NEW)
    with fg.Discoverer(source=source, interval=HOUR, stale_after=10, clock=lambda: 100.0) as features:
        gate = features.gate("groups", "group.version>=1", policy="live")
        features.refresh(BOUND)
        source.age = 11.0
        features.refresh(BOUND)
        assert not gate.open
        assert features.health()["age_seconds"] == 11.0


def test_the_answers_of_another_cluster_may_be_older() -> None:
    """There is nothing to compare them with."""
    source = Shown(NEW)
    with fg.Discoverer(source=source, interval=HOUR, clock=lambda: 100.0) as features:
        features.refresh(BOUND)
        source.view, source.age = replace(NEW, cluster_id="another"), 30.0
        assert features.refresh(BOUND).cluster_id == "another"


def test_a_view_has_the_age_of_its_own_poll() -> None:
    """While a poll writes what it found, the health is younger than the view: a server must not send both."""
    now = [0.0]
    seen: list[tuple[fg.View | None, float]] = []
    ages: list[float | None] = []

    class Looking:
        def load(self, _cluster_id: str) -> None:
            seen.append(features.view_and_age())
            ages.append(features.health()["age_seconds"])

        def save(self, state):
            return state

    newer = replace(NEW, epoch=NEW.epoch + 1, seen_at=NEW.seen_at + 60)
    source = Views(NEW)
    features = fg.Discoverer(source=source, interval=HOUR, clock=lambda: now[0], latch_store=Looking())
    with features:
        features.refresh(BOUND)
        now[0], source._views = 60.0, [newer]
        features.refresh(BOUND)
    assert seen[0] == (None, 0.0)
    assert seen[-1] == (NEW, 60.0)
    assert ages[-1] == 0.0
    assert features.view_and_age() == (newer, 0.0)


@pytest.mark.parametrize("excluded", ["Produce=99", None])
def test_a_source_says_excluded_apis_as_text_or_not_at_all(excluded: str | None) -> None:
    """Also where a latched gate is not proved any more: the poll that finds it counts."""
    source = Shown(NEW)
    source.exclude_apis = excluded  # type: ignore[attr-defined]
    with fg.Discoverer(source=source, interval=HOUR) as features:
        assert features.gate("groups", "Produce>=9").wait(BOUND)
        source.view = replace(release_view("2.0"), cluster_id=NEW.cluster_id, epoch=NEW.epoch + 1)
        features.refresh(BOUND)
        assert features.gate("groups", "Produce>=9").decision.state == "held"


def test_invariant_9_a_view_of_a_time_to_come_grows_stale_in_its_time() -> None:
    """A source that compares the clocks of two machines finds ages below 0; one that knows no age gives no view."""
    now = 0.0
    source = Shown(NEW)
    source.age = -HOUR
    with fg.Discoverer(source=source, interval=HOUR, stale_after=10, clock=lambda: now) as features:
        gate = features.gate("groups", "group.version>=1", policy="live")
        features.refresh(BOUND)
        assert gate.open
        now, source.view = 11.0, None
        with pytest.raises(AssertionError):
            features.refresh(BOUND)
        assert not gate.open
        now, source.view, source.age = 12.0, NEW, float("nan")
        with pytest.raises(ValueError, match="is not a number"):
            features.refresh(BOUND)
        assert not gate.open


def test_the_brokers_of_a_source_may_come_from_an_iterator() -> None:
    """They are looked at more than once. The levels that it hands out are the app's own."""

    class Asking(Shown):
        async def fetch(self) -> BrokerAnswers:  # type: ignore[override]
            return BrokerAnswers(
                cluster_id=NEW.cluster_id,
                controller_id=None,
                broker_list="cluster",
                registered=True,
                role="broker",
                answers=iter(NEW.brokers),  # type: ignore[arg-type]
                answered_at=NEW.seen_at,
            )

    with fg.Discoverer(source=Asking(None), interval=HOUR) as features:
        assert features.refresh(BOUND).brokers == NEW.brokers
        features.latched.clear()  # type: ignore[attr-defined]
        assert features.latched == NEW.finalized


async def test_configs_to_ask_for_may_come_from_an_iterator_or_be_one(fake_cluster) -> None:
    """Each broker is asked for all of them, and not for the letters of a name."""
    cluster: FakeCluster = fake_cluster(2)
    name = "group.coordinator.rebalance.protocols"
    for given in (name, iter([name])):
        view = await fg.adiscover(cluster.bootstrap, configs=given)  # type: ignore[arg-type]
        assert [list(broker.configs) for broker in view.brokers] == [[name], [name]]
