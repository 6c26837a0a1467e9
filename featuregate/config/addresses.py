"""Where brokers are: ``host:port`` lists as Kafka's clients take them."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import NamedTuple

from featuregate.errors import ConfigError

__all__ = ["DEFAULT_PORT", "PROTOCOLS", "Address", "parse_bootstrap"]

DEFAULT_PORT = 9092
_PORTS = range(1, 65536)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z0-9_.\-]+)://(?P<rest>.*)", re.DOTALL)
_BRACKETED = re.compile(r"\[(?P<host>[^\[\]]*)\](?::(?P<port>.*))?", re.DOTALL)
_NEVER_IN_A_HOST = re.compile(r"[\s/\\@\[\]#?\"']|[\x00-\x1f\x7f]")


class Address(NamedTuple):
    """A host, as a name or as a literal address without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(key: str, text: str, protocol: str) -> tuple[Address, ...]:
    """Read a comma-separated list; an address that is named twice is kept once.

    A port that is left out is 9092, as in librdkafka. IPv6 literals take brackets: ``[::1]:9093``; without a port
    they may stand bare. A listener name in front, as in ``PLAINTEXT://host:9092``, is dropped; one that names
    another security protocol than ``protocol`` is an error.
    """
    parts = [part.strip() for part in text.split(",")]
    addresses = dict.fromkeys(_parse_one(key, part, protocol) for part in parts if part)
    if not addresses:
        raise ConfigError(key, "names no broker: give host:port, or several with commas between them")
    return tuple(addresses)


def _parse_one(key: str, part: str, protocol: str) -> Address:
    rest = part
    if scheme := _SCHEME.fullmatch(part):
        rest = scheme["rest"].rstrip("/")
        named = scheme["scheme"].upper()
        if named in PROTOCOLS and named != protocol:
            raise ConfigError(key, f"{part!r} asks for {named}, but security.protocol is {protocol}")
    host, port = _split(key, part, rest)
    if not host or _NEVER_IN_A_HOST.search(host):
        raise ConfigError(key, f"{part!r} has no usable host: give host:port, or [::1]:9092 for an IPv6 address")
    return Address(host, _port(key, part, port))


def _split(key: str, part: str, rest: str) -> tuple[str, str | None]:
    if bracketed := _BRACKETED.fullmatch(rest):
        if not _is_ipv6(bracketed["host"]):
            raise ConfigError(key, f"{part!r} has something in brackets that is no IPv6 address")
        return bracketed["host"], bracketed["port"]
    if rest.count(":") > 1:
        if not _is_ipv6(rest):
            raise ConfigError(key, f"{part!r} is not host:port; an IPv6 address with a port is written [::1]:9092")
        return rest, None
    host, colon, port = rest.partition(":")
    return host, port if colon else None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _port(key: str, part: str, text: str | None) -> int:
    if text is None:
        return DEFAULT_PORT
    if not (text.isascii() and text.isdigit() and len(text) <= len("65535") and int(text) in _PORTS):
        raise ConfigError(key, f"{part!r} has a port that is no number from 1 to 65535")
    return int(text)
