"""What one poll adds to the latches of a cluster: gates that open, and the burn-in of those that wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from featuregate.gating.burn_in import Count, count_poll, why_waiting
from featuregate.gating.decisions import HOLD
from featuregate.gating.holds import NO_HOLDS, Holds
from featuregate.gating.latches import BurnIn, LatchedGate, LatchKey, LatchState, Waits

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.gating.verdicts import GateVerdict
    from featuregate.view.cluster_view import View

_STEPS: Final = 100
"""A burn-in is written to the latch store in this many steps, and not at each poll."""


class Openings:
    """Finds the gates that open, and counts the burn-in of the others.

    Parameters
    ----------
    wall
        Seconds since the Unix epoch, for the times that people read.
    clock
        Seconds of a monotonic clock.
    longest_gap
        The most seconds between two polls that count for a burn-in.
    read_holds
        Returns the holds that count now.
    gates
        Returns the names of all gates.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float] = lambda: 0.0,
        longest_gap: float = 0.0,
        read_holds: Callable[[], Holds] = lambda: NO_HOLDS,
        gates: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._wall = wall
        self._clock = clock
        self._longest_gap = longest_gap
        self._read_holds = read_holds
        self._gates = gates
        self._elsewhere = self._widened = NO_HOLDS
        self.holds = NO_HOLDS
        """Those that counted for the last decisions."""
        self._counts: dict[LatchKey, Count] = {}
        self._cluster_id: str | None = None

    def read_holds(self, elsewhere: Holds | None = None) -> None:
        """Read the holds that count now; ``elsewhere`` are those that came with the view, None where none came."""
        self._elsewhere = self._elsewhere if elsewhere is None else elsewhere
        self.holds = self._read_holds() + self._elsewhere
        self._widened = self.holds.widened(self._gates())  # at once: another thread may open a gate meanwhile

    def find(
        self,
        seen: View,
        gates: Iterable[Gate],
        verdict_of: Callable[[Gate], GateVerdict],
        state: LatchState,
        *,
        polled: bool,
    ) -> LatchState:
        """Return what a view adds to the state of its cluster; only a view that was just polled counts for burn-ins.

        A hold keeps a gate from opening. It does not stop the burn-in, which counts what the cluster does.
        """
        if seen.cluster_id != self._cluster_id:
            self._counts, self._cluster_id = {}, seen.cluster_id
        opened, burn_ins = [], []
        for gate in gates:
            key = LatchKey(gate.name, str(gate.requirement))
            if gate.policy != "sticky" or key in state.gates:
                continue
            verdict = verdict_of(gate)
            kept = state.burn_ins.get(key)
            if gate.open_after and polled and (counted := self._count(key, kept, verdict)) is not None:
                if _is_worth_writing(kept, counted, gate.open_after):
                    burn_ins.append(counted)
                kept = counted
            waits = why_waiting(kept, gate.open_after, 0.0) is not None or self._widened.why(gate.name) is not None
            if verdict == "open" and not waits:
                opened.append(self.opening(key, seen.epoch))
        return LatchState(
            cluster_id=seen.cluster_id,
            gates={one.key: one for one in opened},
            burn_ins={one.key: one for one in burn_ins},
        )

    def opening(self, key: LatchKey, epoch: int) -> LatchedGate:
        """Return the latch of a gate that opens now."""
        return LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=self._wall(), epoch=epoch)

    def waits(self, gate: Gate, state: LatchState) -> Waits:
        """Say what a gate that has not latched waits for."""
        kept = state.burn_ins.get(LatchKey(gate.name, str(gate.requirement)))
        return Waits(burn_in=why_waiting(kept, gate.open_after, self._wall()), hold=self._widened.why(gate.name))

    def troubles(self, gates: Collection[Gate]) -> Iterator[str]:
        """Yield the holds that do not do what an operator expects of them."""
        for gate in gates:
            late = (reason for reason in gate.decision.reasons if reason.condition == HOLD and reason.verdict == "open")
            yield from (f"gate {gate.name}: a hold {reason.text}" for reason in late)
        yield from self.holds.misspelt([gate.name for gate in gates])

    def _count(self, key: LatchKey, kept: BurnIn | None, verdict: GateVerdict) -> BurnIn | None:
        counted, count = count_poll(
            kept,
            self._counts.pop(key, None),
            verdict,
            key=key,
            now=self._clock(),
            wall=self._wall(),
            most=self._longest_gap,
        )
        if count is not None:
            self._counts[key] = count
        return counted


def _is_worth_writing(kept: BurnIn | None, counted: BurnIn, open_after: float) -> bool:
    """Whether an attempt begins or ends, the burn-in is over, or a hundredth of it has passed."""
    same = kept is not None and (kept.attempt, kept.since) == (counted.attempt, counted.since)
    if not same or kept is None:
        return True
    return counted.seconds >= open_after > kept.seconds or counted.seconds - kept.seconds >= open_after / _STEPS
