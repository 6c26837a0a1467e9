"""Spares a reused Python worker what Spark does around each of its tasks: 80 ms of processor time on Python 3.11.

Spark has its daemon fork a worker, and gives it one task after the other. Before a task the worker invalidates the
caches of all importers, and after it the worker collects garbage.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zipimport import zipimporter

import pyspark

if TYPE_CHECKING:
    import pyarrow as pa

    RowsOfTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class ReusedWorkerTask:
    """A function for ``mapInArrow``, whose worker is spared the work around its next tasks. It pickles as it does."""

    def __init__(self, function: RowsOfTask) -> None:
        self._function = function

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the function yields."""
        drop_importers_outside(Path(pyspark.SparkFiles.getRootDirectory()))
        yield from self._function(rows)
        freeze_once()


def drop_importers_outside(folder: Path) -> None:
    """Drop the importers of all archives outside the folder to which Spark adds the app's files.

    Before Python 3.13 an importer whose caches are invalidated reads the directory of its archive at once
    (cpython#103200), and a worker has one for each imported package of ``pyspark.zip``. Only the files of that folder
    change while a worker runs. Python makes an importer again when it needs one.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and folder not in Path(finder.archive).parents:
            sys.path_importer_cache.pop(path, None)


def freeze_once() -> None:
    """Freeze the objects of the modules, so that the garbage collector does not visit them after each task."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
