"""What Kafka's own Admin client would say where ours speaks: failures in its words, for the drop-in.

Source: ``KafkaAdminClient`` of Apache Kafka 4.3.1, and what its tool prints on real clusters. Its words are fewer than
ours, so ours go in front on standard error, where upstream has its log.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from featuregate.admin.client import READ_BACK_SECONDS, UPDATE_SECONDS, Admin
from featuregate.catalog import tool_table
from featuregate.cli.commands.describe import columns, rows
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.output import print_stderr, printable
from featuregate.config import Settings
from featuregate.config.properties import read_properties
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    DiscoveryError,
    FeatureGateError,
    NetError,
    UnsupportedVersion,
    UpdateRefused,
    UpdateUncertain,
)
from featuregate.net.dial import RESOLVING
from featuregate.polling.discovery import discover
from featuregate.sources.one_node import NoSuchNode, OneNodeSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.admin.outcomes import Outcome
    from featuregate.admin.updates import Update
    from featuregate.view.cluster_view import View

__all__ = ["Client", "check_file"]

_ERRORS = "org.apache.kafka.common.errors"
_WITH_PORT = re.compile(r"([0-9a-zA-Z\-%._]*://)?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")
"""``Utils.HOST_PORT_PATTERN``."""


def check_file(name: str | None) -> None:
    """Read the configuration file, where one is named. Raises `CommandError` with nothing but its name."""
    _properties(name)


class Client:
    """A cluster, and how upstream's client tells what goes wrong with it."""

    def __init__(self, config: Mapping[str, str], *, read_back: float = READ_BACK_SECONDS) -> None:
        self._config = config
        self._admin = Admin(config, read_back=read_back)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Make it of the options. Raises `CommandError` in upstream's words."""
        properties = _properties(values.get("command_config"))
        where = {"bootstrap.servers": "bootstrap_server", "bootstrap.controllers": "bootstrap_controller"}
        properties = {name: text for name, text in properties.items() if name not in where}
        properties |= {name: values[option] for name, option in where.items() if option in values}
        try:
            for name in where:
                _demand_ports(name, properties.get(name, "h:1"))
            return cls(properties)
        except ConfigError as error:
            raise _no_client(error) from error

    def describe(self, node_id: int | None) -> str:
        """Return the table of features. Raises `CommandError`."""
        if node_id is not None and node_id < 0:
            raise CommandError(f"Invalid node id {node_id}: must be non-negative.", FAILED)
        try:
            view = self._look(node_id)
        except NoSuchNode as error:
            _log(error)
            text = "Timed out waiting for a node assignment. Call: describeFeatures"
            raise CommandError(f"{_ERRORS}.TimeoutException: {text}", FAILED) from error
        except FeatureGateError as error:
            if _leads_nowhere(error):
                raise _no_client(error) from error
            _log(error)
            kind, text = _words(error, "describeFeatures")
            raise CommandError(f"{_ERRORS}.{kind}: {text}", FAILED) from error
        return columns(rows(view, tool_table().level_name))

    def _look(self, node_id: int | None) -> View:
        if node_id is None:
            return discover(self._config, timeout=UPDATE_SECONDS)
        settings = Settings.parse(self._config, total_timeout=UPDATE_SECONDS)
        return asyncio.run(OneNodeSource(settings, node_id).fetch()).merge()

    def update(self, updates: tuple[Update, ...], *, dry_run: bool) -> dict[str, str]:
        """Change levels, or try to; return the controller's words where they are an error, by feature.

        As in upstream they are printed whatever they leave open. What the brokers show goes to standard error.
        """
        try:
            outcome = self._admin.dry_run(updates) if dry_run else self._admin.update(updates)
        except UpdateRefused as refused:
            return _errors_of(refused.outcome)
        except FeatureGateError as error:
            if isinstance(error, UpdateUncertain) and error.outcome is not None:
                _log(error)
                return _errors_of(error.outcome)
            if _leads_nowhere(error):
                raise _no_client(error) from error
            _log(error)
            return dict.fromkeys((update.feature for update in updates), _words(error, "updateFeatures")[1])
        except KeyboardInterrupt:
            if not dry_run:
                print_stderr(
                    "kafka-features-py: interrupted: the update may or may not have been applied; see 'describe'"
                )
            raise
        return _errors_of(outcome)


def _errors_of(outcome: Outcome) -> dict[str, str]:
    if outcome.read_back:
        _log("the answer does not tell, so the brokers were asked: they show it")
    errors = {one.update.feature: one.error or one.answer for one in outcome.features}
    return {feature: error.message or error.name for feature, error in errors.items() if error is not None}


def _properties(name: str | None) -> dict[str, str]:
    if name is None:
        return {}
    try:
        return dict(read_properties(Path(name)))
    except ConfigError as error:
        if not Path(name).exists():
            raise CommandError(name, FAILED) from error
        raise CommandError(str(error), FAILED) from error


def _demand_ports(name: str, addresses: str) -> None:
    """Refuse an address without a port, for which upstream has no default. Raises `ConfigError`."""
    parts = [stripped for part in addresses.split(",") if (stripped := part.strip())]
    for at, address in enumerate(parts, 1):
        if not _WITH_PORT.match(address):
            raise ConfigError(name, f"address {at} of {len(parts)} has no port")


def _no_client(error: FeatureGateError) -> CommandError:
    _log(error)
    return CommandError("Failed to create new KafkaAdminClient", FAILED)


def _leads_nowhere(error: FeatureGateError) -> bool:
    """Say whether no name of the bootstrap list resolves; upstream looks them up before it has a client."""
    causes = [why for _, why in error.causes] if isinstance(error, DiscoveryError) else []
    return bool(causes) and all(isinstance(why, ConnectFailed) and why.stage == RESOLVING for why in causes)


def _words(error: FeatureGateError, call: str) -> tuple[str, str]:
    """Return the name of upstream's error, and its text."""
    match _cause(error):
        case ConfigError() as wrong:
            return _wrong_kind_of_node(wrong)
        case UnsupportedVersion() as too_old:
            return "UnsupportedVersionException", str(too_old).replace("UpdateFeatures", "UPDATE_FEATURES")
        case AuthenticationFailed() as refused:
            return "SaslAuthenticationException", refused.problem
        case DiscoveryError() | NetError():
            return "TimeoutException", f"Timed out waiting for a node assignment. Call: {call}"
        case other:  # an update that may have been applied, above all: nothing says it better
            return "KafkaException", str(other)


def _cause(error: FeatureGateError) -> FeatureGateError:
    """Look for what is more than silence behind nobody's answer."""
    told = [why for _, why in error.causes] if isinstance(error, DiscoveryError) else []
    return next((why for why in told if isinstance(why, ConfigError | AuthenticationFailed)), error)


def _wrong_kind_of_node(error: ConfigError) -> tuple[str, str]:
    if "is a controller" in error.problem:
        return "UnsupportedVersionException", "The node does not support METADATA"
    wanted = "we wanted an endpoint of type CONTROLLER"
    return "MismatchedEndpointTypeException", f"The request was sent to an endpoint of type BROKER, but {wanted}"


def _log(message: object) -> None:
    """Print our own words, with the addresses and what to do, where upstream has its log."""
    print_stderr(f"kafka-features-py: {printable(' '.join(str(message).split()))}")
