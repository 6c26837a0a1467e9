"""Rows of the tables with hashes in place of principals and addresses. Pure: executors run it within ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.reasons import OF_FILES

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms


def hide_names(batches: Iterable[pa.RecordBatch], table: str, pseudonyms: Pseudonyms) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table of `WITH_NAMES` with hashes.

    The text of a line in quarantine is left out, because the place of a name in it is unknown; so no replay can read
    it again. The reason why a file cannot be read stays.
    """
    for batch in batches:
        changed = {name: change(batch, name, pseudonyms) for name, change in _CHANGES[table].items()}
        columns = [changed.get(name, batch.column(name)) for name in batch.schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _hashed(batch: pa.RecordBatch, name: str, pseudonyms: Pseudonyms) -> pa.Array:
    names = batch.column(name).dictionary_encode()
    hashes = [pseudonyms.of(each) for each in names.dictionary.to_pylist()]
    return pa.array(hashes, batch.schema.field(name).type).take(names.indices)


def _members(batch: pa.RecordBatch, name: str, pseudonyms: Pseudonyms) -> pa.Array:
    def changed(member: dict[str, Any]) -> dict[str, Any]:
        host = member["client_host"]
        return member | {"client_host": host and pseudonyms.of(host)}

    rows = [members and [changed(member) for member in members] for members in batch.column(name).to_pylist()]
    return pa.array(rows, batch.schema.field(name).type)


def _without_text(batch: pa.RecordBatch, name: str, _: Pseudonyms) -> pa.Array:
    of_files = pc.is_in(batch.column("reason"), pa.array(sorted(OF_FILES)))
    return pc.if_else(of_files, batch.column(name), pa.scalar("" if name == "raw" else False))


_CHANGES: Final[dict[str, dict[str, Callable[[pa.RecordBatch, str, Pseudonyms], pa.Array]]]] = {
    "api_usage": {"principal": _hashed, "client_host": _hashed},
    "coordinator_records": {"members": _members},
    # All else in a line is known or can be guessed: without the key its hash would tell the address.
    "log_lines": {"principal": _hashed, "client_host": _hashed, "connection": _hashed, "hash": _hashed},
    "quarantine": {"raw": _without_text, "whole": _without_text},
}

WITH_NAMES: Final = frozenset(_CHANGES)
"""The tables whose rows have principals or addresses."""
