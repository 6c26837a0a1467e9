"""From the text of a page to samples: Prometheus' text format 0.0.4, by prometheus-client's parser, within bounds."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from featuregate_fleet.metrics.spellings import Meaning, meaning_of, spelled_as

MOST_PAGE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one page: without rules a broker with 400 partitions more has 2 MB."""
MOST_SAMPLES: Final = 50_000
"""Samples of these metrics on one page. A broker has a few hundred: pairs of API and version, and of software."""
_LONGEST_LINE: Final = 4_096
_NAME: Final = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)")


class PageError(ValueError):
    """A page has more than is believed, or is not text."""


class Sample(NamedTuple):
    """One value of one of these metrics."""

    meaning: Meaning
    value: float


class Samples(NamedTuple):
    """The samples of a page that are about clients."""

    samples: tuple[Sample, ...]
    unread: int
    """Lines of these metrics that are not in the text format, and one more for a page that does not end with a line."""


def samples_of(page: bytes) -> Samples:
    """Read a page.

    Raises
    ------
    PageError
        The page is over a bound.
    """
    if len(page) > MOST_PAGE_BYTES:
        raise PageError(f"the page has more than {MOST_PAGE_BYTES} bytes")
    found = (line.decode(errors="replace") for line in io.BytesIO(page) if _is_of_interest(line))
    kept = list(islice(found, MOST_SAMPLES + 1))
    if len(kept) > MOST_SAMPLES:
        raise PageError(f"the page has more than {MOST_SAMPLES} samples of metrics about clients")
    parsed, unread = _parsed(kept)
    is_cut = not page.endswith(b"\n")  # what is missing is not known, and the last value may lack digits
    return Samples(tuple(parsed), unread + is_cut)


def _is_of_interest(line: bytes) -> bool:
    name = _NAME.match(line)
    return name is not None and spelled_as(name[1].decode()) is not None


def _parsed(lines: Sequence[str]) -> tuple[list[Sample], int]:
    """Parse all lines at once; or one by one, where one of them is wrong: it stops nothing but itself."""
    try:
        return list(_parse([line for line in lines if len(line) <= _LONGEST_LINE])), _too_long(lines)
    except Exception:  # noqa: BLE001 - the parser raises also what it does not mean to, such as IndexError
        parsed: list[Sample] = []
        unread = 0
    for line in lines:
        try:
            parsed += _parse([line]) if len(line) <= _LONGEST_LINE else []
        except Exception:  # noqa: BLE001 - likewise
            unread += 1
    return parsed, unread + _too_long(lines)


def _too_long(lines: Sequence[str]) -> int:
    return sum(1 for line in lines if len(line) > _LONGEST_LINE)


def _parse(lines: Sequence[str]) -> Iterator[Sample]:
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if meaning := meaning_of(sample.name, sample.labels):
                yield Sample(meaning, sample.value)
