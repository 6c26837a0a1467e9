"""The poll loop: ask every broker, again and again, and keep gates fresh.

One coroutine polls. ``with Discoverer(...)`` runs it in a daemon thread, ``async with Discoverer(...)`` as a task of
the caller's loop. The worker holds the poller weakly between polls, so that a discoverer without references dies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, Self

from featuregate.errors import ClosedError, ConfigError, NotPicklable, RefreshTimedOut
from featuregate.excluded_apis import excluded_apis
from featuregate.forks import follow_forks
from featuregate.gating.conditions import lacks_configs
from featuregate.gating.durable_latches import LatchStart, StartFrom
from featuregate.gating.latch_store import FileLatchStore, LatchStore, StartingLatchStore
from featuregate.gating.store import Store
from featuregate.polling.features import Features
from featuregate.polling.hold_sources import HoldSources
from featuregate.polling.poll_state import PollState
from featuregate.printable import harmless
from featuregate.sources.brokers import BrokerSource
from featuregate.sources.source import ConfigSource, Source

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.requirements import Requirement
    from featuregate.usage.reporting import Reporting, UsageReporter
    from featuregate.view.cluster_view import View

_RANDOM = SystemRandom()

_NEEDS_CLUSTER_ID: Final = (
    "is missing: listed brokers report no cluster id, and the latches of a latch store belong to a cluster;"
    " give the cluster's id, or a name that stays the same for as long as the cluster exists"
)


def _wall() -> float:
    """Seconds since the Unix epoch; for the times that people read, never for durations."""
    return datetime.now(UTC).timestamp()


class Discoverer(Features):
    """Asks every broker of a cluster what it can do, keeps the answer fresh, and hands out gates.

    Raises `ConfigError`: a property that is used here has a value that cannot be used, or ``latch_store`` is given for
    listed brokers without a ``cluster_id``.

    Parameters
    ----------
    config
        The very dict the app gives confluent-kafka, Java-style or Spark-style (``kafka.``) properties, a
        ``host:port,host:port`` string, or the path of a ``.properties`` file.
    source
        Where polls get their answers, in place of ``config``: a :class:`featuregate.BrokerSource` with options of its
        own, a :class:`featuregate.HttpSource`, or any :class:`featuregate.sources.source.Source`.
    interval
        Seconds between polls of a quiet cluster; a tenth of it while a roll is going on, and never more than half of
        ``stale_after``.
    timeout
        Seconds for one poll, at the most; 15 by default. A broker that has not answered by then counts as failed.
    stale_after
        Seconds without any answer after which the view is stale, and opens no gate; three intervals by default. So are
        its finalized levels when brokers answer and none has reported them for this time.
    forget_after
        Seconds for which a broker that is no longer listed still counts as known. It may be down for an upgrade
        and come back with the old software; until it is forgotten, no gate over API ranges opens. Clusters from
        4.0 on list brokers that are down, so this matters for older ones.
    latch_store
        Where latches outlive the process: a folder, or anything with the methods of
        :class:`~featuregate.gating.latch_store.LatchStore`. Without one they live as long as the discoverer.
    start_from
        When latched gates are open again after a restart. ``"answers"``: once a broker has answered. ``"latch"``: at
        once, as for the cluster that the config or the source led to last; if a broker of another cluster answers,
        these gates close. The ``latch_store`` must know that cluster, as a folder does. Where ``cluster_id`` names the
        cluster, latched gates are open at once in any case.
    hold
        Gates to hold closed until they have latched: the path of a file with lines such as ``eos-v2: reason``, which is
        read at each poll, or a mapping of names to reasons. The environment variables ``FEATUREGATE_HOLD`` (names that
        commas separate) and ``FEATUREGATE_HOLD_FILE`` hold more gates. ``*`` is every gate.
    cluster_id
        The id of the cluster, or a name for it that stays the same for as long as the cluster exists. Latches belong to
        one, so a ``latch_store`` needs it where brokers report none. A cluster with another id is refused.
    usage
        Reports the gates to operators once a minute: see :class:`featuregate.UsageReporter`. Off by default.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str | Path | None = None,
        *,
        source: Source | None = None,
        interval: float = 60.0,
        timeout: float | None = None,
        stale_after: float | None = None,
        forget_after: float = 1800.0,
        latch_store: LatchStore | str | os.PathLike[str] | None = None,
        start_from: StartFrom = "answers",
        hold: Mapping[str, str] | str | os.PathLike[str] | None = None,
        cluster_id: str | None = None,
        usage: UsageReporter | None = None,
        chance: Callable[[], float] = _RANDOM.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from featuregate.polling.poller import Poller  # noqa: PLC0415 - the front door must be cheap to import
        from featuregate.polling.worker import Lifecycle  # noqa: PLC0415 - likewise

        state = PollState.checked(interval=interval, stale_after=stale_after, forget_after=forget_after)
        opened = _opened(latch_store, start_from)
        if source is None:
            if config is None:
                raise ConfigError("config", "is missing: give the app's properties, or a source")
            source = BrokerSource(config, timeout=timeout, cluster_id=cluster_id)
        elif (config, timeout, cluster_id) != (None, None, None):
            raise ConfigError("source", "has its own config, timeout and cluster_id")
        if isinstance(source, BrokerSource):
            cluster_id = source.settings.cluster_id
            if opened is not None and source.settings.broker_list == "bootstrap" and cluster_id is None:
                raise ConfigError("cluster_id", _NEEDS_CLUSTER_ID)
        self._store = self._make_store(
            latch_store=opened,
            start=LatchStart(cluster_id, str(source) if start_from == "latch" else None),
            wall=_wall,
            staleness=lambda: state.staleness(clock()),
            exclude_apis=excluded_apis(getattr(source, "exclude_apis", None)),
            clock=clock,
            longest_gap=state.stale_after,
            read_holds=HoldSources(os.environ, hold).read,
        )
        self._poller = Poller(source, self._store, state, clock, chance=chance)
        self._reporting: Reporting | None = None
        if usage is not None:
            from featuregate.usage.reporting import Reporting  # noqa: PLC0415 - apps that do not report do not pay

            self._reporting = Reporting(usage, self._store, age=lambda: state.age(clock()), wall=_wall, clock=clock)
        self._life = Lifecycle(self._poller, self._reporting)
        follow_forks(self)

    def _make_store(self, **options: Any) -> Store:
        return Store(**options)

    def __repr__(self) -> str:
        return f"<Discoverer of {self._poller.source}: {self.health()['status']}>"

    def __reduce__(self) -> str:
        instead = "it polls in one process; send the View instead (features.view), or gate.pin()"
        raise NotPicklable("discoverer", instead)

    def start(self) -> Self:
        """Start polling in a daemon thread, and return at once. Starting twice is starting once."""
        self._life.start_thread()
        return self

    def close(self) -> None:
        """Stop polling. What was seen and latched can still be read, but proves nothing new: live gates close.

        Closing twice is closing once. A last usage report may take two seconds.
        """
        self._life.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._life.start_task()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._life.aclose()
        finally:
            self._store.close()

    def ensure_polling(self) -> None:
        """Start polling where nothing polls. Unlike :meth:`start` it never raises, because checks come through here."""
        with suppress(ClosedError, RuntimeError):  # RuntimeError: the interpreter is going down, no thread can start
            self.start()

    def _ensure_configs(self, requirement: Requirement) -> None:
        """Poll at once where brokers were not asked for a config that a requirement depends on. Never blocks."""
        if isinstance(self._poller.source, ConfigSource) and lacks_configs(self._store.view, requirement):
            self.poll_soon()

    def forked(self) -> None:
        """In a forked child no thread polls: locks may be held for ever, and gates must notice at their first check."""
        self._life.forked()
        self._store.renew_locks()
        if not self._poller.state.closed:
            for gate in self._store.gates():
                gate.forked()

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Block until ``done()``, looked at after each poll; return whether it is.

        Raises `ClosedError`: the discoverer is closed, so that nothing can change any more.
        """
        worker = self._life.worker  # once: another thread may close it between two looks
        if worker is not None and worker.is_here():
            raise RuntimeError("this would block the loop that polls: await asyncio.to_thread(...) on it instead")
        if not self._poller.state.closed:
            self.ensure_polling()
        self._store.wait_for(lambda: done() or self._poller.state.closed, timeout)
        if self._poller.state.closed and not done():
            raise ClosedError("this discoverer has been closed, so that no poll can end; make a new one")
        return done()

    def refresh(self, timeout: float | None = None) -> View:
        """Ask every broker now, and return the view that comes of it.

        Raises `DiscoveryError`: no broker answered.
        Raises `RefreshTimedOut`: no poll has ended in time.

        Parameters
        ----------
        timeout
            Seconds; by default what a poll may take at the most, twice.
        """
        bound = 2 * self._poller.source.timeout if timeout is None else timeout
        number = self.poll_soon()
        if not self.wait_until(lambda: self._poller.state.finished >= number, bound):
            raise RefreshTimedOut(bound)
        error = self._poller.state.last_error
        if error is not None:
            raise error
        assert self._store.view is not None
        return self._store.view

    def poll_soon(self) -> int:
        """Ask every broker now, and return the number of that poll without waiting for it. Never blocks or raises."""
        number = self._poller.next_number
        self.ensure_polling()
        worker = self._life.worker
        if worker is not None:
            worker.wake(number)
        return number

    def health(self) -> dict[str, Any]:
        """Return the state of discovery for a periodic health check, as plain JSON-able values.

        ``status`` is ``starting``, ``ok``, ``degraded``, ``stale``, ``failing`` or ``closed``; ``reasons`` says why, in
        sentences. ``gates`` maps each gate to whether it is open. ``waits`` has the gates that a hold or their burn-in
        keeps closed: for which of them, and why. ``states`` has ``open``, ``held`` (open by its latch alone),
        ``waiting``, ``closed`` or ``unknown`` for each gate. ``usage`` counts reports, where there are some.
        """
        found = self._poller.health() | {"polling": self._life.polling}
        found["gates"] = {gate.name: gate.open for gate in self._store.gates()}
        waiting = {gate.name: waits for gate in self._store.gates() if (waits := gate.decision.waits) is not None}
        found["waits"] = {name: {"for": waits.condition, "why": waits.text} for name, waits in waiting.items()}
        found["states"] = {gate.name: gate.decision.state for gate in self._store.gates()}
        found["usage"] = None if self._reporting is None else self._reporting.health()
        return harmless(found)


def _opened(latch_store: LatchStore | str | os.PathLike[str] | None, start_from: StartFrom) -> LatchStore | None:
    if start_from not in ("answers", "latch"):
        raise ConfigError("start_from", f'must be "answers" or "latch", not {start_from!r:.80}')
    if isinstance(latch_store, os.PathLike) and os.fspath(latch_store) == ".":
        raise ConfigError(
            "latch_store", 'is the current folder, as Path("") is: give the path of a folder for it alone'
        )
    if isinstance(latch_store, str | os.PathLike):
        return FileLatchStore(latch_store)
    if latch_store is not None and not callable(getattr(latch_store, "load", None)):
        raise ConfigError("latch_store", f"must be a folder, or have load() and save(), not {latch_store!r:.80}")
    if start_from == "latch" and not isinstance(latch_store, StartingLatchStore):
        problem = "needs a latch_store: give a folder, or an object that has last_cluster() and note_cluster(), too"
        raise ConfigError("start_from", problem)
    return latch_store
