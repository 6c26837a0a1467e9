"""Which files are missing evidence, by what batches say of them."""

from collections import Counter

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.evidence.reasons import UNREADABLE, VANISHED
from featuregate_fleet.tables.source_reader import SourceAt, lost


def said(
    source: str,
    batch: int,
    reason: str | None = None,
    *,
    uri: str = "log",
    broker: str | None = "1",
    stamp: str = "1 1 7 whole",
    again: int | None = None,
    tail: str | None = "",
) -> SourceAt:
    return SourceAt(source, broker, uri, uri, batch, reason, stamp, again, tail)


NO_TIME = "7 log"
"""The name of a text without a time, which is that of its file."""
OTHER = "2 2 8 whole"
"""The stamp of another file."""
DAMAGED = said("a", 0, UNREADABLE)
UNOPENED = said(NO_TIME, 0, UNREADABLE, tail=None)
HEADLESS = said(NO_TIME, 0, UNREADABLE)
CASES = {
    "nothing": ([], {}),
    "read": ([said("a", 0)], {}),
    "damaged": ([DAMAGED], {("1", UNREADABLE): 1}),
    "damaged again": ([DAMAGED, said("a", 3, UNREADABLE)], {("1", UNREADABLE): 1}),
    "read on": ([said("a", 3), DAMAGED], {}),
    "damaged later": ([said("a", 0), said("a", 3, UNREADABLE)], {("1", UNREADABLE): 1}),
    "one piece of two": ([said("a", 0), DAMAGED, said("a", 0)], {("1", UNREADABLE): 1}),
    "one name of two": ([said("a", 0, VANISHED), said("a", 0, uri="log.1")], {}),
    "both names": ([said("a", 0, VANISHED), said("a", 0, UNREADABLE, uri="log.1")], {("1", UNREADABLE): 1}),
    "renamed later": ([said("a", 0, VANISHED), said("a", 1, uri="log.1")], {}),
    "another broker": ([said("a", 0, VANISHED), said("a", 1, uri="x", broker="2", stamp=OTHER)], {("1", VANISHED): 1}),
    "an unknown broker": ([said("a", 0, VANISHED, broker=None)], {(None, VANISHED): 1}),
    "mended in its file": ([UNOPENED, said("b", 1)], {}),
    "mended in its file, and known": ([UNOPENED, said("b", 0, uri="x", stamp=OTHER), said("b", 1)], {}),
    "another log in its file": ([HEADLESS, said("b", 1)], {("1", UNREADABLE): 1}),
    "another log in its place": ([UNOPENED, said("b", 1, stamp=OTHER)], {("1", UNREADABLE): 1}),
    "replaced, and asked for": ([HEADLESS, said("b", 1, stamp=OTHER, again=0)], {}),
    "damaged, and another log in its file": ([DAMAGED, said("b", 1)], {("1", UNREADABLE): 1}),
    "another one asked for": ([DAMAGED, said("b", 1, uri="x", again=0)], {("1", UNREADABLE): 1}),
    "restored, and damaged": ([DAMAGED, said("b", 1, UNREADABLE)], {("1", UNREADABLE): 2}),
    "another file before": ([said("b", 0), said(NO_TIME, 1, UNREADABLE)], {("1", UNREADABLE): 1}),
    "vanished under the next log": ([said("a", 0, VANISHED), said("b", 1, stamp=OTHER)], {("1", VANISHED): 1}),
    "renamed without a time": ([said(NO_TIME, 0, VANISHED), said("7 x", 1, uri="x", stamp="1 2 7 whole")], {}),
    "deleted once it was read": ([said("a", 0), said("a", 1, VANISHED, uri="x", stamp="1 2 7 whole")], {}),
    "deleted while its end waits": (
        [said("a", 0, stamp="1 1 7"), said("a", 1, VANISHED, uri="x", stamp="1 2 7 whole")],
        {("1", VANISHED): 1},
    ),
    "two files": ([said("a", 0, VANISHED), said("b", 0, VANISHED, uri="x", stamp=OTHER)], {("1", VANISHED): 2}),
    "two on a storage": (
        [said("a", 0, VANISHED, stamp="9"), said("b", 1, uri="x", stamp="9 whole")],
        {("1", VANISHED): 1},
    ),
}


@pytest.mark.parametrize(("rows", "missing"), CASES.values(), ids=CASES)
def test_invariant_11_a_text_counts_as_missing_until_it_is_read(
    rows: list[SourceAt], missing: dict[tuple[str | None, str], int]
):
    """In whatever order its rows come. Half of it may hide a client."""
    for order in (rows, rows[::-1]):
        assert Counter((one.broker, one.reason) for one in lost(order)) == missing
