"""From the text of a page to a target with one sample: what its counters say of the time since the broker started.

Prometheus' text format 0.0.4 is read by prometheus-client's parser, within bounds.
"""

from __future__ import annotations

import codecs
import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from featuregate.printable import some
from featuregate_fleet.metrics.evidence import HOUR_SECONDS, whole
from featuregate_fleet.metrics.spellings import (
    Connected,
    Deprecated,
    Meaning,
    Requests,
    ScrapeFailed,
    Started,
    Unusable,
    meaning_of,
    spelled_as,
)
from featuregate_fleet.metrics.targets import Growth, Target, called, life_of, started_at, time_of

MOST_PAGE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one page: without rules a broker with 400 partitions more has 2 MB."""
MOST_SAMPLES: Final = 50_000
"""Samples of these metrics on one page. A broker has a few hundred: pairs of API and version, and of software."""
_LONGEST_LINE: Final = 4_096
_NAME: Final = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)")


@dataclass(eq=False, kw_only=True)
class Page(Target):
    """What one page says of clients."""

    at: datetime
    """When it was read."""
    values: dict[Meaning, float]
    """Without counters that are 0."""

    def __post_init__(self) -> None:
        now = self.at.timestamp()
        self.labels, self.counts = {"instance": self.broker}, {now: 1}
        self.series = dict.fromkeys(self.values, self.labels)
        starts = self.of(Started)
        self.marks = {self.broker, *(life for one in starts if (life := life_of(one, self.values[one])))}
        start = self.start.seconds(self.values[self.start]) if self.start else None
        if start is not None and started_at(start):
            self.starts = {now: (start, start)}
        for one, value in self.values.items():
            match one:
                case Requests() | Deprecated():
                    self.grown[one] = [Growth(start, now, int(value))]
                case Connected(software, version, listener, _):
                    connections = self.connected[listener, software, version]
                    connections[now] = connections.get(now, 0) + value
        if self.of(ScrapeFailed):
            self.problem = "their exporter could not read all of them, as jmx_scrape_error says"
        ids = {one.broker for one in starts if one.broker}
        if len(ids) > 1 or (self.broker.isdecimal() and ids - {self.broker}):
            self.problem = f"they say that it is broker {some(sorted(ids))}"

    def covered(self, ends: Iterable[float]) -> Iterator[float]:
        """Yield the hours since the broker started: its counters have all that came in this life."""
        return (end for end in ends if self._has(end - HOUR_SECONDS, end))

    def runs(self, last: float, until: float) -> bool:
        """Return whether it has the hour that runs."""
        return self._has(last, until)

    def _has(self, begin: float, end: float) -> bool:
        return self.started is not None and self.started.timestamp() <= begin and end <= self.at.timestamp() + 1


def page_of(body: bytes, broker: str, at: datetime, *, is_named: bool = True) -> Page:
    """Read a page. Raises ValueError (the page is over a bound).

    ``broker`` is what the operator calls it, or where it was read: not ``is_named``, so that the id of the broker, if a
    metric has it, is the better name.
    """
    if len(body) > MOST_PAGE_BYTES:
        raise ValueError(f"the page has more than {MOST_PAGE_BYTES} bytes")
    text = io.BytesIO(body.removeprefix(codecs.BOM_UTF8))
    lines = list(islice(filter(_is_of_interest, text), MOST_SAMPLES + 1))
    if len(lines) > MOST_SAMPLES:
        raise ValueError(f"the page has more than {MOST_SAMPLES} samples of metrics about clients")
    values: dict[Meaning, float] = {}
    newest: datetime | None = None  # a copy is as old as its samples
    unread = 0 if body.endswith(b"\n") else 1  # what is missing is not known, and the last value may lack digits
    for line in lines:
        try:
            for meaning, value, sampled in _samples(line):
                when = at if sampled is None else min(at, time_of(max(sampled, 0.0)))
                values[meaning] = max(value, values.get(meaning, value))
                newest = max(newest or when, when)
        except Exception:  # noqa: BLE001 - the parser raises also what it does not mean to, such as IndexError
            unread += 1
    name = broker if is_named else called(values, broker)
    return Page(broker=name, at=newest or at, values=values, unread=unread)


def _is_of_interest(line: bytes) -> bool:
    name = _NAME.match(line)
    return name is not None and spelled_as(name[1].decode()) is not None


def _samples(line: bytes) -> Iterator[tuple[Meaning, float, float | None]]:
    """Yield the sample of a line with its time, if it has one. Raises ValueError, among others (it cannot be read)."""
    if len(text := line.decode(errors="replace")) > _LONGEST_LINE:
        raise ValueError(f"a line has more than {_LONGEST_LINE} characters")
    for sample in (one for family in text_string_to_metric_families(text) for one in family.samples):
        meaning, value = meaning_of(sample.name, sample.labels), sample.value
        sampled = None if sample.timestamp is None else float(sample.timestamp)
        if isinstance(meaning, Unusable):
            yield meaning, 0.0, sampled
        elif meaning and not (math.isfinite(value) if isinstance(meaning, Started) else whole(value) is not None):
            raise ValueError(f"{value} is not a time or a number of events")
        elif meaning and (value or isinstance(meaning, Connected | Started)):
            yield meaning, value, sampled
