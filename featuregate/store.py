"""The one mutable box: the view, what is kept, and who is told.

Readers never lock: ``store.view``, ``store.kept`` and ``gate.open`` are single references that are swapped whole.
Writers take one lock. Hooks run outside it.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from featuregate.changes import differences
from featuregate.decisions import doubt, evaluate
from featuregate.errors import ShelfDamaged, ShelfError
from featuregate.events import Changed, Event, GateMoved
from featuregate.ratchet import Kept, LatchedGate, decide, join, ratchet

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate.decisions import Decision
    from featuregate.events import MetricsHook, OnChange
    from featuregate.ratchet import Policy
    from featuregate.requirements import Requirement
    from featuregate.shelf import Shelf
    from featuregate.view import View

__all__ = ["Settled", "Store"]

logger = logging.getLogger("featuregate")


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
    """Holds one view and one :class:`~featuregate.ratchet.Kept` per cluster id, and settles gates.

    Parameters
    ----------
    shelf
        Where latches outlive the process; ``None`` keeps them in memory only.
    wall
        Seconds since the Unix epoch, for the times that people read.
    metrics
        Told every event.
    """

    def __init__(
        self, *, shelf: Shelf | None = None, wall: Callable[[], float], metrics: MetricsHook | None = None
    ) -> None:
        self.view: View | None = None
        self.kept = Kept()
        self._shelf = shelf
        self._wall = wall
        self._metrics = metrics
        self._kept: dict[str | None, Kept] = {}
        self._durable: dict[str | None, Kept] = {}
        self._damage: str | None = None
        self._trouble: str | None = None
        self._listeners: list[OnChange] = []
        self._gates: weakref.WeakValueDictionary[str, G] = weakref.WeakValueDictionary()
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: a forked child may have inherited the old one held."""
        self.settled = threading.Condition(threading.RLock())

    @property
    def shelf_error(self) -> str | None:
        """Why a latch is not durable, or what was lost; ``None`` when all is well."""
        return self._trouble or self._damage

    def offer(self, seen: View) -> bool:
        """Take a view in, settle every gate, and tell the hooks. Returns whether the content is another one.

        A view of the same cluster with a lower epoch is refused: that is a stale broker speaking late.
        """
        with self.settled:
            before = self.view
            if before is not None and before.cluster_id == seen.cluster_id and seen.epoch < before.epoch:
                return False
            if before is not None and before.cluster_id != seen.cluster_id:
                logger.warning("cluster id changed from %s to %s: starting afresh", before.cluster_id, seen.cluster_id)
            self.kept = self._keep(seen)
            self.view = seen
            events = [event for gate in self._gates.values() for event in self._settle(gate, self._decide(gate, seen))]
            self.settled.notify_all()
        changed = before is None or not before.same_content(seen)
        if changed:
            found = () if before is None else differences(before, seen)
            events.append(Changed(before=before, after=seen, differences=found))
        self.tell(*events)
        return changed

    def unprove(self, why: str) -> None:
        """Settle the live gates that nothing proves any more, because the view has grown stale."""
        with self.settled:
            events: list[Event] = []
            for gate in list(self._gates.values()):
                if gate.policy == "live" and gate.decision.open:
                    events += self._settle(gate, doubt(gate.decision, "the view is fresh", why))
            self.settled.notify_all()
        self.tell(*events)

    def add_gate(self, name: str, make: Callable[[], G]) -> G:
        """Return the gate of this name, made and settled by the view so far where it is new."""
        with self.settled:
            gate = self._gates.get(name)
            if gate is not None:
                return gate
            gate = self._gates[name] = make()
            events: list[Event] = []
            if self.view is not None:
                self.kept = self._keep(self.view)
                events = self._settle(gate, self._decide(gate, self.view))
        self.tell(*events)
        return gate

    def gates(self) -> list[G]:
        """Return the gates that somebody still holds, by name."""
        with self.settled:
            return [gate for _, gate in sorted(self._gates.items())]

    def listen(self, listener: OnChange) -> Callable[[], None]:
        """Call ``listener`` on each change from now on; returns what takes it off again."""
        self._listeners.append(listener)

        def off() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return off

    def tell(self, *events: Event) -> None:
        """Tell the hooks, outside the lock; one that fails is logged and survived."""
        for event in events:
            if self._metrics is not None:
                _call(self._metrics, event)
            if isinstance(event, Changed):
                for listener in tuple(self._listeners):
                    _call(listener, event)

    def _decide(self, gate: G, view: View) -> Decision:
        return decide(self.kept, view, name=gate.name, requirement=gate.requirement, policy=gate.policy)

    def _keep(self, seen: View) -> Kept:
        """Ratchet up to what was seen, on the shelf first: a gate opens only after its latch is durable."""
        cluster_id = seen.cluster_id
        shelved = self._shelf is not None and cluster_id is not None
        kept = self._kept.get(cluster_id, Kept(cluster_id=cluster_id))
        if shelved and cluster_id not in self._durable:
            kept = join(kept, self._load(kept))
        moved = ratchet(kept, seen, self._opening(kept, seen))
        if shelved and moved != self._durable.get(cluster_id):
            # What cannot be made durable may raise levels in memory, but opens nothing.
            moved = self._save(moved) or ratchet(kept, seen)
        self._kept[cluster_id] = moved
        return moved

    def _opening(self, kept: Kept, seen: View) -> list[LatchedGate]:
        return [
            LatchedGate(gate=gate.name, requirement=text, opened_at=self._wall(), epoch=seen.epoch)
            for gate in self._gates.values()
            if gate.policy == "sticky"
            and (gate.name, text := str(gate.requirement)) not in kept.gates
            and evaluate(seen, gate.requirement).open
        ]

    def _load(self, kept: Kept) -> Kept:
        assert self._shelf is not None
        assert kept.cluster_id is not None
        try:
            there = self._shelf.load(kept.cluster_id) or Kept(cluster_id=kept.cluster_id)
        except ShelfDamaged as error:
            logger.error("%s", error)  # noqa: TRY400 - the sentence says it all, a traceback would bury it
            self._damage = str(error)
            there = Kept(cluster_id=kept.cluster_id)
        except ShelfError as error:
            self._report(error)
            return kept
        self._durable[kept.cluster_id] = there
        return there

    def _save(self, moved: Kept) -> Kept | None:
        assert self._shelf is not None
        try:
            saved = self._shelf.save(moved)
        except ShelfError as error:
            self._report(error)
            return None
        self._durable[moved.cluster_id] = saved
        self._trouble = None
        return saved

    def _report(self, error: ShelfError) -> None:
        if self._trouble != str(error):
            logger.error("latches are not durable: %s", error)
        self._trouble = str(error)

    def _settle(self, gate: G, decision: Decision) -> list[Event]:
        before = gate.decision
        gate.settle(decision)
        if (before.verdict, before.held is None) == (decision.verdict, decision.held is None):
            return []
        level = logging.WARNING if decision.held or (before.open and not decision.open) else logging.INFO
        logger.log(level, "gate %s: %s", gate.name, decision.summary)
        return [GateMoved(gate=gate.name, open=decision.open, decision=decision)]


def _call(hook: Callable[[Any], None], event: Event) -> None:
    try:
        hook(event)
    except Exception:
        name = getattr(hook, "__qualname__", repr(hook))
        logger.exception("hook %s failed on %s", name, type(event).__name__)
