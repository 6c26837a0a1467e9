"""Addresses of brokers: ``host:port`` lists as Kafka's clients accept them."""

import re
from typing import NamedTuple

from featuregate.errors import ConfigError
from featuregate.patterns import pattern

DEFAULT_PORT = 9092
PORTS = range(1, 65536)
_USUAL_PORTS = range(1024, 65536)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SCHEME = pattern(r"(?P<scheme>[A-Za-z0-9_.\-]+)://(?P<rest>.*)", re.DOTALL)
_BRACKETED = pattern(r"\[(?P<host>[^\[\]]*)\](?::(?P<port>.*))?", re.DOTALL)
_HOST = pattern(r"[\w.\-]+")
"""A name in any script, or an IPv4 address; nothing that looks like a query, a path or a property."""


class Address(NamedTuple):
    """A host, as a name or as a literal address without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(key: str, text: str, protocol: str) -> tuple[Address, ...]:
    """Parse a comma-separated list; an address that occurs twice is kept once.

    The default port is 9092, as in librdkafka. IPv6 literals have brackets: ``[::1]:9093``; without a port the brackets
    may be left out, unless the last group looks like a port. A listener name in front, as in
    ``PLAINTEXT://host:9092``, is dropped; the name of another security protocol than ``protocol`` is an error.

    Errors give the number of the address and not its text, which may hold a password, as in
    ``user:password@host:9092``.
    """
    parts = [stripped for part in text.split(",") if (stripped := part.strip())]
    if not parts:
        raise ConfigError(key, "names no broker: give host:port, or several with commas between them")
    places = [f"address {at} of {len(parts)}" for at in range(1, len(parts) + 1)] if len(parts) > 1 else ["the address"]
    read = (_Part(key, place, part).address(protocol) for place, part in zip(places, parts, strict=True))
    return tuple(dict.fromkeys(read))


def has_all_ports(text: str) -> bool:
    """Return whether each address of a list names its port. Raises `ConfigError` where one cannot be split."""
    parts = [part.strip() for part in text.split(",")]
    rests = [scheme["rest"].rstrip("/") if (scheme := _SCHEME.fullmatch(part)) else part for part in parts if part]
    return all(_Part("bootstrap.servers", "an address", rest).split(rest)[1] is not None for rest in rests)


_QUOTES = ("'", '"')
_BEGINS_PATH = ("/", "./", "../", "~")


class _Part(NamedTuple):
    """One address of a list, as text."""

    key: str
    place: str
    text: str

    def address(self, protocol: str) -> Address:
        """Read it."""
        rest = self.text
        if scheme := _SCHEME.fullmatch(rest):
            rest = scheme["rest"].rstrip("/")
            named = scheme["scheme"].upper()
            if named in PROTOCOLS and named != protocol:
                raise self.wrong(f"asks for {named}, but security.protocol is {protocol}")
        if ";" in rest or len(rest.split()) > 1:
            raise self.wrong("has a semicolon or a blank within: put commas between addresses")
        if "@" in rest:
            raise self.wrong("holds a user name or a password: give host:port, and credentials as sasl.* properties")
        if rest.startswith(_QUOTES):
            raise self.wrong("has quotes around it, which are part of a value: leave them out")
        if rest.startswith(_BEGINS_PATH):
            raise self.wrong("is the path of a file: give that as pathlib.Path, or host:port")
        host, port = self.split(rest)
        if not (_HOST.fullmatch(host) or _is_ipv6(host)):
            raise self.wrong("has no usable host: give host:port, or [::1]:9092 for an IPv6 address")
        return Address(host, DEFAULT_PORT if port is None else port_of(self.key, self.place, port))

    def split(self, rest: str) -> tuple[str, str | None]:
        """Split host and port; None where there is no port."""
        if bracketed := _BRACKETED.fullmatch(rest):
            if not _is_ipv6(bracketed["host"]):
                raise self.wrong("has something in brackets that is not an IPv6 address")
            return bracketed["host"], bracketed["port"]
        if rest.count(":") > 1:
            if not _is_ipv6(rest):
                raise self.wrong(
                    "is not host:port; several have commas between, and an IPv6 address is written [::1]:9092"
                )
            if (port := rest.rpartition(":")[2]).isdigit() and int(port) in _USUAL_PORTS:
                raise self.wrong(f"may end in the port {port} or not: write [::1]:{port}, or [::1] without a port")
            return rest, None
        host, colon, port = rest.partition(":")
        return host, port if colon else None

    def wrong(self, problem: str) -> ConfigError:
        """Make the error, without the text."""
        return ConfigError(self.key, f"{self.place} {problem}")


def port_of(key: str, place: str, text: str) -> int:
    """Read a port. Raises `ConfigError` without the text."""
    if not (text.isascii() and text.isdigit() and len(text) <= len("65535") and int(text) in PORTS):
        raise ConfigError(key, f"{place} has a port that is not a number from 1 to 65535")
    return int(text)


def _is_ipv6(text: str) -> bool:
    literal, percent, zone = text.partition("%")
    if percent and not _HOST.fullmatch(zone):
        return False
    from ipaddress import IPv6Address  # noqa: PLC0415 - most addresses are names

    try:
        IPv6Address(literal)
    except ValueError:
        return False
    return True
