"""``hold list``: the gates that an app with this environment would hold, and those for which that comes too late."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from featuregate.cli.exit_codes import OK
from featuregate.cli.output import aligned
from featuregate.gating.checkpoint_latches import latches_in, newest_pin
from featuregate.gating.holds import ALL_GATES
from featuregate.gating.latch_store import read_latch_file
from featuregate.polling.hold_sources import HOLD, HOLD_FILE, HoldSources
from featuregate.printable import printable, some

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from featuregate.gating.latches import LatchState


def run(args: argparse.Namespace) -> int:
    """Print a line for each hold."""
    holds = HoldSources(os.environ, args.file).read().texts()
    latched = _latched(args.latches)
    rows = [[gate, f"held by {text}", _too_late(gate, latched)] for gate, text in holds.items()]
    nothing = f"no gate is held: {HOLD} and {HOLD_FILE} name none, nor does --file"
    print("\n".join(map(printable, aligned(rows))) if rows else nothing)
    return OK


def _latched(folder: Path | None) -> dict[str, list[str]]:
    """Return the clusters of a latch store, or of a Spark query, in which each gate has latched, by its name."""
    found: dict[str, list[str]] = {}
    for state in _states(folder) if folder else ():
        for gate in {key.gate for key in state.gates}:
            found.setdefault(gate, []).append(str(state.cluster_id))
    return found


def _states(folder: Path) -> list[LatchState]:
    pin = newest_pin(folder) if folder.is_dir() else None
    return [read_latch_file(file) for file in sorted(folder.glob("*.json"))] if pin is None else latches_in(pin)


def _too_late(gate: str, latched: dict[str, list[str]]) -> str:
    if gate == ALL_GATES:
        return f"too late for {some(sorted(latched))}, which have latched" if latched else ""
    return f"too late: latched in cluster {some(latched[gate])}" if gate in latched else ""
