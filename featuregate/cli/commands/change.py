"""Change finalized levels: the commands of kafka-features, and ``update``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from featuregate.admin.client import UPDATE_SECONDS, Admin, plan_of
from featuregate.admin.effects import MIN_INSYNC
from featuregate.admin.no_return import no_return
from featuregate.admin.outcomes import Outcome
from featuregate.admin.updates import Moves, Update, moving
from featuregate.cli.cluster import (
    common_cause,
    configuration_of_change,
    discover_controllers,
    discover_view,
    settings_of,
    silence_log,
    with_controllers,
)
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN, CommandError
from featuregate.cli.output import print_message
from featuregate.cli.updates import (
    Verb,
    advice,
    check_evidence_options,
    left_out_lines,
    lines,
    require_evidence,
    to_json,
    updates_of,
)
from featuregate.errors import ConfigError, DiscoveryError, FeatureGateError, UpdateRefused
from featuregate.loops import run_blocking
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.plans import Plan, UnreadLatch
    from featuregate.requirements import Requirement
    from featuregate.view.cluster_view import View


def run(args: argparse.Namespace) -> int:
    """Send the updates, or with ``--dry-run`` validate them; with ``--wait`` wait until every broker shows them."""
    silence_log()
    if args.broker_list == "bootstrap":
        raise CommandError("argument --broker-list: bootstrap does not name the controller", FAILED)
    check_evidence_options(args)
    properties = configuration_of_change(args)
    verb: Verb = args.command
    updates_of(args, verb)  # report wrong usage before any broker is asked
    view = discover_view(args)
    moves = moves_of(args, verb, view)
    for line in left_out_lines(moves.left_out):
        print_message(line)
    require_evidence(args, moves.updates, view)
    if moves.updates or moves.left_out:
        plan = replace(predict(args, view, moves), left_out=())  # these lines are printed
        for line in plan.consequences:
            print_message(printable(line))
        if moves.updates and not args.dry_run:
            _require_consent(args, verb, moves.updates, plan)
    # The name of a bootstrap server may lead to another cluster by now.
    admin = Admin(properties, timeout=args.timeout or UPDATE_SECONDS, cluster_id=view.cluster_id)
    nothing = Outcome(cluster_id=view.cluster_id, dry_run=args.dry_run, features=())
    outcome = _outcome(admin, moves.updates, dry_run=args.dry_run) if moves.updates else nothing
    _print_outcome(args, verb, outcome, view, moves)
    if not outcome.done:
        return FAILED
    if args.wait is not None and not args.dry_run:
        _wait_for_levels(admin, moves.updates, args.wait)
    return OK


def moves_of(args: argparse.Namespace, verb: Verb, view: View) -> Moves:
    """Return the updates to send to a cluster: of a release only those that change it."""
    updates = updates_of(args, verb)
    return Moves(updates, ()) if getattr(args, "release_version", None) is None else moving(updates, view)


def predict(
    args: argparse.Namespace,
    view: View,
    moves: Moves,
    latched: Mapping[str, Requirement | UnreadLatch] | None = None,
) -> Plan:
    """Predict an update, and ask the controllers that ``--controllers`` names.

    Raises `CommandError`: the controllers do not answer, or are those of another cluster. The text names the option,
    because the brokers have answered.
    """
    asked = None
    if args.controllers is not None:
        asked = settings_of(with_controllers(args, args.controllers)), _controllers(args, view)
    return run_blocking(
        lambda: plan_of(
            settings_of(args),
            view,
            moves.updates,
            controllers=asked,
            latched=latched,
            left_out=moves.left_out,
            accept_effects=args.accept_effect,
        )
    )


def _controllers(args: argparse.Namespace, brokers: View) -> View:
    option = "argument --controllers"
    try:
        view = discover_controllers(args, args.controllers)
    except ConfigError as error:
        raise CommandError(f"{option}: {error}") from error
    except FeatureGateError as error:
        raise CommandError(f"{option}: {error}", UNKNOWN) from error
    if view.cluster_id != brokers.cluster_id:
        problem = f"they belong to cluster {view.cluster_id}, and the brokers to {brokers.cluster_id}"
        raise CommandError(f"{option}: {problem}")
    return view


def _outcome(admin: Admin, updates: tuple[Update, ...], *, dry_run: bool) -> Outcome:
    try:
        return admin.dry_run(updates) if dry_run else admin.update(updates)
    except UpdateRefused as refused:
        outcome: Outcome = refused.outcome
        return outcome
    except DiscoveryError as error:
        raise common_cause(error) from error
    except KeyboardInterrupt:
        if not dry_run:
            print_message("interrupted: the update may or may not have been applied; see 'featuregate describe'")
        raise


def _print_outcome(args: argparse.Namespace, verb: Verb, outcome: Outcome, view: View, moves: Moves) -> None:
    errors = {one.update.feature: one.error.message or one.error.name for one in outcome.failures if one.error}
    if args.output == "json":
        text = json.dumps(to_json(verb, outcome, before=view, left_out=moves.left_out))
    else:
        text = "\n".join(lines(verb, moves.updates, errors, dry_run=outcome.dry_run))
    try:
        print(text, end="\n" if text else "", flush=True)
    except OSError as error:
        if not outcome.dry_run and outcome.done and not isinstance(error, BrokenPipeError):
            print_message("the update was applied; only the output is lost")
        raise
    if outcome.read_back:
        print_message("the answer does not say the outcome, so the brokers were asked: they report the new levels")
    if errors:
        count = f"{len(errors)} out of {len(moves.updates)} operation(s) failed."
        raise CommandError(" ".join([count, *advice(outcome)]), FAILED)


def _require_consent(args: argparse.Namespace, verb: Verb, updates: Iterable[Update], plan: Plan) -> None:
    """Ask for what cannot be undone, on a terminal and off it. Raises `CommandError` where nothing may be sent.

    What is asked for counts, and not what the plan lets through: the quorum raises ``kraft.version`` though the
    controller refuses the request, and the cluster may have changed since the plan.
    """
    if names := plan.falling or ((MIN_INSYNC,) if plan.unread_effects else ()):
        why = "falls" if plan.falling else "may fall"
        options = " ".join(f"--accept-effect {name}" for name in names)
        raise CommandError(f"nothing was changed, because {' and '.join(names)} {why}: {options} changes it", FAILED)
    levels = {one.update.feature: one.current or 0 for one in plan.updates}
    raised = [update for update in updates if update.upgrade_type == "upgrade"]
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
