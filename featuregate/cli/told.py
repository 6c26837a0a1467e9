"""What became of an update, told as kafka-features tells it, or as JSON.

Source: ``FeatureCommand.update`` of Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.cli.wishes import Verb
    from featuregate.outcomes import Outcome
    from featuregate.updates import Update

__all__ = ["as_json", "failed", "lines"]


def lines(verb: Verb, updates: tuple[Update, ...], errors: Mapping[str, str], *, dry_run: bool) -> list[str]:
    """Return a line for each feature, by name; ``errors`` are the words of those that were refused."""
    return [
        _line(verb, update, errors.get(update.feature), dry_run=dry_run)
        for update in sorted(updates, key=lambda update: update.feature)
    ]


def failed(updates: tuple[Update, ...], errors: Mapping[str, str]) -> str:
    """Return the last line, where anything was refused."""
    return f"{len(errors)} out of {len(updates)} operation(s) failed."


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
