"""Change finalized levels: the commands of kafka-features, and ``update``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.client import UPDATE_SECONDS, Admin
from featuregate.admin.effects import MIN_INSYNC
from featuregate.admin.no_return import no_return
from featuregate.admin.outcomes import Outcome
from featuregate.admin.updates import LeftOut, Update, moving
from featuregate.cli.cluster import common_cause, configuration_of_change, discover_view, silence_log
from featuregate.cli.evidence import check_evidence_options, require_evidence
from featuregate.cli.exit_codes import FAILED, OK, CommandError
from featuregate.cli.output import print_message
from featuregate.cli.prediction import predict
from featuregate.cli.updates.report import advice, failure_count, left_out_lines, lines, to_json
from featuregate.cli.updates.requested import DEPRECATION, UpdateOptions, Verb, updates_of
from featuregate.errors import DiscoveryError, FeatureGateError, UpdateRefused
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.plans import Plan
    from featuregate.view.cluster_view import View


_OF_OTHERS: Final[dict[Verb, tuple[str, ...]]] = {
    "upgrade": ("upgrade", "downgrade", "delete", "unsafe"),
    "downgrade": ("upgrade", "downgrade", "delete"),
    "disable": ("upgrade", "downgrade", "delete", "metadata", "release_version"),
    "update": ("feature", "metadata", "release_version"),
}
"""The options of ``plan`` that a verb does not have."""


class ChangeRequest(NamedTuple):
    """The updates that a command sends."""

    updates: tuple[Update, ...]
    """Empty for a release whose levels the cluster has already."""
    view: View
    """The cluster before the update."""
    left_out: tuple[LeftOut, ...] = ()


def run(args: argparse.Namespace) -> int:
    """Send the updates, or with ``--dry-run`` validate them; with ``--wait`` wait until every broker shows them."""
    silence_log()
    if args.broker_list == "bootstrap":
        raise CommandError("argument --broker-list: bootstrap does not name the controller", FAILED)
    check_evidence_options(args)
    admin = Admin(configuration_of_change(args), timeout=args.timeout or UPDATE_SECONDS)
    options = options_of(args, args.command)
    if args.output == "text" and options.deprecated:
        print(DEPRECATION)
    updates_of(options)  # report wrong usage before any broker is asked
    request = request_of(options, discover_view(args))
    for line in left_out_lines(request.left_out):
        print_message(line)
    require_evidence(args, request.updates, request.view)
    if (plan := _plan_of(args, request)) is not None:
        for line in plan.consequences:
            print_message(printable(line))
        if request.updates and not args.dry_run:
            _require_consent(args, options.verb, request, plan)
    outcome = _outcome(admin, request, dry_run=args.dry_run)
    _print_outcome(args, options.verb, outcome, request)
    if not outcome.done:
        return FAILED
    if args.wait is not None and not args.dry_run:
        _wait_for_levels(admin, request.updates, args.wait)
    return OK


def options_of(args: argparse.Namespace, verb: Verb) -> UpdateOptions:
    """Return the options of the command that name updates. Raises `CommandError` for options of another verb."""
    unsafe = getattr(args, "unsafe", False)
    changes: dict[Verb, list[str] | None] = {
        "upgrade": getattr(args, "upgrade", None),
        "downgrade": getattr(args, "downgrade", None),
        "disable": getattr(args, "delete", None),
    }
    named = tuple(
        UpdateOptions(verb=each, features=tuple(texts), unsafe=unsafe) for each, texts in changes.items() if texts
    )
    for name in _OF_OTHERS[verb]:
        if getattr(args, name, None):
            raise CommandError(f"{verb} does not take --{name.replace('_', '-')}")
    return UpdateOptions(
        verb=verb,
        parts=named,
        features=tuple(getattr(args, "feature", None) or ()),
        metadata=getattr(args, "metadata", None),
        release_version=getattr(args, "release_version", None),
        unsafe=unsafe,
    )


def request_of(options: UpdateOptions, view: View) -> ChangeRequest:
    """Return the updates to send to a cluster: of a release only those that change it."""
    updates = updates_of(options)
    if options.release_version is None:
        return ChangeRequest(updates, view)
    moves = moving(updates, view)
    return ChangeRequest(moves.updates, view, moves.left_out)


def _outcome(admin: Admin, request: ChangeRequest, *, dry_run: bool) -> Outcome:
    if not request.updates:
        return Outcome(cluster_id=request.view.cluster_id, dry_run=dry_run, features=())
    try:
        return admin.dry_run(request.updates) if dry_run else admin.update(request.updates)
    except UpdateRefused as refused:
        outcome: Outcome = refused.outcome
        return outcome
    except DiscoveryError as error:
        raise common_cause(error) from error
    except KeyboardInterrupt:
        if not dry_run:
            print_message("interrupted: the update may or may not have been applied; see 'featuregate describe'")
        raise


def _print_outcome(args: argparse.Namespace, verb: Verb, outcome: Outcome, request: ChangeRequest) -> None:
    errors = {one.update.feature: one.error.message or one.error.name for one in outcome.failures if one.error}
    if args.output == "json":
        text = json.dumps(to_json(verb, outcome, before=request.view, left_out=request.left_out))
    else:
        text = "\n".join(lines(verb, request.updates, errors, dry_run=outcome.dry_run))
    try:
        print(text, end="\n" if text else "", flush=True)
    except OSError as error:
        if not outcome.dry_run and outcome.done and not isinstance(error, BrokenPipeError):
            print_message("the update was applied; only the output is lost")
        raise
    if outcome.read_back:
        print_message("the answer does not say the outcome, so the brokers were asked: they report the new levels")
    if errors:
        raise CommandError(" ".join([failure_count(request.updates, errors), *advice(outcome)]), FAILED)


def _plan_of(args: argparse.Namespace, request: ChangeRequest) -> Plan | None:
    """Predict the request, without the lines on what is left out, which are printed; None where it names nothing."""
    if not (request.updates or request.left_out):
        return None
    return replace(predict(args, request.view, request), left_out=())


def _require_consent(args: argparse.Namespace, verb: Verb, request: ChangeRequest, plan: Plan) -> None:
    """Ask for what cannot be undone, on a terminal and off it. Raises `CommandError` where nothing may be sent.

    What is asked for counts, and not what the plan lets through: the quorum raises ``kraft.version`` though the
    controller refuses the request, and the cluster may have changed since the plan.
    """
    if names := plan.falling or ((MIN_INSYNC,) if plan.unread_effects else ()):
        why = "falls" if plan.falling else "may fall"
        options = " ".join(f"--accept-effect {name}" for name in names)
        raise CommandError(f"nothing was changed, because {' and '.join(names)} {why}: {options} changes it", FAILED)
    levels = {one.update.feature: one.current or 0 for one in plan.updates}
    raised = [update for update in request.updates if update.upgrade_type == "upgrade"]
    lost = ", ".join(f"{one.feature}={one.level}" for one in no_return(raised, levels))
    asks = sys.stdin is not None and sys.stdin.isatty() and not args.yes
    if lost and not asks and (plan.unready or plan.judgement == "refused"):
        said = "; ".join(dict.fromkeys(one.text for one in plan.updates if one.judgement == "refused"))
        unknown = f"whether the cluster is ready for it is unknown: {plan.unready}"
        why = f"the controller would refuse the request: {said}" if plan.judgement == "refused" else unknown
        raise CommandError(f"nothing was changed: {lost} cannot be undone, and {printable(why)}", FAILED)
    if lost and not (asks or args.yes):
        raise CommandError(f"nothing was changed: {lost} cannot be undone, so confirm it with --yes", FAILED)
    if asks and (lost or verb != "upgrade" or plan.judgement == "refused"):
        _ask(plan)


def _ask(plan: Plan) -> None:
    """Show the plan and ask. Raises `CommandError` unless the answer is yes."""
    print("\n".join(map(printable, str(plan).splitlines())), file=sys.stderr)
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # end of input: the next message starts on a line of its own
        print(file=sys.stderr)
    if answer.strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed", FAILED)


def _wait_for_levels(admin: Admin, updates: tuple[Update, ...], seconds: float) -> None:
    if not updates:
        return
    try:
        admin.wait_for_levels({update.feature: update.level for update in updates}, seconds)
    except FeatureGateError as error:
        raise CommandError(f"the update was applied, but {error}", FAILED) from error
    except KeyboardInterrupt:
        print_message("interrupted: the update was applied, but not every broker shows it yet")
        raise
