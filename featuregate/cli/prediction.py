"""The plan of an update, from what brokers and controllers say now: ``plan`` prints it, and a change asks with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from featuregate.admin.configs import fetch_what_changes
from featuregate.admin.in_use import fetch_in_use
from featuregate.admin.plans import Plan, UnreadLatch, plan
from featuregate.admin.quorum import fetch_quorum
from featuregate.blocking import run_blocking
from featuregate.cli.cluster import discover_controllers, settings_of, with_controllers
from featuregate.cli.exit_codes import UNKNOWN, CommandError
from featuregate.errors import ConfigError, FeatureGateError

if TYPE_CHECKING:
    import argparse

    from featuregate.admin.registrations import Quorum
    from featuregate.cli.commands.change import ChangeRequest
    from featuregate.requirements import Requirement
    from featuregate.view.cluster_view import View


def predict(
    args: argparse.Namespace,
    view: View,
    request: ChangeRequest,
    latched: Mapping[str, Requirement | UnreadLatch] | None = None,
) -> Plan:
    """Predict an update of the cluster of a view, and ask the controllers that ``--controllers`` names.

    Raises
    ------
    CommandError
        The controllers do not answer, or are those of another cluster. The text names the option, because the brokers
        have answered.
    """
    controllers = None if args.controllers is None else _controllers(args, view)
    others = None if args.controllers is None else settings_of(with_controllers(args, args.controllers))
    configs = run_blocking(lambda: fetch_what_changes(request.updates, view, settings_of(args), others))
    brokers, controllers = (None, view) if view.role == "controller" else (view, controllers)
    in_use = run_blocking(lambda: fetch_in_use(settings_of(args), request.updates, view))
    made = plan(
        brokers,
        request.updates,
        controllers=controllers,
        quorum=_quorum(args),
        latched=latched,
        left_out=request.left_out,
        configs=configs,
        accept_effects=args.accept_effect,
    )
    return replace(made, in_use=in_use)


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


def _quorum(args: argparse.Namespace) -> Quorum | None:
    """Ask for the voters; with a bootstrap list only what needs no authentication is sent."""
    settings = settings_of(args)
    return None if settings.broker_list == "bootstrap" else run_blocking(lambda: fetch_quorum(settings))
