"""From the options to the configuration of a cluster, and to its view."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from featuregate.cli.exit_codes import FAILED, CommandError, usage_error
from featuregate.cli.output import print_message
from featuregate.config import Settings
from featuregate.config.addresses import has_all_ports
from featuregate.config.keys import plain_name
from featuregate.config.properties import BOOTSTRAP, Properties, overridden
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.logs import silence
from featuregate.polling.discovery import DISCOVER_SECONDS, discover

if TYPE_CHECKING:
    from featuregate.excluded_apis import ExcludedApis
    from featuregate.view.cluster_view import View

BOOTSTRAP_VARIABLE = "FEATUREGATE_BOOTSTRAP_SERVER"
"""The environment variable with the brokers to start from, where no option and no file names any."""
_WHERE = ("bootstrap_server", "bootstrap_controller", "command_config")


def has_cluster(args: argparse.Namespace) -> bool:
    """Return whether the options name a cluster, for a command that works without one too."""
    return any(getattr(args, option) for option in _WHERE)


def doctor_advice(args: argparse.Namespace) -> str:
    """Return what to run where the cluster does not answer, with the options that name it, but not their values."""
    given = [f" --{option.replace('_', '-')} ..." for option in _WHERE if getattr(args, option)]
    return f"'featuregate doctor{''.join(given)}' tells more"


def configuration(args: argparse.Namespace) -> dict[str, str]:
    """Return the properties of ``--command-config``, overridden by the other options.

    A bootstrap option replaces every bootstrap property of the file. Where neither names a cluster,
    ``FEATUREGATE_BOOTSTRAP_SERVER`` does. The file is read once for a command: a pipe has nothing more to read, and a
    file may be replaced between the plan and the change.

    Raises `CommandError`: neither the options nor the file name a cluster; `ConfigError`: the file cannot be read.
    """
    properties: dict[str, str] = getattr(args, "properties_read", {})
    if args.command_config is not None and not hasattr(args, "properties_read"):
        from featuregate.config.properties_file import read_properties  # noqa: PLC0415 - most commands are given none

        properties = args.properties_read = read_properties(args.command_config)
    options = {"bootstrap.servers": args.bootstrap_server, "bootstrap.controllers": args.bootstrap_controller}
    given = {name: value for name, value in options.items() if value is not None}
    if not given and BOOTSTRAP.isdisjoint(map(plain_name, properties)):
        given = {"bootstrap.servers": _bootstrap_of_environment(args.command)}
    return overridden(properties, given)


def _bootstrap_of_environment(command: str) -> str:
    if (servers := os.environ.get(BOOTSTRAP_VARIABLE, "")).strip():
        return servers
    problem = "You must specify either --bootstrap-controller or --bootstrap-server"
    raise usage_error(f"{problem} (or set {BOOTSTRAP_VARIABLE})", command)


def configuration_of_change(args: argparse.Namespace) -> dict[str, str]:
    """Return `configuration` for a command that changes a cluster: port 9092 is not taken where none is given.

    Raises as `configuration`, and `CommandError` for an address without a port.
    """
    properties = configuration(args)
    places = [text for name, text in properties.items() if plain_name(name) in BOOTSTRAP]
    if not all(has_all_ports(text) for text in (*places, getattr(args, "controllers", None) or "")):
        problem = "an address has no port, and at port 9092 may be another cluster: write host:port"
        raise CommandError(f"nothing was changed: {problem}", FAILED)
    return properties


def settings_of(args: argparse.Namespace, properties: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a command that asks every broker once. Raises as `configuration`."""
    seconds = args.timeout or DISCOVER_SECONDS
    return Settings.parse(properties or configuration(args), broker_list=args.broker_list, total_timeout=seconds)


def excluded_apis(args: argparse.Namespace) -> ExcludedApis:
    """Return the API versions that the configuration excludes. Raises as `configuration`."""
    return settings_of(args).exclude_apis


def discover_view(args: argparse.Namespace, configs: Collection[str] = ()) -> View:
    """Ask every broker once, also for the values of ``configs``; print which names of the file have no effect.

    Raises `ConfigError`: the configuration is not valid, or names the wrong kind of node; `DiscoveryError`: no broker
    answered.
    """
    properties = configuration(args)
    for name, meant in Properties(properties).misspelt_security().items():
        print_message(f"{name} in {args.command_config} is unknown, and has no effect: write {meant}")
    return _discover(args, properties, configs)


def _discover(args: argparse.Namespace, properties: dict[str, str], configs: Collection[str] = ()) -> View:
    silence_log()
    try:
        return discover(
            properties, timeout=args.timeout or DISCOVER_SECONDS, broker_list=args.broker_list, configs=configs
        )
    except DiscoveryError as error:
        raise common_cause(error) from error


def common_cause(error: DiscoveryError) -> DiscoveryError | ConfigError:
    """Return one error where every address is the wrong kind of node."""
    wrong = [cause for _, cause in error.causes if isinstance(cause, ConfigError)]
    return wrong[0] if wrong and len(wrong) == len(error.causes) else error


def discover_controllers(args: argparse.Namespace, addresses: str) -> View:
    """Ask every controller once, at these addresses and with the security of the brokers. Raises as `discover_view`."""
    others = with_controllers(args, addresses)
    return _discover(others, configuration(others))


def with_controllers(args: argparse.Namespace, addresses: str) -> argparse.Namespace:
    """Return the options with these controllers in place of the brokers."""
    return argparse.Namespace(**{**vars(args), "bootstrap_server": None, "bootstrap_controller": addresses})


def silence_log() -> None:
    """Keep the log off standard error, unless ``--verbose`` shows it there: commands print what matters."""
    silence("featuregate")
