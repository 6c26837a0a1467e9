"""From the text of pages to evidence: what each counter of a broker says of the time since it started.

Prometheus' text format 0.0.4 is read by prometheus-client's parser, within bounds.
"""

from __future__ import annotations

import io
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from featuregate.printable import some
from featuregate_fleet.metrics.evidence import (
    BrokerCoverage,
    MetricsEvidence,
    RequestCount,
    SoftwareSeen,
    host_names,
    named_by,
    without_nodes,
)
from featuregate_fleet.metrics.spellings import (
    SOURCES,
    Connected,
    Deprecated,
    Meaning,
    Requests,
    Started,
    Unusable,
    may_mean,
    meaning_of,
)
from featuregate_fleet.metrics.targets import (
    Life,
    M,
    called,
    life_of,
    of_kind,
    one_broker_each,
    shown,
    started_at,
    whole,
)
from featuregate_fleet.readiness.hours import HOUR, hour_of

MOST_PAGE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one page: without rules a broker with 400 partitions more has 2 MB."""
MOST_SAMPLES: Final = 50_000
"""Samples of these metrics on one page. A broker has a few hundred: pairs of API and version, and of software."""
_LONGEST_LINE: Final = 4_096
_NAME: Final = re.compile(rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)")


class PageError(ValueError):
    """A page has more than is believed."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one page, or all pages of one broker, say of clients."""

    broker: str
    at: datetime
    """When it was read."""
    values: dict[Meaning, float]
    """Without counters that are 0."""
    unread: int
    """Lines of these metrics that are not in the text format, and one more for a page that does not end with a line."""

    def of(self, kind: type[M]) -> dict[M, int]:
        """Return the values of one kind."""
        return {one: int(self.values[one]) for one in of_kind(kind, self.values)}

    @property
    def started(self) -> datetime | None:
        """When the broker started, by the best source that the page has."""
        starts = [(list(SOURCES).index(one.source), -one.seconds(self.values[one])) for one in self._starts]
        return started_at(-min(starts)[1]) if starts else None

    @property
    def marks(self) -> set[str | Life]:
        """What no page of another broker has: its name, and when it started."""
        lives = (life_of(one, self.values[one]) for one in self._starts)
        return {self.broker, *(life for life in lives if life)}

    @property
    def problem(self) -> str:
        """Why its metrics may be of another broker than they were named for, or of several; empty where not."""
        ids = {one.broker for one in self._starts if one.broker}
        is_other = len(ids) > 1 or (self.broker.isdecimal() and ids - {self.broker})
        return f"they say that it is broker {some(sorted(ids))}" if is_other else ""

    @property
    def _starts(self) -> list[Started]:
        return of_kind(Started, self.values)


def page_of(body: bytes, broker: str, at: datetime, *, is_named: bool = True) -> Page:
    """Read a page. Raises PageError (the page is over a bound).

    ``broker`` is what the operator calls it, or where it was read: not ``is_named``, so that the id of the broker, if a
    metric has it, is the better name.
    """
    if len(body) > MOST_PAGE_BYTES:
        raise PageError(f"the page has more than {MOST_PAGE_BYTES} bytes")
    lines = list(islice(filter(_is_of_interest, io.BytesIO(body)), MOST_SAMPLES + 1))
    if len(lines) > MOST_SAMPLES:
        raise PageError(f"the page has more than {MOST_SAMPLES} samples of metrics about clients")
    values: dict[Meaning, float] = {}
    unread = 0 if body.endswith(b"\n") else 1  # what is missing is not known, and the last value may lack digits
    for line in lines:
        try:
            for meaning, value in _samples(line):
                values[meaning] = max(value, values.get(meaning, value))
        except Exception:  # noqa: BLE001 - the parser raises also what it does not mean to, such as IndexError
            unread += 1
    return Page(broker if is_named else called(of_kind(Started, values), broker), at, values, unread)


def _is_of_interest(line: bytes) -> bool:
    name = _NAME.match(line)
    return name is not None and may_mean(name[1].decode())


def _samples(line: bytes) -> Iterator[tuple[Meaning, float]]:
    """Yield the sample of a line, if it says anything. Raises ValueError, among others (it cannot be read)."""
    if len(text := line.decode(errors="replace")) > _LONGEST_LINE:
        raise ValueError(f"a line has more than {_LONGEST_LINE} characters")
    for sample in (one for family in text_string_to_metric_families(text) for one in family.samples):
        meaning, value = meaning_of(sample.name, sample.labels), sample.value
        if isinstance(meaning, Unusable):
            yield meaning, 0.0
        elif meaning and not (math.isfinite(value) if isinstance(meaning, Started) else whole(value) is not None):
            raise ValueError(f"{value} is not a time or a number of events")
        elif meaning and (value or isinstance(meaning, Connected | Started)):
            yield meaning, value


def evidence_of(
    pages: Sequence[Page], since: datetime, until: datetime, problems: Sequence[tuple[str, str]] = ()
) -> MetricsEvidence:
    """Return what pages say of the time from ``since``. Two pages of one broker count once.

    ``problems`` has the brokers of which no page could be read, each with the reason.
    """
    brokers = [_together(group) for group in one_broker_each(pages, lambda page: page.marks)]
    unread = (BrokerCoverage(broker=one, is_broker=False, has_requests=False, problem=why) for one, why in problems)
    return MetricsEvidence(
        since=since,
        until=until,
        brokers=(*(_coverage(page, since, until) for page in brokers), *unread),
        requests=tuple(count for page in brokers for count in _requests(page)),
        deprecated=named_by(one for page in brokers for one in page.of(Deprecated)),
        software=tuple(seen for page in brokers for seen in _software(page)),
    )


def _together(pages: Sequence[Page]) -> Page:
    values: dict[Meaning, float] = {}
    for page in pages:
        values |= {one: max(value, values.get(one, value)) for one, value in page.values.items()}
    return Page(pages[0].broker, min(page.at for page in pages), values, sum(page.unread for page in pages))


def _coverage(page: Page, since: datetime, until: datetime) -> BrokerCoverage:
    started, hours = page.started, max(1, round((until - since) / HOUR))
    covered = max(0, round((page.at - max(started or page.at, since)) / HOUR))
    is_whole = started is not None and started <= since and abs(until - page.at) <= HOUR
    return replace(
        shown(page.broker, page.values),
        hosts=tuple(sorted(host_names(page.broker))),
        started=started,
        hours=hours if is_whole else min(covered, hours - 1),
        of_hours=hours,
        unread=page.unread,
        problem=page.problem,
    )


def _requests(page: Page) -> Iterator[RequestCount]:
    for (api, version), count in sorted(without_nodes(page.of(Requests)).items()):
        yield RequestCount(page.broker, api, version, count, page.started, page.at)


def _software(page: Page) -> Iterator[SoftwareSeen]:
    found: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for pair, connections in page.of(Connected).items():
        found[pair.listener, pair.software, pair.software_version] += connections
    for (listener, name, version), connections in sorted(found.items()):
        yield SoftwareSeen(page.broker, listener, name, version, hour_of(page.at), connections)
