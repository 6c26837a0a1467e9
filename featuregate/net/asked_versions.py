"""Which version of ApiVersions to ask an address for, after it has closed the connection on newer ones. No I/O.

A Kafka broker answers error 35 to a version that it does not know (KIP-511). Some services and proxies close or reset
the connection instead, without a byte: Azure Event Hubs on v4 (twmb/franz-go#1022, dpkp/kafka-python#2602),
Kroxylicious up to 0.9 on v4 (kroxylicious/kroxylicious#1611), KoP up to 2.6 on v3 (streamnative/kop#166). The next
connection asks for an older version. A broker that is restarting closes connections, too, so an answer is remembered
for some minutes only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.wire.session import NEWEST

if TYPE_CHECKING:
    from featuregate.config import Address

OLDER: Final = (3, 0)
"""The versions to try after the newest one: the last before 3.9 (KAFKA-17011), and the one that every broker has."""
_REMEMBERED: Final = 600.0
"""Seconds after which an address is asked for the newest version again: a service may have learned it by then."""


class _Asked(NamedTuple):
    version: int
    at: float


class AskedVersions:
    """The versions of ApiVersions that addresses answer, of those that close the connection on newer ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[Address, _Asked] = {}

    @property
    def closed_on_newer(self) -> dict[Address, int]:
        """Each address that closed the connection on newer versions, with the version that it answered."""
        return {address: asked.version for address, asked in list(self._asked.items())}

    def newest(self, address: Address) -> int:
        """Return the newest version to ask an address for."""
        asked = self._asked.get(address)
        return NEWEST if asked is None or self._clock() - asked.at > _REMEMBERED else asked.version

    def to_try(self, address: Address) -> Iterator[int]:
        """Yield the versions to ask for, each on a connection of its own, until one is answered."""
        newest = self.newest(address)
        yield newest
        yield from (version for version in OLDER if version < newest)

    def answered(self, address: Address, version: int) -> None:
        """Note that an address answered ``version`` and, where that is not the newest, closed on newer ones."""
        if version == NEWEST:
            self._asked.pop(address, None)
        elif self.newest(address) != version:
            self._asked[address] = _Asked(version, self._clock())

    def forget(self, address: Address) -> None:
        """Ask for the newest version next time: the address answers none."""
        self._asked.pop(address, None)

    def keep(self, addresses: set[Address]) -> None:
        """Forget all other addresses."""
        for address in self._asked.keys() - addresses:
            del self._asked[address]
