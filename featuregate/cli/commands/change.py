"""Change finalized levels: ``upgrade``, ``downgrade``, ``disable``, KIP-584's ``upgrade-all`` and ``downgrade-all``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.admin.client import UPDATE_SECONDS, Admin
from featuregate.admin.outcomes import Outcome
from featuregate.admin.updates import moving, upgrade
from featuregate.catalog import METADATA_VERSION, level_name, metadata_levels
from featuregate.cli.cluster import common_cause, configuration, discover_view, silence_log
from featuregate.cli.commands.describe import newer_than_known
from featuregate.cli.exit_codes import FAILED, OK, CommandError
from featuregate.cli.output import print_message, printable
from featuregate.cli.requested_updates import DEPRECATED, Wish, updates_of, warns
from featuregate.cli.update_report import advice, as_json, changes, failed, lines, not_sent
from featuregate.errors import DiscoveryError, FeatureGateError, UpdateRefused

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.updates import LeftOut, Update
    from featuregate.cli.requested_updates import Verb
    from featuregate.view.cluster_view import View

__all__ = ["Asked", "asked_for", "run", "wish_of"]

_VERBS: Final[dict[str, Verb]] = {
    "upgrade": "upgrade",
    "upgrade-all": "upgrade",
    "downgrade": "downgrade",
    "downgrade-all": "downgrade",
    "disable": "disable",
}
_OF_KIP_584: Final = frozenset({"upgrade-all", "downgrade-all"})


def run(args: argparse.Namespace) -> int:
    """Change, or with ``--dry-run`` ask whether it could be changed; then wait, where that is asked for."""
    silence_log()
    if args.broker_list == "bootstrap":
        raise CommandError("argument --broker-list: bootstrap tells nobody who the controller is", FAILED)
    admin = Admin(configuration(args), timeout=args.timeout or UPDATE_SECONDS)
    wish = wish_of(args, _VERBS[args.command])
    if args.output == "text" and warns(wish):
        print(DEPRECATED)
    asked = asked_for(args, wish)
    for line in not_sent(asked.left_out):
        print_message(line)
    if not args.dry_run and wish.verb != "upgrade" and not args.yes and asked.updates:
        _confirm(admin, asked)
    outcome = _outcome(admin, asked, dry_run=args.dry_run)
    _tell(args.command, wish.verb, outcome, asked, as_text=args.output == "text")
    if not outcome.done:
        return FAILED
    if args.wait is not None and not args.dry_run:
        _wait(admin, asked.updates, args.wait)
    return OK


def wish_of(args: argparse.Namespace, verb: Verb) -> Wish:
    """Read what is wished for from the options."""
    return Wish(
        verb=verb,
        features=tuple(getattr(args, "feature", None) or ()),
        metadata=getattr(args, "metadata", None),
        release_version=getattr(args, "release_version", None),
        unsafe=getattr(args, "unsafe", False),
        newer=True,
    )


class Asked(NamedTuple):
    """What a command asks of a cluster."""

    updates: tuple[Update, ...]
    """Empty where a release is asked for, and nothing moves."""
    left_out: tuple[LeftOut, ...] = ()
    view: View | None = None
    """The cluster before; None where features are named one by one, and nobody had to be asked."""


def asked_for(args: argparse.Namespace, wish: Wish, view: View | None = None) -> Asked:
    """Work out the updates of a wish. Of a release only those count that move the cluster, so that one is asked for.

    ``view`` is what is known of the cluster already.
    """
    if args.command == "upgrade-all" and wish.release_version is None:
        view = discover_view(args)
        updates = _as_far_as_all_can(view, wish)
    else:
        updates = updates_of(wish)
        if wish.release_version is None:
            return Asked(updates, view=view)
        view = discover_view(args) if view is None else view
    moves = moving(updates, view)
    return Asked(moves.updates, moves.left_out, view)


def _as_far_as_all_can(view: View, wish: Wish) -> tuple[Update, ...]:
    """Raise a cluster with KRaft to a ``metadata.version``, and one with ZooKeeper feature by feature: it has none."""
    if any(METADATA_VERSION in node.supported for node in view.answering):
        return updates_of(wish._replace(release_version=_highest(view)))
    highest = {name: supported.max for name, supported in view.supported.items() if supported.max > 0}
    if not highest:
        raise CommandError(f"the {view.role}s support no feature in common: there is nothing to upgrade to", FAILED)
    return upgrade(highest)


def _highest(view: View) -> str:
    """Name the highest ``metadata.version`` that every node which answered supports, and that we know."""
    supported = view.feature(METADATA_VERSION)
    known = [level for level in metadata_levels() if supported and supported.min <= level <= supported.max]
    if not known:
        raise CommandError("this cluster supports no metadata.version: there is nothing to upgrade to", FAILED)
    if newer := newer_than_known(view):
        print_message(
            f"levels of {', '.join(newer)} go higher here than this featuregate knows: it raises none beyond that"
        )
    return level_name(METADATA_VERSION, known[-1])


def _outcome(admin: Admin, asked: Asked, *, dry_run: bool) -> Outcome:
    if asked.view is not None and not asked.updates:
        return Outcome(cluster_id=asked.view.cluster_id, dry_run=dry_run, features=())
    try:
        return admin.dry_run(asked.updates) if dry_run else admin.update(asked.updates)
    except UpdateRefused as refused:
        outcome: Outcome = refused.outcome
        return outcome
    except DiscoveryError as error:
        raise common_cause(error) from error
    except KeyboardInterrupt:
        if not dry_run:
            print_message("interrupted: the update may or may not have been applied; see 'featuregate describe'")
        raise


def _tell(command: str, verb: Verb, outcome: Outcome, asked: Asked, *, as_text: bool) -> None:
    errors = {one.update.feature: one.error.message or one.error.name for one in outcome.failures if one.error}
    if not as_text:
        text = json.dumps(as_json(verb, outcome, before=asked.view, left_out=asked.left_out))
    elif asked.view is not None and command in _OF_KIP_584:
        text = "\n".join(changes(outcome, asked.view))
    else:
        text = "\n".join(lines(verb, asked.updates, errors, dry_run=outcome.dry_run))
    try:
        print(text, end="\n" if text else "", flush=True)
    except OSError as error:
        if not outcome.dry_run and outcome.done and not isinstance(error, BrokenPipeError):
            print_message("it was done, and only the output is lost")
        raise
    if outcome.read_back:
        print_message("the answer does not tell, so the brokers were asked: they show it")
    if errors:
        raise CommandError(" ".join([failed(asked.updates, errors), *advice(outcome)]), FAILED)


def _confirm(admin: Admin, asked: Asked) -> None:
    """Show what it would do, and ask; only where somebody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    print("\n".join(map(printable, str(admin.plan(asked.updates)).splitlines())), file=sys.stderr)
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # nobody types any more: what follows shall not stand behind the question
        print(file=sys.stderr)
    if answer.strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed", FAILED)


def _wait(admin: Admin, updates: tuple[Update, ...], seconds: float) -> None:
    if not updates:
        return
    try:
        admin.wait_for_levels({update.feature: update.level for update in updates}, seconds)
    except FeatureGateError as error:
        raise CommandError(f"it was done, but {error}", FAILED) from error
    except KeyboardInterrupt:
        print_message("interrupted: it was done, but not every broker shows it yet")
        raise
