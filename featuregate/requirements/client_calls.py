"""The requirement that brokers serve what a client calls, by the catalog's table of clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final

from featuregate.catalog.clients import ClientRow, OnBroker, client_rows, measured_clients
from featuregate.errors import ConfigError
from featuregate.requirements.language import And, ApiBetween, Requirement

CORE_STEPS: Final = ("produce", "consume", "commit", "offsets", "rebalance")
"""What every client does, sooner or later."""
_CORE_APIS: Final = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14)
"""Produce, Fetch, ListOffsets, Metadata, and the classic protocol of groups."""


def measured_row(name: str, version: str | None) -> ClientRow:
    """Return the row of a release of a client; by default of the installed one.

    Raises
    ------
    ConfigError
        The client is not installed, or this release of it was not measured.
    """
    try:
        wanted = version or metadata.version(name)
    except metadata.PackageNotFoundError:
        raise ConfigError("client", f"{name} is not installed here: give its version") from None
    rows = [row for row in client_rows(name) if any(works(found) for found in row.brokers.values())]
    for row in rows:
        if row.version == wanted:
            return row
    known = ", ".join(row.version for row in rows) or "none"
    raise ConfigError("client", f"{name} {wanted} was not measured, or never worked; measured are {known}")


def oldest_that_does(steps: Sequence[str]) -> dict[str, str]:
    """Return for each client the oldest release from which on these steps work on the newest measured brokers."""
    found: dict[str, str] = {}
    for client in measured_clients():
        for row in reversed([row for row in client_rows(client) if row.brokers]):
            newest = list(row.brokers.values())[-1].steps
            if not all(step in newest and newest[step].fate == "works" for step in steps):
                break
            found[client] = row.version
    return found


def requirement_of(row: ClientRow) -> Requirement:
    """Return that brokers serve the versions that a client calls, of all APIs that every app uses."""
    return And(tuple(_ranges(row)))


def _ranges(row: ClientRow) -> Iterator[ApiBetween]:
    """Yield for each API the range of the lowest and that of the highest version that a broker was sent.

    A client may send two versions of an API to one broker, as one for offsets by time and another one for the first
    offset: brokers must serve both.
    """
    asked = [found for offer, found in row.offers.items() if offer != "none"]  # else it guesses, whatever brokers serve
    worked = [found for found in (*row.brokers.values(), *asked) if works(found)]
    for key in _CORE_APIS:
        sent = [versions for found in worked if (versions := found.sends.get(key))]
        if sent:
            lowest, highest = [min(each) for each in sent], [max(each) for each in sent]
            ends = (min(lowest), max(lowest)), (min(highest), max(highest))
            yield from (ApiBetween(key, *both) for both in dict.fromkeys(ends))


def works(found: OnBroker) -> bool:
    """Return whether all that every app does was seen to work on a broker."""
    return all(found.steps.get(step) and found.steps[step].fate == "works" for step in CORE_STEPS)
