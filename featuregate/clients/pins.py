"""Which ``api_version`` may be set in kafka-python and aiokafka, which otherwise ask the broker. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featuregate.catalog.clients import ClientRow, version_numbers
from featuregate.catalog.releases import release_of
from featuregate.clients.neighbours import neighbours


def lowest_pin(rows: Sequence[ClientRow], release: str) -> str | None:
    """Return the lowest ``api_version`` that works on a release of Kafka, if older releases work with a lower one.

    Empty where the client takes no value. ``rows`` are the measured neighbours of a client. None where they differ, or
    where the setting does no harm.
    """
    found = {_on(row.pins, release) for row in rows}
    pin = found.pop() if len(found) == 1 else None
    worked = [each for row in rows for each in row.pins.values() if each]
    harms = pin == "" or (pin and any(version_numbers(each) < version_numbers(pin) for each in worked))
    return pin if harms else None


def _on(pins: Mapping[str, str], release: str) -> str | None:
    """Return the measured pin of a release of Kafka, or what the two around it agree on."""
    known = [pin for measured, pin in pins.items() if release_of(measured) == release]
    if known:
        return known[0]
    around = {pin for _, pin in neighbours(list(pins.items()), release, lambda one: one[0])}
    return around.pop() if len(around) == 1 else None
