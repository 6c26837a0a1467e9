"""The rows of the quarantine for one file, or for a piece of it: their number is bounded, whatever the lines are. Pure.

The first lines of each reason have a row each. Those after them share a row with others that are alike: of the same
reason, and, of cut requests, with the same head, because a head is evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from featuregate_fleet.evidence.columns import QUARANTINE, rows_of
from featuregate_fleet.evidence.reasons import ROWS_OF_REASON
from featuregate_fleet.evidence.wall_times import placed

if TYPE_CHECKING:
    Row = dict[str, Any]

_ALIKE: Final = ("reason", "forwarded", "client_id", "api_key", "version", "in_utc")
MOST_SHARED: Final = 10_000
"""Rows that are held back until the end of the file."""
_SHARED_RAW: Final = 160
"""Characters of the first of some lines that are alike."""


class QuarantinedLines:
    """Lines of one file that are not evidence."""

    def __init__(self) -> None:
        self.count = 0
        """How many lines there were."""
        self._of_reason: Counter[str] = Counter()
        self._shared: dict[tuple[Any, ...], Row] = {}

    def add(self, rows: Sequence[Row]) -> list[Row]:
        """Take a row for each of some lines; return those that go to the table now."""
        self.count += len(rows)
        own = [row for row in rows if not self._shares(row)]
        return own + self.end() if len(self._shared) > MOST_SHARED else own

    def end(self) -> list[Row]:
        """Return the rows that each represent several lines, and forget them."""
        shared = list(self._shared.values())
        self._shared.clear()
        return shared

    def _shares(self, row: Row) -> bool:
        """Return whether a row is counted in another one."""
        self._of_reason[row["reason"]] += 1
        if self._of_reason[row["reason"]] <= ROWS_OF_REASON:
            return False
        first = row | {"lines": 0, "raw": row["raw"][:_SHARED_RAW]}
        shared = self._shared.setdefault(tuple(row.get(name) for name in _ALIKE), first)
        shared["lines"] += 1
        if shared.get("seen_at"):
            shared["seen_at"] = max(shared["seen_at"], row["seen_at"])
        return True


def quarantine_rows(rows: Sequence[Row], time_zone: str) -> pa.RecordBatch:
    """Return rows of files of one time zone as `featuregate_fleet.evidence.columns.ROWS`."""
    rows = [{"lines": 1, **row} for row in rows]
    table = pa.Table.from_struct_array(pa.array(rows, pa.struct([*QUARANTINE, ("in_utc", pa.bool_())])))
    times = placed(table["seen_at"], table["in_utc"], time_zone)
    whole = table.set_column(table.schema.get_field_index("seen_at"), "seen_at", times).select(QUARANTINE.names)
    return rows_of("quarantine", whole.to_struct_array().combine_chunks())
