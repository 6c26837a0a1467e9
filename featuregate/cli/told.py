"""What became of an update, told as kafka-features tells it, or as JSON.

Source: ``FeatureCommand.update`` of Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import close_to, features
from featuregate.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from featuregate.cli.wishes import Verb
    from featuregate.outcomes import Outcome
    from featuregate.updates import Update

__all__ = ["advice", "as_json", "failed", "lines"]

_UNAUTHORIZED: Final = "CLUSTER_AUTHORIZATION_FAILED"


def lines(verb: Verb, updates: tuple[Update, ...], errors: Mapping[str, str], *, dry_run: bool) -> list[str]:
    """Return a line for each feature, by name; ``errors`` are the words of those that were refused."""
    return [
        _line(verb, update, errors.get(update.feature), dry_run=dry_run)
        for update in sorted(updates, key=lambda update: update.feature)
    ]


def failed(updates: tuple[Update, ...], errors: Mapping[str, str]) -> str:
    """Return the last line, where anything was refused."""
    return f"{len(errors)} out of {len(updates)} operation(s) failed."


def advice(outcome: Outcome) -> Iterator[str]:
    """Say what to do about a refusal, where the controller's words do not: ours on top, so not for the drop-in."""
    if any(one.error is not None and one.error.name == _UNAUTHORIZED for one in outcome.failures):
        yield "A dry run and a change need ALTER on the cluster."
    for one in outcome.failures:
        name = one.update.feature
        if name not in features() and (close := close_to(name, features())):
            yield f"Did you mean {' or '.join(close)} by {name}?"


def as_json(verb: Verb, outcome: Outcome) -> dict[str, Any]:
    """Return the whole outcome as plain values (docs/reference/command-line.md)."""
    return {
        "command": verb,
        "cluster_id": outcome.cluster_id,
        "dry_run": outcome.dry_run,
        "done": outcome.done,
        "read_back": outcome.read_back,
        "features": [
            {
                "feature": one.update.feature,
                "level": one.update.level,
                "upgrade_type": one.update.upgrade_type,
                "done": one.done,
                "error": one.error and {"code": one.error.code, "name": one.error.name, "message": one.error.message},
            }
            for one in outcome.features
        ],
    }


def _line(verb: Verb, update: Update, error: str | None, *, dry_run: bool) -> str:
    name, level = printable(update.feature), update.level
    if error is None:
        done = "disabled." if verb == "disable" else f"{verb}d to {level}."
        return f"{name} {'can be' if dry_run else 'was'} {done}"
    what = f"disable {name}" if verb == "disable" else f"{verb} {name} to {level}"
    return f"{'Can not' if dry_run else 'Could not'} {what}. {printable(error)}"
