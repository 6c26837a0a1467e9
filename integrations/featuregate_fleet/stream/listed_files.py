"""Spark's own list of the files that a stream has found, which is in its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_BATCH: Final = '"batchId":'
"""The last field of an entry (FileStreamSource.FileEntry)."""


def listed_files(checkpoint: Path, after: int) -> Iterator[tuple[int, str]]:
    """Yield number and file of the entries in Spark's list of files that are newer than one of its numbers.

    Each number has a file. Each tenth one also has the entries of those before.
    """
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        if int(log.name.partition(".")[0]) > after:
            with log.open(encoding="utf-8") as lines:
                next(lines, None)  # the version of the format
                for line in lines:
                    if int(line.rpartition(_BATCH)[2].rstrip("}\n")) > after:
                        entry = json.loads(line)
                        yield entry["batchId"], entry["path"]
