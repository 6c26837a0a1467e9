"""Which files are missing evidence, by what batches say of them."""

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.evidence.reasons import UNREADABLE, VANISHED
from featuregate_fleet.tables.source_reader import SourceAt, failures


def said(
    source: str,
    batch: int,
    reason: str | None = None,
    *,
    uri: str = "log",
    broker: str | None = "1",
    inode: int = 7,
    read: int = 1,
) -> SourceAt:
    """Return what a batch says of a text."""
    return SourceAt(source, broker, uri, batch, reason, f"{batch} {batch} {inode} whole", 0 if reason else read)


CASES = {
    "nothing": ([], {}),
    "read": ([said("a", 0)], {}),
    "damaged": ([said("a", 0, UNREADABLE)], {("1", UNREADABLE): 1}),
    "damaged again": ([said("a", 0, UNREADABLE), said("a", 3, UNREADABLE)], {("1", UNREADABLE): 1}),
    "read on": ([said("a", 3), said("a", 0, UNREADABLE)], {}),
    "damaged later": ([said("a", 0), said("a", 3, UNREADABLE)], {("1", UNREADABLE): 1}),
    "one piece of two": ([said("a", 0), said("a", 0, UNREADABLE), said("a", 0)], {("1", UNREADABLE): 1}),
    "one name of two": ([said("a", 0, VANISHED), said("a", 0, uri="log.1")], {}),
    "both names": ([said("a", 0, VANISHED), said("a", 0, UNREADABLE, uri="log.1")], {("1", UNREADABLE): 1}),
    "renamed later": ([said("a", 0, VANISHED), said("a", 1, uri="log.1")], {}),
    "another broker": ([said("a", 0, VANISHED), said("a", 1, uri="x", broker="2")], {("1", VANISHED): 1}),
    "an unknown broker": ([said("a", 0, VANISHED, broker=None)], {(None, VANISHED): 1}),
    "restored as another text": ([said("a", 0, UNREADABLE), said("b", 1)], {}),
    "restored in another file": ([said("a", 0, UNREADABLE), said("b", 1, inode=8)], {}),
    "allowed, and read before": ([said("a", 0, UNREADABLE), said("b", 1, read=0)], {}),
    "lost by a rotation": ([said("a", 0, UNREADABLE), said("b", 1, inode=8, read=0)], {("1", UNREADABLE): 1}),
    "restored, and damaged": ([said("a", 0, UNREADABLE), said("b", 1, UNREADABLE)], {("1", UNREADABLE): 2}),
    "another file before": ([said("b", 0), said("a", 1, UNREADABLE)], {("1", UNREADABLE): 1}),
    "vanished under the next log": ([said("a", 0, VANISHED), said("b", 1)], {("1", VANISHED): 1}),
    "two files": ([said("a", 0, VANISHED), said("b", 0, VANISHED, uri="x")], {("1", VANISHED): 2}),
}


@pytest.mark.parametrize(("rows", "lost"), CASES.values(), ids=CASES)
def test_invariant_11_a_text_counts_as_missing_until_it_is_read(
    rows: list[SourceAt], lost: dict[tuple[str | None, str], int]
):
    """In whatever order its rows come. Half of it may hide a client."""
    assert failures(rows) == failures(reversed(rows)) == lost
