"""What releases of Kafka clients were seen to do on real brokers. The table is loaded at the first lookup. Pure.

``scripts/clients.py`` measures the table: nothing in it is written by hand. A release that is not in it stands between
two that are (`ClientRow.version` orders them), and is known where both agree.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from featuregate.catalog.load import load

T = TypeVar("T")

LIBRDKAFKA: Final = "librdkafka"
_OF_ITS_VERSION: Final = frozenset({LIBRDKAFKA, "confluent-kafka-dotnet"})
"""The names of software that reports the version of librdkafka as its own. A wrapper without a name is librdkafka."""
_BUNDLED: Final = re.compile(r"(?:^|-)(?:lib)?rdkafka-v?(\d[\w.-]*)")
"""As confluent-kafka reports it: ``2.16.1-rdkafka-2.16.0`` in Python, ``1.4.2-librdkafka-1.4.2`` in Go."""

_BEFORE: Final = re.compile(
    r"v?\d+(?:\.\d+)*[-._]?(?:a|b|c|m|rc|alpha|beta|dev|pre|preview|snapshot)(?![a-z])", re.ASCII | re.IGNORECASE
)


class Step(NamedTuple):
    """What became of one step of a client on one broker."""

    fate: str
    """``works``, ``fails``, or ``absent`` where the release of the client does not have it."""
    why: str = ""
    """What the client said where it failed, without addresses."""
    refused: tuple[tuple[int, int], ...] = ()
    """API key and version of the requests that brokers of this release refuse."""


class OnBroker(NamedTuple):
    """What one release of a client did on one release of Kafka."""

    sends: Mapping[int, tuple[int, ...]]
    """API key to the versions that it sent in all steps."""
    steps: Mapping[str, Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """One measured release of a client."""

    client: str
    version: str
    seen: str
    """The day, in ISO 8601."""
    how: str
    """How it was installed."""
    bundles: Mapping[str, str]
    """The libraries in it that speak the protocol, by name, such as librdkafka."""
    software: tuple[tuple[str, str], ...]
    """The names and versions that it reported to brokers (KIP-511); none where it reports none."""
    brokers: Mapping[str, OnBroker]
    """By the release of Kafka, oldest first."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """By the release of Kafka, the lowest ``api_version`` with which the client works, where it has this setting."""
    offers: Mapping[str, OnBroker] = field(default_factory=dict)
    """What it falls back to where a broker offers one version of each API, the ``newest`` or the ``oldest``, or does
    not answer ApiVersions, ``none``; empty where that was not measured."""


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``2.6.1`` is (2, 6, 1), ``4.0.0`` is 4 as 4.0 is; a suffix does not count."""
    found = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", version)  # clients say their version: any number of digits
    numbers = [int(part) for part in found.group(1).split(".")] if found else []
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def neighbours(known: Sequence[T], version: str, version_of: Callable[[T], str]) -> tuple[T, ...]:
    """Return the measured one of this version, or the two around it; empty where it is not between two.

    What came before a release, such as 2.6.1rc1, is not the release.
    """
    wanted = version_numbers(version)
    below = [each for each in known if version_numbers(version_of(each)) < wanted]
    same = [each for each in known if version_numbers(version_of(each)) == wanted]
    above = [each for each in known if version_numbers(version_of(each)) > wanted]
    if _BEFORE.match(version):
        same, above = [], [*same, *above]
    if same:
        return (same[0],)
    return (below[-1], above[0]) if below and above and wanted else ()


@functools.cache
def client_rows(client: str) -> tuple[ClientRow, ...]:
    """Return the measured releases of a client, oldest first; none for a client that was not measured.

    ``librdkafka`` has those of the clients that bring it along.
    """
    table = _table()
    if client == LIBRDKAFKA:
        bringing = [row for rows in table.values() for row in rows if row.brokers and LIBRDKAFKA in row.bundles]
        first = {row.bundles[LIBRDKAFKA]: row for row in reversed(bringing)}
        found = [replace(row, client=LIBRDKAFKA, version=version) for version, row in first.items()]
        return tuple(sorted(found, key=lambda row: version_numbers(row.version)))
    return table.get(client, ())


@functools.cache
def rows_without_a_name() -> tuple[tuple[ClientRow, frozenset[tuple[int, int]]], ...]:
    """Return the measured releases that report no software, and the API keys and versions that each of them sends."""
    rows = [row for client in _table() for row in client_rows(client) if row.brokers and not row.software]
    return tuple(
        (row, frozenset((key, one) for on in row.brokers.values() for key, sent in on.sends.items() for one in sent))
        for row in rows
    )


def measured_clients() -> tuple[str, ...]:
    """Return the names of the clients in the table."""
    return tuple(_table())


@functools.cache
def client_of_software(name: str, version: str) -> tuple[str, str] | None:
    """Return client and release for the software that a client reported to a broker; None for unknown software.

    The release may be one that was not measured. Of software with librdkafka in it, the release is that of librdkafka.
    """
    if found := _BUNDLED.search(version):
        return LIBRDKAFKA, found.group(1)
    if name in _OF_ITS_VERSION:
        return LIBRDKAFKA, version
    for client, rows in _table().items():
        if name == client or any(name == known for row in rows for known, _ in row.software):
            return client, version
    return None


@functools.cache
def _table() -> Mapping[str, tuple[ClientRow, ...]]:
    clients = (load("clients") or {"clients": {}})["clients"]
    return MappingProxyType(
        {client: tuple(_row(client, version, row) for version, row in rows.items()) for client, rows in clients.items()}
    )


def _row(client: str, version: str, row: Mapping[str, Any]) -> ClientRow:
    return ClientRow(
        client=client,
        version=version,
        seen=row["seen"],
        how=row["how"],
        bundles=row["bundles"],
        software=tuple((name, said) for name, said in row["software"]),
        brokers={release: _on_broker(found) for release, found in inherited(row["brokers"]).items()},
        pins=row.get("pins", {}),
        offers={name: _on_broker(found) for name, found in inherited(row.get("offers", {})).items()},
    )


def inherited(brokers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return all that was seen on each broker. In the file, a broker has only what differs from the one before it."""
    found: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    for release, changed in brokers.items():
        before = found[release] = {**before, **changed}
    return found


def _on_broker(found: Mapping[str, Any]) -> OnBroker:
    return OnBroker(
        sends={int(key): tuple(versions) for key, versions in found["sends"].items()},
        steps={name: _step(step) for name, step in found["steps"].items()},
    )


def _step(step: str | Mapping[str, Any]) -> Step:
    if isinstance(step, str):
        return Step(step)
    return Step("fails", step["why"], tuple((key, version) for key, version in step.get("refused", ())))
