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
from typing import TYPE_CHECKING

from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis
from featuregate.gating.decisions import FRESH, Decision, Staleness
from featuregate.gating.durable_latches import FROM_ANSWERS, DurableLatches, LatchStart
from featuregate.gating.evaluator import Evaluator
from featuregate.gating.events import Changed, Event, GateMoved, MetricsHook
from featuregate.gating.holds import NO_HOLDS, Holds
from featuregate.gating.hooks import Hooks
from featuregate.gating.latches import LatchKey, LatchState, advance, join
from featuregate.gating.misspelt import listed_features, misspelt
from featuregate.gating.openings import Openings
from featuregate.logs import get_logger
from featuregate.printable import some
from featuregate.requirements import Requirement, configs_in
from featuregate.view.changes import differences

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate, Pin
    from featuregate.gating.latch_store import LatchStore
    from featuregate.gating.verdicts import GateVerdict
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

    Parameters
    ----------
    latch_store
        Where latches outlive the process; ``None`` keeps them in memory only.
    wall
        Seconds since the Unix epoch, for the times that people read.
    metrics
        Called with each event.
    staleness, exclude_apis
        How views are evaluated: see :class:`~featuregate.gating.evaluator.Evaluator`.
    start
        Of which cluster the durable latches count before the first answer.
    clock, longest_gap, read_holds
        What delays the opening of gates: see :class:`~featuregate.gating.openings.Openings`.
    """

    def __init__(
        self,
        *,
        latch_store: LatchStore | None = None,
        wall: Callable[[], float],
        metrics: MetricsHook | None = None,
        staleness: Callable[[], Staleness] = lambda: FRESH,
        exclude_apis: ExcludedApis = NOTHING_EXCLUDED,
        start: LatchStart = FROM_ANSWERS,
        clock: Callable[[], float] = lambda: 0.0,
        longest_gap: float = 0.0,
        read_holds: Callable[[], Holds] = lambda: NO_HOLDS,
    ) -> None:
        self.view: View | None = None
        self.latch_state = LatchState()
        self._durable = None if latch_store is None else DurableLatches(latch_store, start)
        self._started = False
        self._taken_back: str | None = None
        self._gates: weakref.WeakValueDictionary[str, Gate] = weakref.WeakValueDictionary()
        self._openings = Openings(
            wall=wall, clock=clock, longest_gap=longest_gap, read_holds=read_holds, gates=self._gates.keys
        )
        self._evaluator = Evaluator(staleness=staleness, exclude_apis=exclude_apis)
        self._latch_states: dict[str | None, LatchState] = {}
        self._last: dict[str | None, View] = {}
        hooks = Hooks(metrics)
        self.listen, self.hook, self.notify = hooks.listen, hooks.hook, hooks.notify
        self._evaluated_configs: frozenset[str] = frozenset()
        self._kept_gates: list[Gate] = []
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
            return self._changed.wait_for(done, timeout)

    @property
    def latches_last(self) -> bool:
        """Whether there is a latch store, so that taking in a view may block."""
        return self._durable is not None

    @property
    def latch_store_error(self) -> str | None:
        """Why a latch is not durable, or what was lost; ``None`` when all is well."""
        return None if self._durable is None else self._durable.error

    def troubles(self) -> list[str]:
        """Return what is wrong with latches and with gates, in sentences.

        A gate that only its latch holds open, though all brokers answer, is one: the app relies on what the cluster
        no longer has.
        """
        troubles = [
            text for text in (self.latch_store_error, self._taken_back, self._started_from()) if text is not None
        ]
        troubles += [
            f"gate {gate.name} is {gate.decision.held}: the cluster no longer has what the app relies on"
            for gate in self.gates()
            if gate.decision.held is not None and gate.decision.verdict == "closed"
        ]
        unknown = [found for gate in self.gates() for found in misspelt(gate)]
        listed = listed_features(self.view) if unknown else frozenset()
        troubles += [text for name, text in unknown if name not in listed]
        return troubles + list(self._openings.troubles(self.gates()))

    @property
    def holds(self) -> Holds:
        """The holds that counted for the last decisions."""
        return self._openings.holds

    def last(self, cluster_id: str | None) -> View | None:
        """Return what was last seen of this cluster, also where another one was seen since."""
        return self._last.get(cluster_id)

    def update(self, seen: View) -> bool:
        """Commit a view and notify the hooks; return whether its content differs from the one before."""
        events = self.commit(seen)
        self.notify(*events)
        return any(isinstance(event, Changed) for event in events)

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
                self._take_back(seen.cluster_id)
            if self._durable is not None:
                self._durable.expire(seen.cluster_id)
            self._openings.read_holds(holds)
            state = self._latch(seen, latched, polled=True)
            self._remember(seen)
            with self.changing():
                self.latch_state, self.view = state, seen
                events = self._update_gates(seen, self.gates())
        if before is None or not before.same_content(seen):
            found = () if before is None else differences(before, seen)
            events.append(Changed(before=before, after=seen, differences=found))
        return events

    def reevaluate(self) -> None:
        """Decide every gate again by the view at hand, which has grown stale."""
        self._openings.read_holds()
        with self.changing():
            events = [] if self.view is None else self._update_gates(self.view, self.gates())
        self.notify(*events)

    def answered_by(self, cluster_id: str) -> None:
        """Take back a start from latches where a broker of another cluster answers, and is refused."""
        with self.writing:
            if self.view is not None or not self._take_back(cluster_id):
                return
            with self.changing():
                self.latch_state = LatchState()
                events = self._update_gates(None, self.gates())
        self.notify(*events)

    def close(self) -> None:
        """Close the live gates, which nothing proves any more, and wake those that wait. No warning is due."""
        with self.changing():
            live = [gate for gate in self.gates() if gate.policy == "live"]
            events = self._update_gates(self.view, live, logging.INFO)
        self.notify(*events)

    def add_gate(self, name: str, make: Callable[[], Gate]) -> Gate:
        """Return the gate of this name, made and decided by the view at hand where it is new."""
        with self.writing:
            gate = self._gates.get(name)
            if gate is not None:
                return gate
            gate = self._gates[name] = make()
            self._keep(gate)
            for _, text in misspelt(gate):
                logger.warning("%s", text)
            self._openings.read_holds()
            state = self._first_state() if self.view is None else self._latch(self.view, polled=False)
            with self.changing():
                self.latch_state = state
                events = self._update(gate, self._decide(gate, self.view))
        self.notify(*events)
        return gate

    def wanted_configs(self) -> frozenset[str]:
        """Return the configs of brokers that requirements depend on: those of gates, and of what was evaluated."""
        of_gates = (name for gate in self.gates() for name in configs_in(gate.requirement))
        return self._evaluated_configs.union(of_gates)

    def lacks_configs(self, requirement: Requirement) -> bool:
        """Return whether the brokers of the view at hand were not asked for a config that a requirement depends on."""
        answering = () if self.view is None else self.view.answering
        return any(name not in broker.configs for name in configs_in(requirement) for broker in answering)

    def evaluate(self, requirement: Requirement) -> Decision:
        """Decide a requirement by the view at hand, without a gate: nothing is latched."""
        if (configs := configs_in(requirement)) and len(self._evaluated_configs) < MOST_CONFIGS:
            self._evaluated_configs |= frozenset(configs)
        if self.view is None:
            return Decision.unseen(requirement)
        return self._evaluator.evaluate(self.view, requirement)

    def pin(self) -> dict[str, Pin]:
        """Return the pins of all gates at one instant, by name."""
        with self._changed:
            return {gate.name: gate.pin() for gate in self.gates()}

    def gates(self) -> list[Gate]:
        """Return the gates, sorted by name. Takes no lock, for health checks and log lines."""
        held = (reference() for reference in self._gates.valuerefs())
        return sorted((gate for gate in held if gate is not None), key=lambda gate: gate.name)

    def _first_state(self) -> LatchState:
        """Return the latches that count before the first answer; the latch store is read for the first gate."""
        if self._durable is not None and not self._started:
            self.latch_state = self._durable.first_state()
        self._started = True
        return self.latch_state

    def _started_from(self) -> str | None:
        """Say which gates are open although no broker has answered yet."""
        names = [] if self.view is not None else [gate.name for gate in self.gates() if gate.open]
        if not names:
            return None
        where = f"by the latches of cluster {self.latch_state.cluster_id}"
        return f"no broker has answered since the start: {some(names)} open {where}"

    def _take_back(self, found: str) -> bool:
        """Note that another cluster answers than the one of which latches have opened gates; return whether it is."""
        names = [gate.name for gate in self.gates() if gate.open]
        expected = self.latch_state.cluster_id
        if not names or expected == found:
            return False
        self._taken_back = (
            f"cluster {found} answers, and not cluster {expected}, from whose latches these gates had started open: "
            f"{some(names)}; they start afresh"
        )
        logger.error("%s", self._taken_back)
        return True

    def _decide(self, gate: Gate, view: View | None) -> Decision:
        waits = self._openings.waits(gate, self.latch_state)
        return self._evaluator.decide(gate, view, self.latch_state, waits)

    def _keep(self, gate: Gate) -> None:
        """Keep a gate alive, unless so many are kept already that names seem to be made at run time."""
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

    def _latch(self, seen: View, elsewhere: Collection[LatchKey] = (), *, polled: bool) -> LatchState:
        """Advance the latches by a view, in the latch store first: a gate opens only after its latch is durable."""
        state = self._latch_states.get(seen.cluster_id, LatchState(cluster_id=seen.cluster_id))
        if new := [self._openings.opening(key, seen.epoch) for key in elsewhere if key not in state.gates]:
            state = advance(state, seen, new)

        def verdict_of(gate: Gate) -> GateVerdict:
            return self._evaluator.evaluate(seen, gate.requirement).verdict

        def added(state: LatchState) -> LatchState:
            return self._openings.find(seen, self.gates(), verdict_of, state, polled=polled)

        if self._durable is None:
            moved = join(advance(state, seen), added(state))
        else:
            moved = self._durable.advance(state, seen, added)
        self._latch_states[seen.cluster_id] = moved
        return moved

    def _update_gates(self, view: View | None, gates: Iterable[Gate], closing: int = logging.WARNING) -> list[Event]:
        """Decide these gates. The caller is within ``changing()``."""
        return [event for gate in gates for event in self._update(gate, self._decide(gate, view), closing)]

    def _update(self, gate: Gate, decision: Decision, closing: int = logging.WARNING) -> list[Event]:
        """Let a gate take a decision, and log it where it moves the gate: at level ``closing`` where it closes."""
        before = gate.decision
        gate.update(decision)
        if (before.verdict, before.held is None) == (decision.verdict, decision.held is None):
            return []
        level = logging.WARNING if decision.held else closing if before.open and not decision.open else logging.INFO
        logger.log(level, "gate %s: %s", gate.name, decision.summary)
        return [GateMoved(gate=gate.name, open=decision.open, decision=decision)]
