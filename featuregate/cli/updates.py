"""From options to updates, and from an outcome to text or JSON: with the errors, order and words of kafka-features.

Source: ``FeatureCommand.handleUpgradeOrDowngrade``, ``handleDisable``, ``parseNameAndLevel`` and ``update`` of Apache
Kafka 4.3.1 (``org.apache.kafka.tools``). At the end is what another package finds about an update in the evidence that
it has (``--evidence``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from featuregate.admin.updates import LeftOut, Update, UpgradeType, checked
from featuregate.catalog import (
    METADATA_VERSION,
    close_to,
    features,
    level_named,
    metadata_level_named,
    metadata_levels,
    release_levels,
)
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.output import print_message
from featuregate.errors import InvalidUpdate
from featuregate.patterns import pattern
from featuregate.printable import printable
from featuregate.version import how_to_install

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.outcomes import Outcome
    from featuregate.cli.plugin import EvidenceVerdict
    from featuregate.view.cluster_view import View

Verb = Literal["upgrade", "downgrade", "disable", "update"]
"""``update`` has changes of the three others, in one request."""

_OF_OTHERS: Final[dict[Verb, tuple[str, ...]]] = {
    "upgrade": ("upgrade", "downgrade", "delete", "unsafe"),
    "downgrade": ("upgrade", "downgrade", "delete"),
    "disable": ("upgrade", "downgrade", "delete", "release_version"),
    "update": ("feature", "release_version"),
}
"""The options of ``plan`` that a verb does not have."""
_UNAUTHORIZED: Final = "CLUSTER_AUTHORIZATION_FAILED"
_SHORT: Final = pattern(r"[+-]?\d{1,9}")
_SHORT_RANGE: Final = range(-(2**15), 2**15)
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that Java's ``String.trim`` removes."""


def updates_of(args: argparse.Namespace, verb: Verb) -> tuple[Update, ...]:
    """Return the updates that the options name; of a release all that it has.

    Raises `CommandError`: the options are not valid, or are those of another verb.
    """
    for name in _OF_OTHERS[verb]:
        if getattr(args, name, None):
            raise CommandError(f"{verb} does not take --{name.replace('_', '-')}")
    try:
        updates = tuple(_updates(args, verb))
        if not updates:
            raise CommandError(f"You must specify at least one feature to {verb}", FAILED)
        return checked(updates)
    except InvalidUpdate as error:
        raise CommandError(str(error), FAILED) from error


def _updates(args: argparse.Namespace, verb: Verb) -> Iterator[Update]:
    lowers: UpgradeType = "unsafe_downgrade" if getattr(args, "unsafe", False) else "safe_downgrade"
    if (release := getattr(args, "release_version", None)) is not None:
        if args.feature:
            raise CommandError("Can not specify `release-version` with other feature flags.", FAILED)
        for name, level in _levels_at(release).items():
            # Nothing is upgraded to 0; a downgrade sends 0 too.
            if level > 0 or verb != "upgrade":
                yield Update(name, level, "upgrade" if verb == "upgrade" else lowers)
        return
    parts: dict[Verb, list[str]] = (
        {"upgrade": args.upgrade, "downgrade": args.downgrade, "disable": args.delete}
        if verb == "update"
        else {verb: args.feature}
    )
    for each, texts in parts.items():
        for text in texts:
            name, level = (text, 0) if each == "disable" else name_and_level(text)
            yield Update(name, level, "upgrade" if each == "upgrade" else lowers)


def _levels_at(version: str) -> Mapping[str, int]:
    """Return the level of each feature at a release or a ``metadata.version``, with ``metadata.version`` first."""
    if (found := level_named(version)) is None:
        oldest, *_, newest = metadata_levels().values()
        known = f"releases {oldest.release} to {newest.release} are known, and levels by name, such as {newest.name}"
        raise CommandError(f"Unknown release or metadata.version '{version}': {known}", FAILED)
    return release_levels(found.level)


