"""What Kafka's own Admin client would say where ours speaks: failures in its words, for the drop-in.

Source: ``KafkaAdminClient`` of Apache Kafka 4.3.1, and what its tool prints on real clusters. Its words are fewer than
ours, so ours go in front on standard error, where upstream has its log.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from featuregate.admin import UPDATE_SECONDS, Admin
from featuregate.catalog import tool_table
from featuregate.cli.describe import columns, rows
from featuregate.cli.exits import CLOSED, CommandError
from featuregate.cli.one_node import NoSuchNode, view_of_node
from featuregate.cli.output import printable
from featuregate.config import Settings
from featuregate.config.properties import read_properties
from featuregate.discovery import discover
from featuregate.errors import (
    AuthenticationFailed,
    BrokerError,
    ConfigError,
    DiscoveryError,
    FeatureGateError,
    UnsupportedVersion,
    UpdateRefused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.updates import Update
    from featuregate.view import View

__all__ = ["Client", "check_file"]

_ERRORS = "org.apache.kafka.common.errors"


def check_file(name: str | None) -> None:
    """Read the configuration file, where one is named. Raises `CommandError` with nothing but its name."""
    _properties(name)


class Client:
    """A cluster, and how upstream's client tells what goes wrong with it."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._admin = Admin(config)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Make it of the options. Raises `CommandError` in upstream's words."""
        properties = _properties(values.get("command_config"))
        where = {"bootstrap.servers": "bootstrap_server", "bootstrap.controllers": "bootstrap_controller"}
        properties = {name: text for name, text in properties.items() if name not in where}
        properties |= {name: values[option] for name, option in where.items() if option in values}
        try:
            return cls(properties)
        except ConfigError as error:
            _log(error)
            raise CommandError("Failed to create new KafkaAdminClient", CLOSED) from error

    def describe(self, node_id: int | None) -> str:
        """Return the table of features. Raises `CommandError`."""
        if node_id is not None and node_id < 0:
            raise CommandError(f"Invalid node id {node_id}: must be non-negative.", CLOSED)
        try:
            view = self._look(node_id)
        except NoSuchNode as error:
            _log(error)
            text = "Timed out waiting for a node assignment. Call: describeFeatures"
            raise CommandError(f"{_ERRORS}.TimeoutException: {text}", CLOSED) from error
        except FeatureGateError as error:
            _log(error)
            kind, text = _words(error, "describeFeatures")
            raise CommandError(f"{_ERRORS}.{kind}: {text}", CLOSED) from error
        return columns(rows(view, tool_table().level_name))

    def _look(self, node_id: int | None) -> View:
        if node_id is None:
            return discover(self._config, timeout=UPDATE_SECONDS)
        return view_of_node(Settings.parse(self._config, total_timeout=UPDATE_SECONDS), node_id)

    def update(self, updates: tuple[Update, ...], *, dry_run: bool) -> dict[str, str]:
        """Change levels, or try to; return the words of those that were refused, by feature."""
        try:
            if dry_run:
                self._admin.dry_run(updates)
            else:
                self._admin.update(updates)
        except UpdateRefused as refused:
            return {one.update.feature: one.error.message or one.error.name for one in refused.outcome.failures}
        except FeatureGateError as error:
            _log(error)
            return dict.fromkeys((update.feature for update in updates), _words(error, "updateFeatures")[1])
        return {}


def _properties(name: str | None) -> dict[str, str]:
    if name is None:
        return {}
    try:
        return dict(read_properties(Path(name)))
    except ConfigError as error:
        if not Path(name).exists():
            raise CommandError(name, CLOSED) from error
        raise CommandError(str(error), CLOSED) from error


def _words(error: FeatureGateError, call: str) -> tuple[str, str]:
    """Return the name of upstream's error, and its text."""
    cause = error
    if isinstance(error, DiscoveryError):
        told = [why for _, why in error.causes if isinstance(why, FeatureGateError)]
        cause = next((why for why in told if isinstance(why, ConfigError | AuthenticationFailed | BrokerError)), error)
    if isinstance(cause, ConfigError):
        if "is a controller" in cause.problem:
            return "UnsupportedVersionException", "The node does not support METADATA"
        return "MismatchedEndpointTypeException", (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    if isinstance(cause, UnsupportedVersion):
        return "UnsupportedVersionException", str(cause).replace("UpdateFeatures", "UPDATE_FEATURES")
    if isinstance(cause, AuthenticationFailed):
        return "SaslAuthenticationException", cause.problem
    if isinstance(cause, BrokerError):
        return "ApiException", cause.message
    return "TimeoutException", f"Timed out waiting for a node assignment. Call: {call}"


def _log(error: Exception) -> None:
    """Say it in our words, with the addresses and what to do."""
    print(f"kafka-features-py: {printable(' '.join(str(error).split()))}", file=sys.stderr)
