"""The outcome of an update, printed as kafka-features prints it, or as JSON.

Source: ``FeatureCommand.update`` of Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import close_to, features
from featuregate.printable import printable

if TYPE_CHECKING:
    from featuregate.admin.outcomes import Outcome
    from featuregate.admin.updates import LeftOut, Update
    from featuregate.cli.updates.requested import Verb
    from featuregate.view.cluster_view import View

_UNAUTHORIZED: Final = "CLUSTER_AUTHORIZATION_FAILED"


def lines(verb: Verb, updates: tuple[Update, ...], errors: Mapping[str, str], *, dry_run: bool) -> list[str]:
    """Return a line for each feature, by name; ``errors`` holds the messages of the refused ones."""
    return [
        _line(verb, update, errors.get(update.feature), dry_run=dry_run)
        for update in sorted(updates, key=lambda update: update.feature)
    ]


def failure_count(updates: tuple[Update, ...], errors: Mapping[str, str]) -> str:
    """Return the last line, for an update with errors."""
    return f"{len(errors)} out of {len(updates)} operation(s) failed."


def advice(outcome: Outcome) -> Iterator[str]:
    """Yield advice on refused features where the controller gives none. kafka-features has no such lines."""
    if any(one.error is not None and one.error.name == _UNAUTHORIZED for one in outcome.failures):
        yield "A dry run and a change need ALTER on the cluster, which this user does not have."
    for one in outcome.failures:
        name = one.update.feature
        if name not in features() and (close := close_to(name, features())):
            yield f"Did you mean {' or '.join(close)} by {name}?"


def left_out_lines(left_out: Iterable[LeftOut]) -> Iterator[str]:
    """Yield which features of a release are left out, and why; one line for all that have their level already."""
    left = tuple(left_out)
    if already := [f"{each.update.feature} {each.update.level}" for each in left if each.already and each.update.level]:
        yield f"not sent, because the cluster has these levels already: {', '.join(already)}"
    for each in left:
        if not each.already:
            yield f"not sent: {each.update.feature} {each.why}"


def to_json(verb: Verb, outcome: Outcome, *, before: View, left_out: Iterable[LeftOut]) -> dict[str, Any]:
    """Return the whole outcome as plain values (docs/reference/command-line.md).

    ``before`` is the view before the update.
    """
    return {
        "command": verb,
        "cluster_id": outcome.cluster_id,
        "dry_run": outcome.dry_run,
        "done": outcome.done,
        "read_back": outcome.read_back,
        "features": [
            {
                "feature": one.update.feature,
                "before": before.level(one.update.feature),
                "before_min": before.finalized_min.get(one.update.feature),
                "level": one.update.level,
                "change": _change(before.level(one.update.feature), one.update.level),
                "upgrade_type": one.update.upgrade_type,
                "done": one.done,
                "error": one.error and {"code": one.error.code, "name": one.error.name, "message": one.error.message},
            }
            for one in outcome.features
        ],
        "left_out": [left_out_to_json(each) for each in left_out],
    }


def left_out_to_json(left: LeftOut) -> dict[str, Any]:
    """Return an update that is left out as plain values."""
    return {"feature": left.update.feature, "current": left.current, "level": left.update.level, "why": left.why}


def _change(before: int | None, after: int) -> str:
    """Return KIP-584's name of a change; an unknown level counts as 0."""
    if not after:
        return "delete"
    return "add" if not before else "upgrade" if after >= before else "downgrade"


def _line(verb: Verb, update: Update, error: str | None, *, dry_run: bool) -> str:
    if verb == "update":
        lowers: Verb = "downgrade" if update.level else "disable"
        verb = "upgrade" if update.upgrade_type == "upgrade" else lowers
    name, level = printable(update.feature), update.level
    if error is None:
        done = "disabled." if verb == "disable" else f"{verb}d to {level}."
        return f"{name} {'can be' if dry_run else 'was'} {done}"
    action = f"disable {name}" if verb == "disable" else f"{verb} {name} to {level}"
    return f"{'Can not' if dry_run else 'Could not'} {action}. {printable(error)}"
