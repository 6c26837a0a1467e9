"""Errors as Kafka's own Admin client reports them, for the drop-in.

Source: ``KafkaAdminClient`` of Apache Kafka 4.3.1, and the output of its tool on real clusters. featuregate's own
message, which has more detail, precedes them on standard error, where kafka-features has its log.
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
    DiscoveryError,
    FeatureGateError,
    NetError,
    UnknownHost,
    UnsupportedVersion,
    UpdateRefused,
    UpdateUncertain,
)
from featuregate.polling.discovery import discover
from featuregate.sources.one_node import NoSuchNode, OneNodeSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.admin.outcomes import Outcome
    from featuregate.admin.updates import Update
    from featuregate.view.cluster_view import View

_ERRORS = "org.apache.kafka.common.errors"
_WITH_PORT = re.compile(r"([0-9a-zA-Z\-%._]*://)?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")
"""``Utils.HOST_PORT_PATTERN``."""


def check_file(name: str | None) -> None:
    """Read the configuration file if there is one. Raises `CommandError`, whose text is the name of a missing file."""
    _properties(name)


class Client:
    """A cluster, with errors as Kafka's Admin client reports them."""

    def __init__(self, config: Mapping[str, str], *, read_back: float = READ_BACK_SECONDS) -> None:
        self._config = config
        self._admin = Admin(config, read_back=read_back)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return a client for the options. Raises `CommandError`."""
        properties = _properties(values.get("command_config"))
        options = {"bootstrap.servers": "bootstrap_server", "bootstrap.controllers": "bootstrap_controller"}
        properties = {name: text for name, text in properties.items() if name not in options}
        properties |= {name: values[option] for name, option in options.items() if option in values}
        try:
            for name in options:
                _require_ports(name, properties.get(name, "h:1"))
            return cls(properties)
        except ConfigError as error:
            raise _client_not_created(error) from error

    def describe(self, node_id: int | None) -> str:
        """Return the table of features. Raises `CommandError`."""
        if node_id is not None and node_id < 0:
            raise CommandError(f"Invalid node id {node_id}: must be non-negative.", FAILED)
        try:
            view = self._view(node_id)
        except NoSuchNode as error:
            _log(error)
            text = "Timed out waiting for a node assignment. Call: describeFeatures"
            raise CommandError(f"{_ERRORS}.TimeoutException: {text}", FAILED) from error
        except FeatureGateError as error:
            if _nothing_resolves(error):
                raise _client_not_created(error) from error
            _log(error)
            kind, text = _upstream_error(error, "describeFeatures")
            raise CommandError(f"{_ERRORS}.{kind}: {text}", FAILED) from error
        return columns(rows(view, tool_table().level_name))

    def _view(self, node_id: int | None) -> View:
        if node_id is None:
            return discover(self._config, timeout=UPDATE_SECONDS)
        settings = Settings.parse(self._config, total_timeout=UPDATE_SECONDS)
        return asyncio.run(OneNodeSource(settings, node_id).fetch()).merge()

    def update(self, updates: tuple[Update, ...], *, dry_run: bool) -> dict[str, str]:
        """Send or validate the updates; return the error messages of the controller by feature.

        kafka-features prints these also where the outcome is unknown. The levels that the brokers show go to standard
        error.
        """
        try:
            outcome = self._admin.dry_run(updates) if dry_run else self._admin.update(updates)
        except UpdateRefused as refused:
            return _errors_of(refused.outcome)
        except FeatureGateError as error:
            if isinstance(error, UpdateUncertain) and error.outcome is not None:
                _log(error)
                return _errors_of(error.outcome)
            if _nothing_resolves(error):
                raise _client_not_created(error) from error
            _log(error)
            return dict.fromkeys((update.feature for update in updates), _upstream_error(error, "updateFeatures")[1])
        except KeyboardInterrupt:
            if not dry_run:
                print_stderr(
                    "kafka-features-py: interrupted: the update may or may not have been applied; see 'describe'"
                )
            raise
        return _errors_of(outcome)


def _errors_of(outcome: Outcome) -> dict[str, str]:
    if outcome.read_back:
        _log("the answer does not say the outcome, so the brokers were asked: they report the new levels")
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


def _require_ports(name: str, addresses: str) -> None:
    """Raise `ConfigError` for an address without a port, as kafka-features has no default port."""
    parts = [stripped for part in addresses.split(",") if (stripped := part.strip())]
    for at, address in enumerate(parts, 1):
        if not _WITH_PORT.match(address):
            raise ConfigError(name, f"address {at} of {len(parts)} has no port")


def _client_not_created(error: FeatureGateError) -> CommandError:
    _log(error)
    return CommandError("Failed to create new KafkaAdminClient", FAILED)


def _nothing_resolves(error: FeatureGateError) -> bool:
    """Return whether no name of the bootstrap list resolves; Kafka resolves them before it creates the client."""
    causes = [cause for _, cause in error.causes] if isinstance(error, DiscoveryError) else []
    return bool(causes) and all(isinstance(cause, UnknownHost) for cause in causes)


def _upstream_error(error: FeatureGateError, call: str) -> tuple[str, str]:
    """Return the name and the text of Kafka's exception."""
    match _cause(error):
        case ConfigError() as wrong:
            return _wrong_kind_of_node(wrong)
        case UnsupportedVersion() as too_old:
            return "UnsupportedVersionException", str(too_old).replace("UpdateFeatures", "UPDATE_FEATURES")
        case AuthenticationFailed() as refused:
            return "SaslAuthenticationException", refused.problem
        case DiscoveryError() | NetError():
            return "TimeoutException", f"Timed out waiting for a node assignment. Call: {call}"
        case other:  # above all an update that may have been applied
            return "KafkaException", str(other)


def _cause(error: FeatureGateError) -> FeatureGateError:
    """Return the cause that is more specific than a missing answer, if there is one."""
    causes = [cause for _, cause in error.causes] if isinstance(error, DiscoveryError) else []
    return next((cause for cause in causes if isinstance(cause, ConfigError | AuthenticationFailed)), error)


def _wrong_kind_of_node(error: ConfigError) -> tuple[str, str]:
    if "is a controller" in error.problem:
        return "UnsupportedVersionException", "The node does not support METADATA"
    expected = "we wanted an endpoint of type CONTROLLER"
    return "MismatchedEndpointTypeException", f"The request was sent to an endpoint of type BROKER, but {expected}"


def _log(message: object) -> None:
    """Print featuregate's own message on standard error."""
    print_stderr(f"kafka-features-py: {printable(' '.join(str(message).split()))}")
