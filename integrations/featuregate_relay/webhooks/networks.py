"""Connections that reach public addresses only, and networks that the operator has listed.

The address is checked when it is connected to, and not before: a name may have another address by then.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final

from urllib3 import PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError

from featuregate.sources.abortable import AbortableAdapter

if TYPE_CHECKING:
    from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""The only addresses of IPv6 that are given to hosts of the internet (RFC 4291). Outside of it are, among others, those
that are local to a site (fec0::/10), IPv4-compatible (::/96), segments (5f00::/16), and local NAT64 (64:ff9b:1::/48),
which Python takes for global in some releases or in all."""
_RESERVED: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "3ffe::/16", "3fff::/20")))
"""Of these: for protocols, for documentation (RFC 3849, RFC 9637), and the former 6bone (RFC 3701)."""
_ISATAP: Final = 0x5EFE


def is_allowed(text: str, listed: Sequence[Network]) -> bool:
    """Return whether an address is public, or in a network that is listed.

    An IPv6 address that leads to an IPv4 address is public if both are.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    return any(address in network for network in listed) or all(map(_is_public, (address, *_behind(address))))


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _NAT64 and address.ipv4_mapped is None:
        allotted = address in _UNICAST and not any(address in network for network in _RESERVED)
        return allotted and address.is_global
    return address.is_global and not address.is_multicast


def _behind(address: _Address) -> tuple[_Address, ...]:
    """Return the IPv4 addresses to which gateways send what is for this address."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or int(address) >> 32 & 0xFCFFFFFF == _ISATAP:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return tuple(each for each in found if each is not None)


class GuardedAdapter(AbortableAdapter):
    """Connects `requests` to allowed addresses only."""

    def __init__(self, listed: Sequence[Network]) -> None:
        self._listed = tuple(listed)
        super().__init__()

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:  # noqa: FBT001, FBT002 - as requests has it
        """Use connections that check the address."""
        self.poolmanager = _GuardedPools(self._listed, num_pools=connections, maxsize=maxsize, block=block, **options)
        self.follow(self.poolmanager)


class _GuardedPools(PoolManager):
    def __init__(self, listed: Sequence[Network], **options: Any) -> None:
        super().__init__(**options)

        def connect(connection: HTTPConnection) -> socket.socket:
            return _connect(connection, listed)

        class Http(HTTPConnection):
            _new_conn = connect

        class Https(HTTPSConnection):
            _new_conn = connect

        class HttpPool(HTTPConnectionPool):
            ConnectionCls = Http

        class HttpsPool(HTTPSConnectionPool):
            ConnectionCls = Https

        self.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}


def _connect(connection: HTTPConnection, listed: Sequence[Network]) -> socket.socket:
    """Connect to the first allowed address of the host that accepts. TLS still checks the name of the host."""
    problem = "has no address"
    try:
        found = socket.getaddrinfo(connection.host.strip("[]"), connection.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # of a name that is longer than DNS allows
        raise NewConnectionError(connection, "its name has no address") from None
    for family, kind, protocol, _, address in found:
        if not is_allowed(str(address[0]), listed):
            problem = "its address is private, and in none of allow-networks"
            continue
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(connection.timeout if isinstance(connection.timeout, int | float) else None)
            made.connect(address)
        except OSError as error:
            made.close()
            problem = f"it cannot be reached: {error.strerror or error}"
        else:
            return made
    raise NewConnectionError(connection, problem)
