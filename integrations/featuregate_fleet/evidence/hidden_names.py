"""Rows with hashes in place of principals and addresses. Pure: executors run it within ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from featuregate_fleet.evidence.columns import rows_of

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms


def hidden(batches: Iterable[pa.RecordBatch], names: Pseudonyms | None) -> Iterator[pa.RecordBatch]:
    """Yield `featuregate_fleet.evidence.columns.ROWS` with hashes, or as they are where ``names`` is None.

    Each batch has rows of one kind. The text of a line in quarantine is left out, because the place of a name in it is
    unknown.
    """
    for batch in batches:
        kind = batch.column("kind")[0].as_py() if names and batch.num_rows else None
        yield (
            batch if names is None or kind not in _CHANGES else rows_of(kind, _changed(batch.column(kind), kind, names))
        )


def _changed(rows: pa.StructArray, kind: str, names: Pseudonyms) -> pa.StructArray:
    columns = rows.flatten()
    for name, change in _CHANGES[kind].items():
        index = rows.type.get_field_index(name)
        columns[index] = change(columns[index], names)
    return pa.StructArray.from_arrays(columns, fields=list(rows.type))


def _hashed(texts: pa.Array, names: Pseudonyms) -> pa.Array:
    found = texts.dictionary_encode()
    hashes = [names.of(each) for each in found.dictionary.to_pylist()]
    return pa.array(hashes, texts.type).take(found.indices)


def _members(members: pa.Array, names: Pseudonyms) -> pa.Array:
    found = members.to_pylist()
    for member in (one for each in found for one in each or ()):
        member["client_host"] = member["client_host"] and names.of(member["client_host"])
    return pa.array(found, members.type)


def _left_out(texts: pa.Array, _: Pseudonyms) -> pa.Array:
    return pa.repeat(pa.scalar("", texts.type), len(texts))


_CHANGES: Final[dict[str, dict[str, Callable[[pa.Array, Pseudonyms], pa.Array]]]] = {
    # All else in a connection is known or can be guessed: a hash of the address alone would tell it.
    "usage": {"principal": _hashed, "client_host": _hashed, "connection": _hashed},
    "quarantine": {"raw": _left_out},
    "record": {"members": _members},
}
