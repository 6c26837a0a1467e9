"""TLS settings: trusted certificates, and the client's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featuregate.config.secrets import Secret, is_path
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from featuregate.config.properties import Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Certificates or a key: PEM text, or a file whose content decides its format."""

    key: str
    """The property, in the app's spelling."""
    location: str | None = None
    pem: Secret | None = None
    password: Secret | None = None
    """The password of the store; that of a private key is `Tls.key_password`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS options; certificates and their host names are verified unless the app turns that off."""

    trust: Material | None = None
    """None: the certificates that the system trusts."""
    revoked: Material | None = None
    """Certificates of brokers that are revoked; None: none is checked for that."""
    certificate: Material | None = None
    """The client's chain, for brokers that require one."""
    private_key: Material | None = None
    """None: it is in the same place as the certificate."""
    key_password: Secret | None = None
    verify: bool = True
    check_hostname: bool = True
    context: ssl.SSLContext | None = None
    """The app's own; it replaces all of the above."""


def read_tls(properties: Properties) -> Tls:
    """Read the ``ssl.`` properties of either spelling; two sources of the same item are an error."""
    context = properties.tls_context("ssl_context")
    verify = properties.flag("enable.ssl.certificate.verification")
    certificate = _one_of(
        properties,
        files={"ssl.certificate.location": None, "ssl.keystore.location": "ssl.keystore.password"},
        text="ssl.certificate.pem",
    )
    private_key = _one_of(properties, files={"ssl.key.location": None}, text="ssl.key.pem")
    if private_key is not None and certificate is None:
        raise ConfigError(private_key.key, "is a private key without its certificate: give ssl.certificate.location")
    trust = _one_of(
        properties,
        files={"ssl.ca.location": None, "ssl.truststore.location": "ssl.truststore.password"},
        text="ssl.ca.pem",
    )
    revoked = _file(properties, "ssl.crl.location", None)
    if context is not None:
        return _given(properties.spelling("ssl_context"), context, (trust, revoked, certificate, private_key))
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        properties.choice(name)
    return Tls(
        trust=trust,
        revoked=revoked,
        certificate=certificate,
        private_key=private_key,
        key_password=properties.secret("ssl.key.password"),
        verify=verify,
        check_hostname=verify and _checks_host_names(properties),
    )


def _given(key: str, context: ssl.SSLContext, others: tuple[Material | None, ...]) -> Tls:
    """Take the app's context, whose certificates no property can add to."""
    for other in others:
        if other is not None:
            raise ConfigError(key, f"{other.key} is given too: keep one of them")
    return Tls(verify=context.verify_mode != 0, check_hostname=context.check_hostname, context=context)


def _checks_host_names(properties: Properties) -> bool:
    algorithm, flag = "ssl.endpoint.identification.algorithm", "ssl_check_hostname"
    checks = properties.choice(algorithm) == "https"
    if not properties.is_set(flag):
        return checks
    if properties.is_set(algorithm) and properties.flag(flag) != checks:
        raise ConfigError(properties.spelling(flag), f"differs from {properties.spelling(algorithm)}")
    return properties.flag(flag)


def _one_of(properties: Properties, *, files: dict[str, str | None], text: str) -> Material | None:
    """Return the one source that is set; ``files`` maps each location to the name of its password."""
    found = (_file(properties, name, password) for name, password in files.items())
    sources = [source for source in (_text(properties, text), *found) if source is not None]
    if len(sources) > 1:
        raise ConfigError(sources[0].key, f"{sources[1].key} is given too: keep one of them")
    return sources[0] if sources else None


def _text(properties: Properties, name: str) -> Material | None:
    pem = properties.secret(name)
    if pem is None:
        return None
    if "-----BEGIN " not in pem.reveal():
        raise ConfigError(properties.spelling(name), "is not PEM text: no line begins with -----BEGIN")
    return Material(key=properties.spelling(name), pem=pem)


def _file(properties: Properties, name: str, password: str | None) -> Material | None:
    location, key = properties.text(name), properties.spelling(name)
    if location is None or (name == "ssl.ca.location" and location == "probe"):
        return None
    if "-----BEGIN " in location:  # a key may follow, so the text is not repeated
        raise ConfigError(key, "is PEM text, but must be the path of a file: see ssl.ca.pem and similar properties")
    # Unlike those of pathlib, these are false for a name that is too long for the system.
    if not (os.path.isfile(location) or (name == "ssl.ca.location" and os.path.isdir(location))):  # noqa: PTH112, PTH113
        if "\\" in location or not location.isprintable():
            problem = "there is no such file: write / between folders, because a backslash begins an escape"
            raise ConfigError(key, problem)
        raise ConfigError(key, f"there is no file {location!r}" if is_path(location) else "there is no such file")
    return Material(key=key, location=location, password=properties.secret(password) if password else None)
