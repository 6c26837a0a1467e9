"""The one mutable box: the view, the latches, the gates and the hooks.

Readers never lock: ``store.view``, ``store.latch_state`` and ``gate.open`` are references that are swapped whole.
Writers take turns by one lock, ``writing``, which they hold while the latch store works, however long that takes. They
publish the result under another, ``changing()``, which is never held for long. Hooks run outside both.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis
from featuregate.gating.burn_in import BurnIns, why_waiting
from featuregate.gating.decisions import BURN_IN, FRESH, HOLD, Decision, Staleness, evaluate
from featuregate.gating.durable_latches import FROM_ANSWERS, DurableLatches, LatchStart
from featuregate.gating.events import Changed, Event, GateMoved, MetricsHook, OnChange
from featuregate.gating.gates import Gate, Pin, gate_troubles, misspelt
from featuregate.gating.holds import NO_HOLDS, CurrentHolds, Holds
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState, advance, decide
from featuregate.logs import get_logger
from featuregate.requirements import Requirement, configs_in
from featuregate.view.changes import differences

if TYPE_CHECKING:
    from featuregate.gating.latch_store import LatchStore
    from featuregate.view.cluster_view import View

logger = get_logger("featuregate")

CLUSTERS = 4
"""The store remembers the last view of this many clusters: a bootstrap list may lead to one and then another."""
MOST_CONFIGS = 100
"""Names of configs that are kept of requirements which were evaluated without a gate."""
KEPT_GATES = 1000
"""The store keeps this many gates alive; further ones live as long as the app references them."""


class Store:
    """Holds one view and one :class:`~featuregate.gating.latches.LatchState` per cluster id, and updates gates.

    ``latch_store``: where latches outlive the process; None keeps them in memory only. ``wall``: seconds since the Unix
    epoch, for the times that people read. ``staleness``: says why the view at hand, or its levels, prove nothing any
    more; asked for each decision, because views age between polls too. ``exclude_apis``: API versions that do not count
    as served. ``start``: of which cluster the durable latches count before the first answer. ``clock``,
    ``longest_gap``: count burn-ins, see :class:`~featuregate.gating.burn_in.BurnIns`. ``read_holds``: returns the holds
    of this process that count now.
    """

    def __init__(
        self,
        *,
        latch_store: LatchStore | None = None,
        wall: Callable[[], float],
        staleness: Callable[[], Staleness] = lambda: FRESH,
        exclude_apis: ExcludedApis = NOTHING_EXCLUDED,
        start: LatchStart = FROM_ANSWERS,
        clock: Callable[[], float] = lambda: 0.0,
        longest_gap: float = 0.0,
        read_holds: Callable[[], Holds] = lambda: NO_HOLDS,
    ) -> None:
        self.view: View | None = None
        self.latch_state = LatchState()
        self.latches = DurableLatches(latch_store, start)
        self.holds = CurrentHolds(read_holds)
        self.hooks = Hooks()
        self._burn_ins = BurnIns(clock=clock, wall=wall, longest_gap=longest_gap)
        self._wall = wall
        self._staleness = staleness
        self._exclude_apis = exclude_apis
        self._gates: weakref.WeakValueDictionary[str, Gate] = weakref.WeakValueDictionary()
        self._kept_gates: list[Gate] = []
        self._last: dict[str | None, View] = {}
        self._evaluated_configs: frozenset[str] = frozenset()
        self.renew_locks()

    def renew_locks(self) -> None:
        """Take new locks: a forked child may have inherited the old ones held."""
        self.writing = threading.RLock()
        self._changed = threading.Condition(threading.RLock())

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock under which gates change, and wake those that wait for one at the end."""
        with self._changed:
            yield
            self._changed.notify_all()

    def wait_for(self, done: Callable[[], bool], timeout: float) -> bool:
        """Block until ``done()``, evaluated after each change, for ``timeout`` seconds at most; return if it is."""
        if not isinstance(timeout, int | float):
            raise TypeError(f"a timeout is a number of seconds, not {timeout!r}")
        with self._changed:
            return self._changed.wait_for(done, min(timeout, threading.TIMEOUT_MAX))

    def last(self, cluster_id: str | None) -> View | None:
        """Return what was last seen of this cluster, also where another one was seen since."""
        return self._last.get(cluster_id)

    def gates(self) -> list[Gate]:
        """Return the gates, sorted by name. Takes no lock, for health checks and log lines."""
        held = (reference() for reference in self._gates.valuerefs())
        return sorted((gate for gate in held if gate is not None), key=lambda gate: gate.name)

    def troubles(self) -> list[str]:
        """Return what is wrong with latches and with gates, in sentences."""
        of_latches = (self.latches.error, self.latches.taken_back)
        of_gates = gate_troubles(self.gates(), self.view, self.holds.found)
        return [*(text for text in of_latches if text is not None), *of_gates]

    def commit(self, seen: View, latched: Collection[LatchKey] = (), holds: Holds | None = None) -> list[Event]:
        """Take a view in and update every gate; return the events, of which the caller notifies the hooks.

        ``latched`` are gates that another process has latched for this cluster: they are latched here, too. ``holds``
        are those that came with the view; None: those of the view before go on.
        The store refuses a view of the same cluster with a lower epoch: a broker that fell behind sent it late.
        """
        with self.writing:
            before, last = self.view, self.last(seen.cluster_id)
            if last is not None and seen.epoch < last.epoch:
                return []
            if before is not None and before.cluster_id != seen.cluster_id:
                logger.warning("cluster id changed from %s to %s: starting afresh", before.cluster_id, seen.cluster_id)
            if before is None and seen.cluster_id is not None:
                self.latches.take_back(seen.cluster_id, self._open_gates())
            self.latches.expire(seen.cluster_id)
            self.holds.renew(self._names(), holds)
            state = self._latch(seen, latched, polled=True)
            self._remember(seen)
            with self.changing():
                self.latch_state, self.view = state, seen
                events = self._decide_all(self.gates())
        if before is None or not before.same_content(seen):
            found = () if before is None else differences(before, seen)
            events.append(Changed(before=before, after=seen, differences=found))
        return events

    def reevaluate(self) -> None:
        """Decide every gate again by the view at hand, which has grown stale."""
        self.holds.renew(self._names())
        with self.changing():
            events = self._decide_all(self.gates())
        self.hooks.notify(*events)

    def answered_by(self, cluster_id: str) -> None:
        """Take back a start from latches where a broker of another cluster answers, and is refused."""
        with self.writing:
            if self.view is not None or not self.latches.take_back(cluster_id, self._open_gates()):
                return
            with self.changing():
                self.latch_state = self.latches.first_state()
                events = self._decide_all(self.gates())
        self.hooks.notify(*events)

    def close(self) -> None:
        """Close the live gates, which nothing proves any more, and wake those that wait. No warning is due."""
        with self.changing():
            events = self._decide_all([gate for gate in self.gates() if gate.policy == "live"], logging.INFO)
        self.hooks.notify(*events)

    def add_gate(self, name: str, make: Callable[[], Gate]) -> Gate:
        """Return the gate of this name, made and decided by the view at hand where it is new."""
        with self.writing:
            gate = self._gates.get(name)
            if gate is not None:
                return gate
            gate = self._gates[name] = make()
            try:
                self.holds.renew(self._names())
                state = self.latches.first_state() if self.view is None else self._latch(self.view, polled=False)
                with self.changing():
                    self.latch_state = state
                    events = self._decide_all([gate])
            except BaseException:
                del self._gates[name]  # it would spoil each poll, and so every other gate
                raise
            self._keep(gate)
            for _, text in misspelt(gate):
                logger.warning("%s", text)
        self.hooks.notify(*events)
        return gate

    def pin(self) -> dict[str, Pin]:
        """Return the pins of all gates at one instant, by name."""
        with self._changed:
            return {gate.name: gate.pin() for gate in self.gates()}

    def evaluate(self, requirement: Requirement) -> Decision:
        """Decide a requirement by the view at hand, without a gate: nothing is latched."""
        if (configs := configs_in(requirement)) and len(self._evaluated_configs) < MOST_CONFIGS:
            self._evaluated_configs |= frozenset(configs)
        return Decision.unseen(requirement) if self.view is None else self._evaluate(self.view, requirement)

    def wanted_configs(self) -> frozenset[str]:
        """Return the configs of brokers that requirements depend on: those of gates, and of what was evaluated."""
        of_gates = (name for gate in self.gates() for name in configs_in(gate.requirement))
        return self._evaluated_configs.union(of_gates)

    def _evaluate(self, view: View, requirement: Requirement) -> Decision:
        return evaluate(view, requirement, self._staleness(), exclude_apis=self._exclude_apis)

    def _decide(self, gate: Gate) -> Decision:
        return decide(
            self.latch_state,
            self.view,
            name=gate.name,
            requirement=gate.requirement,
            policy=gate.policy,
            staleness=self._staleness(),
            exclude_apis=self._exclude_apis,
            waits=self._waits(gate, self.latch_state),
        )

    def _waits(self, gate: Gate, state: LatchState) -> dict[str, str]:
        """Return what keeps a gate closed that has not latched, whatever the view proves: why, by the condition."""
        found = {
            HOLD: self.holds.why(gate.name),
            BURN_IN: why_waiting(state.burn_ins.get(gate.key), gate.open_after, self._wall()),
        }
        return {condition: text for condition, text in found.items() if text is not None}

    def _latch(self, seen: View, elsewhere: Iterable[LatchKey] = (), *, polled: bool) -> LatchState:
        """Advance the latches by a view, in the latch store first: a gate opens only after its latch is durable.

        A hold does not stop a burn-in, which counts what the cluster does; only a view that was just polled counts.
        """

        def opening(key: LatchKey) -> LatchedGate:
            return LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=self._wall(), epoch=seen.epoch)

        def added(state: LatchState) -> LatchState:
            closed = [gate for gate in self.gates() if gate.policy == "sticky" and gate.key not in state.gates]
            verdicts = [(gate, self._evaluate(seen, gate.requirement).verdict) for gate in closed]
            state = self._burn_ins.count(state, verdicts) if polled else state
            opened = [gate.key for gate, verdict in verdicts if verdict == "open" and not self._waits(gate, state)]
            return advance(state, seen, map(opening, opened))

        return self.latches.advance(seen, map(opening, elsewhere), added)

    def _decide_all(self, gates: Iterable[Gate], closing: int = logging.WARNING) -> list[Event]:
        """Decide these gates, and log at level ``closing`` which close. The caller is within ``changing()``."""
        return [event for gate in gates if (event := _moved(gate, self._decide(gate), closing)) is not None]

    def _names(self) -> list[str]:
        """Return the names of the gates. Another thread may make or drop some: no view of the dict bears that."""
        return [gate.name for gate in self.gates()]

    def _open_gates(self) -> list[str]:
        return [gate.name for gate in self.gates() if gate.open]

    def _keep(self, gate: Gate) -> None:
        """Keep a gate alive, unless the number of kept gates shows that names are made at run time."""
        if len(self._kept_gates) < KEPT_GATES:
            self._kept_gates.append(gate)
            if len(self._kept_gates) == KEPT_GATES:
                logger.warning(
                    "there are %d gates, the last is %r: each poll decides every gate. Further gates are dropped when"
                    " the app drops them; for a question of one request call evaluate()",
                    KEPT_GATES,
                    gate.name,
                )

    def _remember(self, seen: View) -> None:
        self._last.pop(seen.cluster_id, None)
        self._last[seen.cluster_id] = seen
        if len(self._last) > CLUSTERS:  # ids come over the network, and views may be large
            del self._last[next(iter(self._last))]


