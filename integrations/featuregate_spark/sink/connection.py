"""How the clients of the sink reach Kafka: as the session does, where the app does not say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark import cloudpickle

from featuregate.config import Settings
from featuregate.config.providers import without_placeholders
from featuregate.errors import ConfigError
from featuregate_librdkafka.core_settings import librdkafka_properties

_CLIENT_ID: Final = "client.id"
"""Left to the session's polls: the sink has a client id of its own, by which quotas and request logs know it."""
_BROKERS: Final = {"bootstrap.servers", "metadata.broker.list"}
_TLS: Final = ("ssl.", "enable.ssl.")
_SASL: Final = ("sasl.", "enable.sasl.", "oauth_cb")


def client_properties(session: Mapping[str, Any] | str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's properties for the sink: those that the app gives it, and the connection of its session.

    A property that is given wins. One of TLS replaces all of the session's TLS, and one of SASL all of its SASL: no
    password of one user stands beside the name of another. Brokers that are given get nothing of the session, whose
    password is not theirs. Certificates and keys of the session become PEM text, since executors do not have the files.

    Raises
    ------
    ConfigError
        librdkafka cannot use a property of the session, or a property cannot be sent to executors.
    """
    given = without_placeholders(given)
    properties = dict(given) if _BROKERS & given.keys() else _inherited(Settings.parse(session), given) | dict(given)
    for name, value in properties.items():
        _require_picklable(name, value)
    return properties


def _inherited(session: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    has_tls, has_sasl = (any(name.startswith(kind) for name in given) for kind in (_TLS, _SASL))
    properties = librdkafka_properties(
        replace(session, tls=None if has_tls else session.tls, sasl=None if has_sasl else session.sasl)
    )
    return {name: value for name, value in properties.items() if name != _CLIENT_ID}


def _require_picklable(name: str, value: object) -> None:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]  # PySpark has no types for it
    except Exception as error:  # whatever the value raises; its text may hold a secret
        raise ConfigError(
            name,
            f"cannot be sent to executors, since pickling it fails with {type(error).__name__}: pass "
            f"kafka_sink(producer={{{name!r}: ...}}) what can be pickled, such as a function of a module",
        ) from error
