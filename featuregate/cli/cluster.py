"""From options to a cluster: the configuration that they make, and the view that comes of asking."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from featuregate.cli.arguments import no_bootstrap
from featuregate.cli.exit_codes import CommandError
from featuregate.config import KEYS, Settings
from featuregate.config.properties import read_properties
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.polling.discovery import DISCOVER_SECONDS, discover
from featuregate.sources.one_node import NoSuchNode, OneNodeSource

if TYPE_CHECKING:
    from featuregate.requirements import ExcludedApis
    from featuregate.view.cluster_view import View

__all__ = [
    "common_cause",
    "configuration",
    "discover_controllers",
    "discover_node",
    "discover_view",
    "excluded_apis",
    "has_cluster",
    "silence_log",
]

_SPARK_PREFIX = "kafka."
_WHERE = {spelling for key in KEYS if key.name.startswith("bootstrap.") for spelling in key.spellings}


def has_cluster(args: argparse.Namespace) -> bool:
    """Say whether the options name a cluster, for a command that can do without one."""
    return bool(args.bootstrap_server or args.bootstrap_controller or args.command_config)


def configuration(args: argparse.Namespace) -> dict[str, str]:
    """Return the properties of ``--command-config``, with what the other options say over them.

    A bootstrap option takes the place of whatever the file says about where the cluster is. Raises `CommandError`
    where nobody says it, `ConfigError` where the file cannot be read.
    """
    properties = read_properties(Path(args.command_config)) if args.command_config else {}
    # In Spark's spelling only prefixed names count, so that the option must be spelled like the file.
    prefix = _SPARK_PREFIX if any(name.startswith(_SPARK_PREFIX) for name in properties) else ""
    given = {"bootstrap.servers": args.bootstrap_server, "bootstrap.controllers": args.bootstrap_controller}
    said = {prefix + name: value for name, value in given.items() if value is not None}
    if said:
        properties = {name: text for name, text in properties.items() if name.removeprefix(prefix) not in _WHERE}
    elif not any(name.removeprefix(prefix) in _WHERE for name in properties):
        raise no_bootstrap(args.command)
    return properties | said


def excluded_apis(args: argparse.Namespace) -> ExcludedApis:
    """Return the API versions that the configuration excludes. Raises as `configuration` and `Settings.parse` do."""
    return Settings.parse(configuration(args), broker_list=args.broker_list).exclude_apis


def discover_view(args: argparse.Namespace) -> View:
    """Ask every broker once.

    Raises
    ------
    ConfigError
        The configuration cannot be used, or leads to the wrong kind of node.
    DiscoveryError
        Nobody answered.
    """
    silence_log()
    try:
        return discover(configuration(args), timeout=args.timeout or DISCOVER_SECONDS, broker_list=args.broker_list)
    except DiscoveryError as error:
        raise common_cause(error) from error


def common_cause(error: DiscoveryError) -> DiscoveryError | ConfigError:
    """Say once what every address has in common: that it is the wrong kind of node."""
    wrong = [cause for _, cause in error.causes if isinstance(cause, ConfigError)]
    return wrong[0] if wrong and len(wrong) == len(error.causes) else error


def discover_controllers(args: argparse.Namespace, addresses: str) -> View:
    """Ask every controller once, beside the brokers: with the same security, at other addresses.

    Raises as `discover_view`.
    """
    there = argparse.Namespace(**{**vars(args), "bootstrap_server": None, "bootstrap_controller": addresses})
    return discover_view(there)


def discover_node(args: argparse.Namespace, node_id: int) -> View:
    """Ask the node of this id and no other; the view holds its answer alone.

    Brokers that can check it are told whom we expect (KIP-1242), so that none answers in another's place.

    Raises
    ------
    CommandError
        The cluster has no such node.
    FeatureGateError
        Nobody says where the node is, or it does not answer.
    """
    silence_log()
    settings = Settings.parse(
        configuration(args), broker_list=args.broker_list, total_timeout=args.timeout or DISCOVER_SECONDS
    )
    if settings.broker_list == "bootstrap":
        raise CommandError("argument --node-id: not allowed with --broker-list bootstrap, where nobody tells ids")
    source = OneNodeSource(settings, node_id)
    try:
        return asyncio.run(source.fetch()).merge()
    except NoSuchNode as error:
        raise CommandError(str(error)) from error


def silence_log() -> None:
    """Keep the log off standard error, where ``--verbose`` has not put it: what matters is printed."""
    logging.getLogger("featuregate").addHandler(logging.NullHandler())
