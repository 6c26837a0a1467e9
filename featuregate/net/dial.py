"""Open a connection to an address: name resolution, TCP, TLS."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from featuregate.config.addresses import PORTS
from featuregate.errors import (
    ConnectFailed,
    HostNameMismatch,
    HostNotAllowed,
    NetError,
    TimedOut,
    TlsFailed,
    UnknownHost,
)
from featuregate.loops.short_loop import running_loop, running_short_loop

if TYPE_CHECKING:
    import ssl

    from featuregate.config import Address, Settings
    from featuregate.net.carrier import Carrier
    from featuregate.wire.session import Session

_FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
_SHOWN = 5
_STAGGER = 0.25
"""Seconds without an answer before the next address of a name is tried as well (RFC 8305)."""

_RESOLVING, _CONNECTING, _HANDSHAKE = "resolving the name", "connecting", "in the TLS handshake"


async def dial(address: Address, settings: Settings, make: Callable[[], Session]) -> Carrier:
    """Connect to the first address of a name that accepts, and complete the TLS handshake where TLS is on.

    Raises `ConnectFailed`, `TlsFailed` or `TimedOut` within `Settings.connect_timeout` seconds.
    """
    if settings.tls is None:
        return await _Dialing(address, settings, None, make).run()
    from featuregate.net.tls import context_for  # noqa: PLC0415 - only TLS waits for it

    return await _Dialing(address, settings, context_for(settings.tls), make).run()


_MISMATCH_ADVICE = "connect by a name in the certificate, or see ssl.endpoint.identification.algorithm"


class _Dialing:
    """One attempt to reach a broker, and the stage that it is in."""

    def __init__(
        self, address: Address, settings: Settings, tls: ssl.SSLContext | None, make: Callable[[], Session]
    ) -> None:
        self._address = address
        self._settings = settings
        self._tls = tls
        self._make = make
        self._stage = _RESOLVING
        self._failures: list[NetError] = []

    async def run(self) -> Carrier:
        timeout = self._settings.connect_timeout
        try:
            async with running_loop().timeout(timeout):
                hosts = await self._resolve()
                self._stage = _CONNECTING
                attempts = (partial(self._attempt, host) for host in hosts)
                carrier = await running_loop().race(attempts, stagger=_STAGGER, dispose=lambda late: late.close())
        except TimeoutError:
            raise TimedOut(self._address, self._stage, f"no answer within {timeout:g} s") from None
        if carrier is None:
            raise self._worst()
        return carrier

    async def _resolve(self) -> list[str]:
        """Return the literal addresses of the host, resolved again each time."""
        host, port = self._address
        family = _FAMILIES[self._settings.address_family]
        if not host or port not in PORTS:
            raise ConnectFailed(self._address, _CONNECTING, "not an address that a broker can listen on")
        allowed = self._settings.allowed_hosts
        by_name = allowed is None or allowed.by_name(self._address)
        if allowed is not None and not by_name and not allowed.any_network(port):
            raise self._not_allowed("nor a network")
        found = [host] if _is_literal(host, family) else await self._look_up(family)
        if allowed is None or by_name:
            return found
        # These addresses are dialled, so another answer of the resolver does not change them.
        listed = [literal for literal in found if allowed.by_address(literal, port)]
        if not listed:
            raise self._not_allowed(f"nor {', '.join(found[:_SHOWN])}")
        return listed

    async def _look_up(self, family: int) -> list[str]:
        host, port = self._address
        name = host.encode() if host.isascii() else host  # Python loads its tables of Unicode for a name that is a text
        try:
            found = await running_loop().in_thread(lambda: socket.getaddrinfo(name, port, family, socket.SOCK_STREAM))
        except (OSError, ValueError) as error:  # ValueError: not a valid name, such as one of 300 letters
            raise UnknownHost(self._address, _RESOLVING, _words(error)) from error
        return list(dict.fromkeys(_literal(info) for info in found))

    def _not_allowed(self, nor: str) -> HostNotAllowed:
        problem = f"featuregate.allowed.hosts lists neither this host and port {nor}: add it if it is a broker of yours"
        return HostNotAllowed(self._address, _CONNECTING, problem)

    async def _attempt(self, host: str) -> Carrier | None:
        connected = False

        def made() -> Session:
            nonlocal connected
            if self._tls:
                connected, self._stage = True, _HANDSHAKE
            return self._make()

        name = self._address.host.partition("%")[0] if self._tls else None
        try:
            return await _connect(host, self._address.port, self._tls, name, made)
        except (OSError, ValueError) as error:
            self._failures.append(self._failed(error, connected=connected))
            return None

    def _failed(self, error: OSError | ValueError, *, connected: bool) -> NetError:
        if connected:
            from featuregate.net.tls import explain, is_mismatch  # noqa: PLC0415 - only TLS waits for it

            failure: NetError = TlsFailed(self._address, _HANDSHAKE, explain(error))
            if is_mismatch(error):
                problem = f"the certificate is not for {self._address.host!r}: {_MISMATCH_ADVICE}"
                failure = HostNameMismatch(self._address, _HANDSHAKE, problem)
        else:
            failure = ConnectFailed(self._address, _CONNECTING, _words(error))
        failure.__cause__ = error
        return failure

    def _worst(self) -> NetError:
        """Choose the failure to report of several addresses: that of a peer that was reached is more specific."""
        reached = [failure for failure in self._failures if isinstance(failure, TlsFailed)]
        return (reached or self._failures)[-1]


async def _connect(
    host: str, port: int, tls: ssl.SSLContext | None, name: str | None, make: Callable[[], Session]
) -> Carrier:
    if (loop := running_short_loop()) is not None:
        from featuregate.net.carrier import connect_socket  # noqa: PLC0415 - one of the two is needed

        return await connect_socket(loop, host, port, tls, name, make)
    from featuregate.net import asyncio_carrier  # noqa: PLC0415 - see above

    return await asyncio_carrier.connect(host, port, tls, name, make)


def _is_literal(host: str, family: int) -> bool:
    """Return whether the host is an address, which needs no resolver; one with a zone needs it."""
    for kind in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(kind, host)
        except (OSError, ValueError):
            continue
        return family in {socket.AF_UNSPEC, kind}
    return False


def _literal(info: tuple[object, ...]) -> str:
    """Take the address, with its zone where it has one, out of a result of the resolver."""
    where = info[4]
    assert isinstance(where, tuple)
    host = str(where[0])
    scope = where[3] if len(where) > len(("host", "port", "flow")) else 0
    return f"{host}%{scope}" if scope and "%" not in host else host


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error)
