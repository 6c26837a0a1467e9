"""``plan``: predict how the controller would answer an update, and which apps it would affect. Nothing is changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from featuregate.admin.plans import Plan, UnreadLatch, latched_in
from featuregate.cli.arguments.options import gate_requirements
from featuregate.cli.cluster import discover_view
from featuregate.cli.commands.change import moves_of, predict
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN, CommandError
from featuregate.cli.updates import (
    check_evidence_options,
    evidence_lines,
    evidence_of,
    evidence_to_json,
    left_out_to_json,
    updates_of,
)
from featuregate.errors import LatchStoreError
from featuregate.gating.latch_store import FileLatchStore, files_set_aside, latches_in, newest_pin, read_latch_file
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from featuregate.gating.latches import LatchState
    from featuregate.requirements import Requirement


_NO_LATCHES: Final = (
    "it has no latches of any cluster: name the folder that an app has as latch_store, or a checkpoint of Spark"
)
_SET_ASIDE: Final = "set aside because it is damaged: delete it once it is known which latches were in it"


def run(args: argparse.Namespace) -> int:
    """Print the plan; its judgement is the exit code."""
    try:
        updates_of(args, args.verb)  # report wrong usage before any broker is asked
    except CommandError as error:
        raise CommandError(error.problem) from error
    check_evidence_options(args)
    gates = gate_requirements(args)
    view = discover_view(args)
    latched = _latched(args.latches, view.cluster_id) | gates
    moves = moves_of(args, args.verb, view)
    made = predict(args, view, moves, latched)
    said = evidence_of(args, moves.updates, view)
    if args.output == "json":
        print(json.dumps(_to_json(made) | {"evidence": evidence_to_json(said)}))
    else:
        lines = [*map(printable, str(made).splitlines()), *(evidence_lines(said) if said else ())]
        print("\n".join(lines))
    evidence = said.verdict if said else "ok"
    if made.judgement == "refused" or made.affected or evidence == "block":
        return FAILED
    return UNKNOWN if made.judgement == "unknown" or evidence in {"unknown", "stale"} else OK


def _latched(places: list[Path], cluster_id: str | None) -> dict[str, Requirement | UnreadLatch]:
    """Read the latches of apps: a place is the folder of a FileLatchStore, one of its files, or a Spark checkpoint.

    A file that cannot be read becomes an `UnreadLatch`; the other files count.
    """
    found: dict[str, Requirement | UnreadLatch] = {}
    for place in places:
        if cluster_id is None:
            why = "the cluster has no id, so it is not known which of these latches belong to it"
            found[str(place)] = UnreadLatch(str(place), "", why)
            continue
        aside = files_set_aside(FileLatchStore(place).path(cluster_id))
        found |= {str(file): UnreadLatch(str(file), "", _SET_ASIDE) for file in aside}
        try:
            state = _latch_state(place, cluster_id)
        except LatchStoreError as error:
            found[error.place] = UnreadLatch(error.place, "", error.problem)
            continue
        if state is not None and state.cluster_id == cluster_id:
            found |= {f"{name} ({place})": requirement for name, requirement in latched_in(state).items()}
    return found


def _latch_state(place: Path, cluster_id: str) -> LatchState | None:
    """Read a file, the file of a cluster in a folder, or the newest pin of a checkpoint; None if they have no latch.

    Raises `CommandError` for a place that does not exist, `LatchStoreError` for a file that cannot be read.
    """
    try:
        return _in_folder(place, cluster_id) if place.is_dir() else read_latch_file(place)
    except FileNotFoundError as error:
        if error.filename == str(place):
            raise CommandError(f"argument --latches: {place}: {error.strerror}") from error
        return None
    except OSError as error:
        raise LatchStoreError(place, error.strerror or str(error)) from error


def _in_folder(folder: Path, cluster_id: str) -> LatchState | None:
    """Read the newest pin of a checkpoint, or the file of this cluster in the folder of a latch store."""
    if (pin := newest_pin(folder)) is not None:
        return next((state for state in latches_in(pin) if state.cluster_id == cluster_id), None)
    file = FileLatchStore(folder).path(cluster_id)
    if not file.exists() and not any(map(_is_latch_file, folder.glob("*.json"))):
        raise LatchStoreError(folder, _NO_LATCHES)
    state = read_latch_file(file)
    if state.cluster_id != cluster_id:
        raise LatchStoreError(file, f"belongs to cluster {state.cluster_id}, not to {cluster_id}")
    return state


def _is_latch_file(file: Path) -> bool:
    try:
        read_latch_file(file)
    except (LatchStoreError, OSError):
        return False
    return True


def _to_json(made: Plan) -> dict[str, Any]:
    return {
        "cluster_id": made.cluster_id,
        "epoch": made.epoch,
        "judgement": made.judgement,
        "all_or_nothing": made.all_or_nothing,
        "features": [
            {
                "feature": update.feature,
                "current": current,
                "level": update.level,
                "upgrade_type": update.upgrade_type,
                "judgement": judgement,
                "text": text,
            }
            for update, current, judgement, text in made.updates
        ],
        "left_out": [left_out_to_json(left) for left in made.left_out],
        "no_return": [lost._asdict() | {"text": str(lost)} for lost in made.no_return],
        "way_back": [back._asdict() | {"text": str(back)} for back in made.way_back],
        "effects": [change._asdict() | {"text": str(change)} for change in made.effects.changes],
        "unread_effects": list(made.unread_effects),
        "opens": list(made.opens),
        "closes": list(made.closes),
        "affected": [app._asdict() for app in made.affected],
        "unread": [unread._asdict() for unread in made.unread],
        "notes": [*made.notes, *made.in_log, *made.in_use],
    }
