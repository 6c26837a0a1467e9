"""Change finalized levels: ``upgrade``, ``downgrade``, ``disable``, KIP-584's ``upgrade-all`` and ``downgrade-all``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from featuregate.admin import UPDATE_SECONDS, Admin
from featuregate.catalog import METADATA_VERSION, level_name, metadata_levels
from featuregate.cli.asking import configuration, look, plainly, quiet
from featuregate.cli.describe import newer_than_known
from featuregate.cli.exits import CLOSED, FINE, CommandError
from featuregate.cli.output import complain, printable
from featuregate.cli.told import advice, as_json, failed, lines
from featuregate.cli.wishes import DEPRECATED, Wish, updates_of, warns
from featuregate.errors import DiscoveryError, FeatureGateError, UpdateRefused

if TYPE_CHECKING:
    import argparse

    from featuregate.cli.wishes import Verb
    from featuregate.outcomes import Outcome
    from featuregate.updates import Update

__all__ = ["run", "wish_of"]

_VERBS: Final[dict[str, Verb]] = {
    "upgrade": "upgrade",
    "upgrade-all": "upgrade",
    "downgrade": "downgrade",
    "downgrade-all": "downgrade",
    "disable": "disable",
}


def run(args: argparse.Namespace) -> int:
    """Change, or with ``--dry-run`` ask whether it could be changed; then wait, where that is asked for."""
    quiet()
    if args.roster == "listed":
        raise CommandError("argument --roster: listed tells nobody who the controller is", CLOSED)
    admin = Admin(configuration(args), timeout=args.timeout or UPDATE_SECONDS)
    wish = wish_of(args, _VERBS[args.command])
    if args.output == "text" and warns(wish):
        print(DEPRECATED)
    updates = updates_of(wish)
    if not args.dry_run and wish.verb != "upgrade" and not args.yes:
        _confirm(admin, updates)
    outcome = _outcome(admin, updates, dry_run=args.dry_run)
    _tell(wish.verb, outcome, updates, as_text=args.output == "text")
    if not outcome.done:
        return CLOSED
    if args.wait is not None and not args.dry_run:
        _wait(admin, updates, args.wait)
    return FINE


def wish_of(args: argparse.Namespace, verb: Verb) -> Wish:
    """Read what is wished for from the options; ``upgrade-all`` goes as far as all brokers can."""
    release = getattr(args, "release_version", None)
    if args.command == "upgrade-all" and release is None:
        release = _highest(args)
    return Wish(
        verb=verb,
        features=tuple(getattr(args, "feature", None) or ()),
        metadata=getattr(args, "metadata", None),
        release_version=release,
        unsafe=getattr(args, "unsafe", False),
        newer=True,
    )


def _highest(args: argparse.Namespace) -> str:
    """Name the highest ``metadata.version`` that every node which answered supports, and that we know."""
    view = look(args)
    supported = view.feature(METADATA_VERSION)
    known = [level for level in metadata_levels() if supported and supported.min <= level <= supported.max]
    if not known:
        raise CommandError("this cluster supports no metadata.version: there is nothing to upgrade to", CLOSED)
    if newer := newer_than_known(view):
        complain(f"levels of {', '.join(newer)} go higher here than this featuregate knows: it raises none beyond that")
    return level_name(METADATA_VERSION, known[-1])


def _outcome(admin: Admin, updates: tuple[Update, ...], *, dry_run: bool) -> Outcome:
    try:
        return admin.dry_run(updates) if dry_run else admin.update(updates)
    except UpdateRefused as refused:
        outcome: Outcome = refused.outcome
        return outcome
    except DiscoveryError as error:
        raise plainly(error) from error
    except KeyboardInterrupt:
        if not dry_run:
            complain("interrupted: the update may or may not have been applied; see 'featuregate describe'")
        raise


def _tell(verb: Verb, outcome: Outcome, updates: tuple[Update, ...], *, as_text: bool) -> None:
    errors = {one.update.feature: one.error.message or one.error.name for one in outcome.failures if one.error}
    text = (
        "\n".join(lines(verb, updates, errors, dry_run=outcome.dry_run))
        if as_text
        else json.dumps(as_json(verb, outcome))
    )
    try:
        print(text, flush=True)
    except OSError as error:
        if not outcome.dry_run and outcome.done and not isinstance(error, BrokenPipeError):
            complain("it was done, and only the output is lost")
        raise
    if outcome.read_back:
        complain("no answer settled it, so the brokers were asked: they show it")
    if errors:
        raise CommandError(" ".join([failed(updates, errors), *advice(outcome)]), CLOSED)


def _confirm(admin: Admin, updates: tuple[Update, ...]) -> None:
    """Show what it would do, and ask; only where somebody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    print("\n".join(map(printable, str(admin.plan(updates)).splitlines())), file=sys.stderr)
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # nobody types any more: what follows shall not stand behind the question
        print(file=sys.stderr)
    if answer.strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed", CLOSED)


def _wait(admin: Admin, updates: tuple[Update, ...], seconds: float) -> None:
    try:
        admin.until_shown({update.feature: update.level for update in updates}, seconds)
    except FeatureGateError as error:
        raise CommandError(f"it was done, but {error}", CLOSED) from error
    except KeyboardInterrupt:
        complain("interrupted: it was done, but not every broker shows it yet")
        raise
