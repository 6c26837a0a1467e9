"""What Kafka's own Admin client reads and reports, for the drop-in: its configuration and its errors.

Source: ``KafkaAdminClient`` of Apache Kafka 4.3.1, and the output of its tool on real clusters. featuregate's own
message, which has more detail, precedes them on standard error, where kafka-features has its log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.output import print_stderr
from featuregate.config.missing import in_words_of
from featuregate.config.properties_file import read_properties
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    DiscoveryError,
    FeatureGateError,
    NetError,
    UnknownHost,
    UnsupportedVersion,
)
from featuregate.printable import printable

API_SECONDS: Final = 60.0
"""``default.api.timeout.ms`` of Kafka's client."""
ERRORS: Final = "org.apache.kafka.common.errors"
_OPTIONS: Final = {"bootstrap.servers": "bootstrap_server", "bootstrap.controllers": "bootstrap_controller"}
_WITH_PORT = re.compile(r"([0-9a-zA-Z\-%._]*://)?\[?[0-9a-zA-Z\-%._:]*\]?:[0-9]+")
"""``Utils.HOST_PORT_PATTERN``."""
T = TypeVar("T")


def create(make: Callable[[Mapping[str, str]], T], values: Mapping[str, Any]) -> T:
    """Make a client of the properties that the options of the tool give.

    Raises
    ------
    CommandError
        The configuration file cannot be read, and where it is missing, the text is its name; or Kafka creates no client
        from these properties.
    """
    file = read_file(values.get("command_config"))
    properties = {name: text for name, text in file.items() if name not in _OPTIONS}
    properties |= {name: values[option] for name, option in _OPTIONS.items() if option in values}
    try:
        for name in _OPTIONS:
            _require_ports(name, properties.get(name, "h:1"))
        return make(properties)
    except ConfigError as error:
        raise client_not_created(error) from error


def read_file(name: str | None) -> dict[str, str]:
    """Read the configuration file if there is one. Raises `CommandError`, whose text is the name of a missing file."""
    if name is None:
        return {}
    try:
        return dict(read_properties(name))
    except ConfigError as error:
        if not os.path.exists(name):  # noqa: PTH110 - pathlib takes 3 ms to import
            raise CommandError(name, FAILED) from error
        raise CommandError(str(error), FAILED) from error


def _require_ports(name: str, addresses: str) -> None:
    """Raise `ConfigError` for an address without a port, as kafka-features has no default port."""
    parts = [stripped for part in addresses.split(",") if (stripped := part.strip())]
    for at, address in enumerate(parts, 1):
        if not _WITH_PORT.match(address):
            raise ConfigError(name, f"address {at} of {len(parts)} has no port")


def client_not_created(error: FeatureGateError) -> CommandError:
    """Return the error of a client that Kafka does not create, after printing the cause."""
    log(in_words_of(error, None) if isinstance(error, ConfigError) else error)
    return CommandError("Failed to create new KafkaAdminClient", FAILED)


def nothing_resolves(error: FeatureGateError) -> bool:
    """Return whether no name of the bootstrap list resolves; Kafka resolves them before it creates the client."""
    causes = [cause for _, cause in error.causes] if isinstance(error, DiscoveryError) else []
    return bool(causes) and all(isinstance(cause, UnknownHost) for cause in causes)


def upstream_error(error: FeatureGateError, call: str) -> tuple[str, str]:
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


def log(message: object) -> None:
    """Print featuregate's own message on standard error."""
    print_stderr(f"kafka-features-py: {printable(' '.join(str(message).split()))}")
