"""The one mutable box: the view, what is kept, and who is told.

Readers never lock: ``store.view``, ``store.kept`` and ``gate.open`` are single references that are swapped whole.
Writers take turns by one lock, which they hold while the latch store works, however long that takes. They publish what
they found under another, ``settled``, which is never held for long. Hooks run outside both.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.gating.decisions import FRESH, evaluate
from featuregate.gating.events import Changed, Event, GateMoved
from featuregate.gating.latches import LatchedGate, LatchState, decide, join, ratchet
from featuregate.requirements import NOTHING_EXCLUDED
from featuregate.view.changes import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from featuregate.gating.decisions import Decision, Staleness
    from featuregate.gating.events import MetricsHook, OnChange
    from featuregate.gating.latch_store import LatchStore
    from featuregate.gating.latches import Policy
    from featuregate.requirements import ExcludedApis, Requirement
    from featuregate.view.cluster_view import View

__all__ = ["Settled", "Store"]

logger = logging.getLogger("featuregate")

CLUSTERS = 4
"""So many clusters are remembered with their last view, should a bootstrap list lead to one and then another."""


class Settled(Protocol):
    """What the store settles after each view: a gate."""

    @property
    def name(self) -> str:
        """The name of the gate."""
        ...

    @property
    def requirement(self) -> Requirement:
        """What it requires."""
        ...

    @property
    def policy(self) -> Policy:
        """Whether it latches."""
        ...

    decision: Decision

    def settle(self, decision: Decision) -> None:
        """Take the decision."""
        ...


G = TypeVar("G", bound=Settled)


class Store(Generic[G]):
    """Holds one view and one :class:`~featuregate.gating.latches.LatchState` per cluster id, and settles gates.

    Parameters
    ----------
    latch_store
        Where latches outlive the process; ``None`` keeps them in memory only.
    wall
        Seconds since the Unix epoch, for the times that people read.
    metrics
        Told every event.
    staleness
        Says why the view at hand, or its levels, prove nothing any more. Asked for each decision, because views age
        between polls too.
    exclude_apis
        API versions that do not count as served.
    """

    def __init__(
        self,
        *,
        latch_store: LatchStore | None = None,
        wall: Callable[[], float],
        metrics: MetricsHook | None = None,
        staleness: Callable[[], Staleness] = lambda: FRESH,
        exclude_apis: ExcludedApis = NOTHING_EXCLUDED,
    ) -> None:
        self.view: View | None = None
        self.kept = LatchState()
        self._latch_store = latch_store
        self._wall = wall
        self._metrics = metrics
        self._staleness = staleness
        self._exclude_apis = exclude_apis
        self._kept: dict[str | None, LatchState] = {}
        self._durable: dict[str | None, LatchState] = {}
        self._damage: str | None = None
        self._trouble: str | None = None
        self._last: dict[str | None, View] = {}
        self._listeners: dict[object, OnChange] = {}
        self._gates: weakref.WeakValueDictionary[str, G] = weakref.WeakValueDictionary()
        self.renew_locks()

    def renew_locks(self) -> None:
        """Take new locks: a forked child may have inherited the old ones held."""
        self.turn = threading.RLock()
        self.settled = threading.Condition(threading.RLock())

    @property
    def latch_store_error(self) -> str | None:
        """Why a latch is not durable, or what was lost; ``None`` when all is well."""
        return self._trouble or self._damage

    def last(self, cluster_id: str | None) -> View | None:
        """Return what was last seen of this cluster, also where another one was seen since."""
        return self._last.get(cluster_id)

    def offer(self, seen: View) -> bool:
        """Take a view in, settle every gate, and tell the hooks. Returns whether the content is another one.

        A view of the same cluster with a lower epoch is refused: that is a stale broker speaking late.
        """
        events = self.take(seen)
        self.tell(*events)
        return any(isinstance(event, Changed) for event in events)

    def take(self, seen: View) -> list[Event]:
        """Do as :meth:`offer` does, but leave it to the caller to tell the hooks of these events, outside any lock."""
        with self.turn:
            before, last = self.view, self.last(seen.cluster_id)
            if last is not None and seen.epoch < last.epoch:
                return []
            if before is not None and before.cluster_id != seen.cluster_id:
                logger.warning("cluster id changed from %s to %s: starting afresh", before.cluster_id, seen.cluster_id)
            self._durable.pop(seen.cluster_id, None)  # other processes may have latched since it was read
            kept = self._keep(seen)
            self._remember(seen)
            with self.settled:
                self.kept, self.view = kept, seen
                events = self._settle_all(seen, self.gates())
                self.settled.notify_all()
        if before is None or not before.same_content(seen):
            found = () if before is None else differences(before, seen)
            events.append(Changed(before=before, after=seen, differences=found))
        return events

    def reconsider(self) -> None:
        """Settle every gate again by the view at hand, which has grown stale."""
        with self.settled:
            events = [] if self.view is None else self._settle_all(self.view, self.gates())
            self.settled.notify_all()
        self.tell(*events)

    def close(self) -> None:
        """Close the live gates, which nothing proves any more, and wake those that wait. No warning is due."""
        with self.settled:
            live = [gate for gate in self.gates() if gate.policy == "live"]
            events = [] if self.view is None else self._settle_all(self.view, live, logging.INFO)
            self.settled.notify_all()
        self.tell(*events)

    def add_gate(self, name: str, make: Callable[[], G]) -> G:
        """Return the gate of this name, made and settled by the view so far where it is new."""
        with self.turn:
            gate = self._gates.get(name)
            if gate is not None:
                return gate
            gate = self._gates[name] = make()
            events: list[Event] = []
            if self.view is not None:
                kept = self._keep(self.view)
                with self.settled:
                    self.kept = kept
                    events = self._settle(gate, self._decide(gate, self.view))
                    self.settled.notify_all()
        self.tell(*events)
        return gate

    def gates(self) -> list[G]:
        """Return the gates that somebody still holds, by name. Takes no lock: health checks and log lines ask it."""
        held = (reference() for reference in self._gates.valuerefs())
        return sorted((gate for gate in held if gate is not None), key=lambda gate: gate.name)

    def listen(self, listener: OnChange) -> Callable[[], None]:
        """Call ``listener`` on each change from now on; returns what takes it off again."""
        place = object()  # the same listener may be told twice, and each time be taken off by itself
        self._listeners[place] = listener

        def off() -> None:
            self._listeners.pop(place, None)

        return off

    def tell(self, *events: Event) -> None:
        """Tell the hooks, outside the lock; one that fails is logged and survived."""
        for event in events:
            if self._metrics is not None:
                _call(self._metrics, event)
            if isinstance(event, Changed):
                for listener in self._listeners.copy().values():
                    _call(listener, event)

    def _decide(self, gate: G, view: View) -> Decision:
        return decide(
            self.kept,
            view,
            name=gate.name,
            requirement=gate.requirement,
            policy=gate.policy,
            staleness=self._staleness(),
            exclude_apis=self._exclude_apis,
        )

    def _remember(self, seen: View) -> None:
        self._last.pop(seen.cluster_id, None)
        self._last[seen.cluster_id] = seen
        if len(self._last) > CLUSTERS:  # ids come over the network, and views may be large
            del self._last[next(iter(self._last))]

    def _keep(self, seen: View) -> LatchState:
        """Ratchet up to what was seen, on the latch store first: a gate opens only after its latch is durable."""
        kept = self._kept.get(seen.cluster_id, LatchState(cluster_id=seen.cluster_id))
        if self._latch_store is None:
            moved = ratchet(kept, seen, self._opening(kept, seen))
        else:
            moved = self._keep_on(self._latch_store, kept, seen)
        self._kept[seen.cluster_id] = moved
        return moved

    def _keep_on(self, latch_store: LatchStore, kept: LatchState, seen: View) -> LatchState:
        """Join what the latch store holds, once per poll, and make durable what is new.

        What cannot be made durable may raise levels in memory, but opens nothing. An app's own latch store may
        raise anything, and must not cost us the view.
        """
        proved = ratchet(kept, seen)
        try:
            if seen.cluster_id not in self._durable:
                kept = join(kept, self._load(latch_store, seen.cluster_id))
            proved = ratchet(kept, seen)
            moved = ratchet(kept, seen, self._opening(kept, seen))
            if moved != self._durable[seen.cluster_id]:
                moved = join(proved, saved := latch_store.save(moved))
                self._durable[seen.cluster_id] = saved
        except Exception as error:  # noqa: BLE001 - see above
            self._report(error)
            return proved
        self._trouble = None
        return moved

    def _opening(self, kept: LatchState, seen: View) -> list[LatchedGate]:
        staleness = self._staleness()
        return [
            LatchedGate(gate=gate.name, requirement=text, opened_at=self._wall(), epoch=seen.epoch)
            for gate in self.gates()
            if gate.policy == "sticky"
            and (gate.name, text := str(gate.requirement)) not in kept.gates
            and evaluate(seen, gate.requirement, staleness, exclude_apis=self._exclude_apis).open
        ]

    def _load(self, latch_store: LatchStore, cluster_id: str | None) -> LatchState:
        """Read what is on the latch store: the latches of other processes, and those of earlier ones."""
        if cluster_id is None:
            raise LatchStoreError(
                latch_store, "the cluster tells no id, and a latch belongs to one: name the cluster by cluster_id"
            )
        there = LatchState(cluster_id=cluster_id)
        try:
            there = latch_store.load(cluster_id) or there
        except LatchStoreCorrupt as error:
            logger.error("%s", error)  # noqa: TRY400 - the sentence says it all, a traceback would bury it
            self._damage = str(error)
        self._durable[cluster_id] = there
        return there

    def _report(self, error: Exception) -> None:
        said = str(error) if isinstance(error, LatchStoreError) else f"the latch store failed: {error!r}"
        if self._trouble != said:
            logger.error("latches are not durable: %s", said)
        self._trouble = said

    def _settle_all(self, view: View, gates: Iterable[G], closing: int = logging.WARNING) -> list[Event]:
        """Decide these gates. The caller holds ``settled``."""
        return [event for gate in gates for event in self._settle(gate, self._decide(gate, view), closing)]

    def _settle(self, gate: G, decision: Decision, closing: int = logging.WARNING) -> list[Event]:
        """Let a gate take a decision, and log it where it moves the gate: at level ``closing`` where it closes."""
        before = gate.decision
        gate.settle(decision)
        if (before.verdict, before.held is None) == (decision.verdict, decision.held is None):
            return []
        level = logging.WARNING if decision.held else closing if before.open and not decision.open else logging.INFO
        logger.log(level, "gate %s: %s", gate.name, decision.summary)
        return [GateMoved(gate=gate.name, open=decision.open, decision=decision)]


def _call(hook: Callable[[Any], None], event: Event) -> None:
    try:
        hook(event)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit) and threading.current_thread() is threading.main_thread():
            raise  # a signal handler may have raised it, and means the app
        name = getattr(hook, "__qualname__", repr(hook))
        logger.exception("hook %s failed on %s", name, type(event).__name__)