def _moved(gate: Gate, decision: Decision, closing: int) -> GateMoved | None:
    """Let a gate take a decision; log it, and return the event, where it moves the gate."""
    before = gate.decision
    gate.update(decision)
    if (before.verdict, before.held is None) == (decision.verdict, decision.held is None):
        return None
    level = logging.WARNING if decision.held else closing if before.open and not decision.open else logging.INFO
    logger.log(level, "gate %s: %s", gate.name, decision.summary)
    return GateMoved(gate=gate.name, open=decision.open, decision=decision)


class Hooks:
    """Holds hooks, which take each event, and listeners, which take changes of the view. Takes no lock."""

    def __init__(self) -> None:
        self._hooks: dict[object, tuple[Callable[[Any], None], type]] = {}

    def listen(self, listener: OnChange) -> Callable[[], None]:
        """Call ``listener`` on each change from now on; returns what takes it off again."""
        return self._register(listener, Changed)

    def hook(self, hook: MetricsHook) -> Callable[[], None]:
        """Call ``hook`` with each event from now on; returns what takes it off again."""
        return self._register(hook, object)

    def _register(self, hook: Callable[[Any], None], kind: type) -> Callable[[], None]:
        if not callable(hook):
            raise TypeError(f"a function is called with events, not {hook!r}")
        place = object()  # the same hook may be registered twice, and each registration removed by itself
        self._hooks[place] = hook, kind

        def off() -> None:
            self._hooks.pop(place, None)

        return off

    def notify(self, *events: Event) -> None:
        """Call the hooks with these events; the caller holds no lock."""
        for event in events:
            for hook, kind in self._hooks.copy().values():
                if isinstance(event, kind):
                    _call(hook, event)


def _call(hook: Callable[[Any], None], event: Event) -> None:
    try:
        hook(event)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit) and threading.current_thread() is threading.main_thread():
            raise  # a signal handler may have raised it, and means the app
        name = getattr(hook, "__qualname__", repr(hook))
        logger.exception("hook %s failed on %s", name, type(event).__name__)
