"""`AllowedHosts`: to which hosts a client may connect, whatever hosts the metadata of a cluster names. Pure."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from featuregate.config.addresses import Address, port_of
from featuregate.errors import ConfigError

_BRACKETED = re.compile(r"\[(?P<host>[^\[\]]+)\](?P<length>/\d+)?(?::(?P<port>.*))?", re.DOTALL)
_LABEL = r"[^\W_](?:[\w\-]*\w)?|_[\w\-]*\w"
_NAME = re.compile(rf"(?:\*\.)?(?:{_LABEL})(?:\.(?:{_LABEL}))*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that makes resolvers take the whole name for an IPv4 address, as in ``127.1``."""


class AllowedName(NamedTuple):
    """A host as it is written, or with ``*.`` in front all hosts below a domain."""

    name: str
    port: int | None
    """None: every port."""


class AllowedNetwork(NamedTuple):
    """A network, or one address."""

    network: IPv4Network | IPv6Network
    port: int | None


class AllowedHosts(NamedTuple):
    """Hosts that are allowed by their names, and addresses that are allowed whatever name led to them."""

    names: tuple[AllowedName, ...]
    networks: tuple[AllowedNetwork, ...]

    def by_name(self, address: Address) -> bool:
        """Return whether the list has the host as it is written."""
        host = one_spelling(address.host)
        return any(_matches(entry.name, host) and entry.port in {None, address.port} for entry in self.names)

    def any_network(self, port: int) -> bool:
        """Return whether an address with this port could be in a network of the list."""
        return any(entry.port in {None, port} for entry in self.networks)

    def by_address(self, literal: str, port: int) -> bool:
        """Return whether a network of the list has this address, which name resolution gave."""
        address = _unmapped(ip_address(literal))
        return any(
            address.version == entry.network.version and address in entry.network and entry.port in {None, port}
            for entry in self.networks
        )


def allowed_hosts(given: object, *, key: str = "allowed_hosts") -> AllowedHosts:
    """Parse names, ``*.example.com``, addresses and networks: a text with commas between, or several texts.

    A name, an address or a network may have a port behind it, and IPv6 brackets around it: ``[fd00::]/8:9092``.
    Raises `ConfigError` for an entry that is none of these, and where there is no entry at all.
    """
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple | set | frozenset) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(key, f"must be a text or a list of texts, not a {type(given).__name__}")
    parts = [stripped for text in texts for part in text.split(",") if (stripped := part.strip())]
    if not parts:
        raise ConfigError(key, "names no host: leave it out to allow every host that the cluster names")
    entries = [_entry(key, f"entry {at} of {len(parts)}", part) for at, part in enumerate(parts, 1)]
    return AllowedHosts(
        tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, AllowedName))),
        tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, AllowedNetwork))),
    )


def one_spelling(host: str) -> str:
    """Return one spelling of a host: without case and final dot, names in ASCII, IPv6 in its short form."""
    if not host.isascii():
        try:
            host = host.encode("idna").decode()  # as Python does before it resolves the name
        except UnicodeError:
            return host.lower()
    host = host.lower().removesuffix(".")
    try:
        return str(_unmapped(ip_address(host)))
    except ValueError:
        return host


def _matches(entry: str, host: str) -> bool:
    if not entry.startswith("*."):
        return entry == host
    is_name = ":" not in host and "%" not in host and not _NUMBER.fullmatch(host.rpartition(".")[2])
    return is_name and host.endswith(entry[1:]) and len(host) >= len(entry)


def _entry(key: str, place: str, text: str) -> AllowedName | AllowedNetwork:
    host, port = _split(key, place, text)
    network = _network(key, place, host)
    if network is not None:
        return AllowedNetwork(network, port)
    name = one_spelling(host)
    if not _is_zoned(name) and (not _NAME.fullmatch(name) or _NUMBER.fullmatch(name.rpartition(".")[2])):
        raise ConfigError(
            key, f"{place} is not a host: give a name, *.example.com, an address, or a network such as 10.0.0.0/8"
        )
    return AllowedName(name, port)


def _split(key: str, place: str, text: str) -> tuple[str, int | None]:
    if bracketed := _BRACKETED.fullmatch(text):
        host, port = bracketed["host"] + (bracketed["length"] or ""), bracketed["port"]
    elif text.count(":") > 1:
        return text, None
    else:
        host, colon, after = text.partition(":")
        port = after if colon else None
    return host, None if port is None else port_of(key, place, port)


def _network(key: str, place: str, text: str) -> IPv4Network | IPv6Network | None:
    """Return the network that a text is; None where it is a name, or an address with a zone."""
    if "%" in text:
        return None
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return None
    if ip_address(text.partition("/")[0]) != found.network_address:
        raise ConfigError(key, f"{place} has bits set behind its length: write {found}")
    mapped = found.network_address.ipv4_mapped if isinstance(found, IPv6Network) else None
    if mapped is not None and found.prefixlen >= (shift := 96):
        return IPv4Network((mapped, found.prefixlen - shift))
    return found


def _is_zoned(name: str) -> bool:
    """Return whether it is an IPv6 address with a zone, which allows only the host that is written like this."""
    try:
        return "%" in name and IPv6Address(name).scope_id is not None
    except ValueError:
        return False


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
