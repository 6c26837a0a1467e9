"""Tables as plain files of Parquet, for readers that know no Delta Lake: a folder for each micro-batch.

The name of the folder is made of the id of the micro-batch, so that a batch that is run again is written once. Spark
puts ``_SUCCESS`` there last; a folder without it does not count. Rows are added, and never changed.
"""

from __future__ import annotations

import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from featuregate_fleet.tables.folder import BatchId, Tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

_DONE: Final = "_SUCCESS"
_DIGITS: Final = 32
_REWRITTEN: Final = "rewritten"


class ParquetTables(Tables):
    """Tables without transactions."""

    def version(self, table: str) -> int | None:
        """Return how many micro-batches of a table readers see; None where it does not exist."""
        return len(self._seen(table)) or None

    def append(self, table: str, rows: DataFrame, batch: BatchId) -> None:
        """Write the rows of a micro-batch into a folder of its own, unless they are there."""
        folder = self._folder_of(table, batch)
        if not (folder / _DONE).exists():
            self._whole_rows(table, rows, batch).coalesce(1).write.mode("overwrite").parquet(str(folder))

    def _overwrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of this cluster. A reader may see both for a moment."""
        before = self._newest(table)
        last = max((int(path.name.rpartition("-")[2]) for path in before), default=0)
        rows.coalesce(1).write.mode("overwrite").parquet(str(self._folder_of(table, BatchId(_REWRITTEN, last + 1))))
        for path in before:
            shutil.rmtree(path)

    def _rows(self, table: str) -> DataFrame:
        return self._spark.read.option("mergeSchema", "true").parquet(*map(str, self._seen(table)))

    def _newest(self, table: str) -> list[Path]:
        return sorted(done.parent for done in (self._folder / table / self._cluster).glob(f"*/{_DONE}"))

    def _folder_of(self, table: str, batch: BatchId) -> Path:
        name = sha256(batch.query_id.encode()).hexdigest()[:_DIGITS]
        return self._folder / table / self._cluster / f"{name}-{batch.batch_id}"
