"""Addresses to listen on, and who reaches them. Pure."""

from __future__ import annotations

import ipaddress
from typing import Final, Self

from featuregate.config.addresses import Address

_HIGHEST_PORT: Final = 65535


class ListenAddress(Address):
    """``HOST:PORT``."""

    __slots__ = ()

    @property
    def loopback(self) -> bool:
        """Whether processes of this machine only reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``HOST:PORT``, with brackets around an IPv6 address; raises ValueError."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdecimal()) or int(port) > _HIGHEST_PORT:
            raise ValueError(f"{text!r} is not HOST:PORT")
        return cls(host, int(port))
