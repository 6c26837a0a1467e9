"""``upgrade``, ``downgrade`` and ``disable`` of the drop-in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from featuregate.admin.client import Admin
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.kafka_features.client import (
    API_SECONDS,
    client_not_created,
    create,
    log,
    nothing_resolves,
    upstream_error,
)
from featuregate.cli.output import print_stderr
from featuregate.cli.updates.report import failure_count, lines
from featuregate.cli.updates.requested import DEPRECATION, UpdateOptions, updates_of
from featuregate.errors import FeatureGateError, UpdateRefused, UpdateUncertain

if TYPE_CHECKING:
    from featuregate.admin.outcomes import Outcome
    from featuregate.admin.updates import Update
    from featuregate.cli.kafka_features.argparse4j import Parsed


def change(parsed: Parsed) -> None:
    """Send or validate the updates of one command, and print what became of each. Raises `CommandError`."""
    values = parsed.values
    admin = create(partial(Admin, timeout=API_SECONDS), values)
    options = UpdateOptions(
        verb=parsed.command,  # type: ignore[arg-type]  # the three commands that change features
        features=tuple(values.get("feature", ())),
        metadata=values.get("metadata"),
        release_version=values.get("release_version"),
        unsafe=values.get("unsafe", False),
    )
    if options.deprecated:
        print(DEPRECATION)
    updates = updates_of(options)
    dry_run = values.get("dry_run", False)
    errors = update(admin, updates, dry_run=dry_run)
    print("\n".join(lines(options.verb, updates, errors, dry_run=dry_run)))
    if errors:
        raise CommandError(failure_count(updates, errors), FAILED)


def update(admin: Admin, updates: tuple[Update, ...], *, dry_run: bool) -> dict[str, str]:
    """Send or validate the updates; return the error messages of the controller by feature.

    kafka-features prints these also where the outcome is unknown. The levels that the brokers show go to standard
    error. Raises `CommandError`.
    """
    try:
        outcome = admin.dry_run(updates) if dry_run else admin.update(updates)
    except UpdateRefused as refused:
        return _errors_of(refused.outcome)
    except FeatureGateError as error:
        if isinstance(error, UpdateUncertain) and error.outcome is not None:
            log(error)
            return _errors_of(error.outcome)
        if nothing_resolves(error):
            raise client_not_created(error) from error
        log(error)
        return dict.fromkeys((update.feature for update in updates), upstream_error(error, "updateFeatures")[1])
    except KeyboardInterrupt:
        if not dry_run:
            print_stderr("kafka-features-py: interrupted: the update may or may not have been applied; see 'describe'")
        raise
    return _errors_of(outcome)


def _errors_of(outcome: Outcome) -> dict[str, str]:
    if outcome.read_back:
        log("the answer does not say the outcome, so the brokers were asked: they report the new levels")
    errors = {one.update.feature: one.error or one.answer for one in outcome.features}
    return {feature: error.message or error.name for feature, error in errors.items() if error is not None}