def name_and_level(text: str) -> tuple[str, int]:
    """Parse ``name=level``; the level follows the first equals sign. Raises `CommandError`.

    Unlike kafka-features it takes the name of a ``metadata.version`` as its level.
    """
    name, equals, number = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.", FAILED)
    name, number = name.strip(_BLANK), number.strip(_BLANK)
    if name == METADATA_VERSION and "." in number:
        try:
            return name, metadata_level_named(number).level
        except LookupError as error:
            raise CommandError(f"Can't parse feature=level string {text}: {error.args[0]}", FAILED) from error
    if not _SHORT.fullmatch(number) or int(number) not in _SHORT_RANGE:
        raise CommandError(f"Can't parse feature=level string {text}: unable to parse {number} as a short.", FAILED)
    return name, int(number)


def lines(verb: Verb, updates: tuple[Update, ...], errors: Mapping[str, str], *, dry_run: bool) -> list[str]:
    """Return a line for each feature, by name; ``errors`` holds the messages of the refused ones."""
    return [
        _line(verb, update, errors.get(update.feature), dry_run=dry_run)
        for update in sorted(updates, key=lambda update: update.feature)
    ]


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


_SAFE: Final = frozenset({"ok", "warn"})
_DESPITE: Final = {None: _SAFE, "unknown": _SAFE | {"unknown", "stale"}, "block": _SAFE | {"unknown", "stale", "block"}}
"""The verdicts with which an update is sent, by ``--despite-evidence``."""


def check_evidence_options(args: argparse.Namespace) -> None:
    """Refuse one option without the other, before any broker is asked."""
    if (args.evidence is None) != (args.evidence_cluster is None):
        raise CommandError("--evidence and --evidence-cluster belong together: the tables may be of several clusters")
    if args.without_usage_reports and args.evidence is None:
        raise CommandError("--without-usage-reports is about the tables of --evidence")


def evidence_of(args: argparse.Namespace, updates: Sequence[Update], view: View) -> EvidenceVerdict | None:
    """Return what the evidence says of updates; None without ``--evidence``, and where there is nothing to update.

    Raises `CommandError`: no installed package reads evidence, the evidence cannot be read, or it is of another
    cluster.
    """
    if args.evidence is None or not updates:
        return None
    from featuregate.cli.plugin_loader import load_check  # noqa: PLC0415 - only --evidence needs it

    if (check := load_check()) is None:
        raise CommandError(f"--evidence needs the fleet pipeline: {how_to_install('fleet')}")
    expected = not args.without_usage_reports
    return check.check_updates(
        args.evidence, args.evidence_cluster, updates, cluster_id=view.cluster_id, reports_expected=expected
    )


def require_evidence(args: argparse.Namespace, updates: Sequence[Update], view: View) -> None:
    """Refuse updates that the evidence does not call safe, unless ``--despite-evidence`` overrules it.

    Raises `CommandError`: the evidence blocks them, or is missing or too old; nothing was sent.
    """
    said = evidence_of(args, updates, view)
    if said is None:
        return
    for line in evidence_lines(said):
        print_message(line)
    if said.verdict not in _DESPITE[args.despite_evidence]:
        overruled = "block" if said.verdict == "block" else "unknown"
        problem = f"nothing was changed, because of the evidence; --despite-evidence {overruled} changes it"
        raise CommandError(problem, FAILED)


def evidence_lines(said: EvidenceVerdict) -> list[str]:
    """Return the verdict, a line for each finding and for each gate that opens, and the order of a downgrade."""
    findings = (
        f"{found.verdict}: {found.subject}: {found.why}{' ' if found.do else ''}{found.do}" for found in said.findings
    )
    opens = (f"opens: gate {gate.gate!r} of app {gate.app!r}: {gate.text}" for gate in said.opens)
    order = (f"{number}. {step}" for number, step in enumerate(said.order, 1))
    return [f"The evidence says {said.verdict}.", *map(printable, (*findings, *opens, *order))]


def evidence_to_json(said: EvidenceVerdict | None) -> dict[str, Any] | None:
    """Return what ``--output json`` has of the evidence."""
    return said and {
        "verdict": said.verdict,
        "findings": [found._asdict() for found in said.findings],
        "opens": [gate._asdict() for gate in said.opens],
        "order": list(said.order),
    }
