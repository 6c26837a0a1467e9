"""The settings of featuregate as properties of librdkafka: a client then reaches the same brokers as the same user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from featuregate.credentials.keystores import read_material
from featuregate.credentials.tokens import TokenFetcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate.config import Sasl, Settings, Tls, TokenSource

__all__ = ["librdkafka_properties"]

_TOKEN_SECONDS: Final = 10.0

_Token = tuple[str, float, str, dict[str, str]]


def librdkafka_properties(settings: Settings) -> dict[str, Any]:
    """Return the properties with which a client of confluent-kafka reaches the same brokers as the same user.

    Certificates and keys come as PEM text, whatever files they were in. Raises `ConfigError` where one cannot be read.
    """
    properties: dict[str, Any] = {
        "bootstrap.servers": ",".join(str(address) for address in settings.bootstrap),
        "security.protocol": settings.protocol,
        "client.id": settings.client_id,
        "broker.address.family": settings.address_family,
    }
    if settings.tls is not None:
        properties |= _tls(settings.tls)
    if settings.sasl is not None:
        properties |= _sasl(settings.sasl)
    return properties


def _tls(tls: Tls) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "enable.ssl.certificate.verification": tls.verify,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
    }
    if tls.trust is not None:
        if tls.trust.location and Path(tls.trust.location).is_dir():
            properties["ssl.ca.location"] = tls.trust.location
        else:
            properties["ssl.ca.pem"] = read_material(tls.trust).certificates
    if tls.certificate is not None:
        ours = read_material(tls.certificate)
        key = ours if tls.private_key is None else read_material(tls.private_key)
        properties |= {"ssl.certificate.pem": ours.certificates, "ssl.key.pem": key.private_key}
    if tls.key_password is not None:
        properties["ssl.key.password"] = tls.key_password.reveal()
    return properties


def _sasl(sasl: Sasl) -> dict[str, Any]:
    properties: dict[str, Any] = {"sasl.mechanisms": sasl.mechanism}
    if sasl.password is not None:
        properties |= {"sasl.username": sasl.username, "sasl.password": sasl.password.reveal()}
    if sasl.token is not None:
        properties["oauth_cb"] = _callback(sasl.token)
    return properties


def _callback(source: TokenSource) -> Callable[[str], _Token]:
    fetcher = TokenFetcher()

    def token(_config: str) -> _Token:
        found = fetcher.fetch(source, _TOKEN_SECONDS)
        return found.value.reveal(), found.reuse_until, "", dict(found.extensions)

    return token
