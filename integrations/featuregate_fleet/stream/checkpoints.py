"""The checkpoint of a stream, ready for a run that continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LOGS = ("commits", "offsets", "sources/0")


def resumed(checkpoint: Path) -> str:
    """Return the folder of a checkpoint, without checksums of files that are gone.

    Hadoop keeps ``.7.crc`` beside ``7``. Where the file of a micro-batch was deleted or lost, and its checksum was not,
    Spark cannot write that file again, and reports that another query uses the checkpoint.
    """
    for log in _LOGS:
        for checksum in (checkpoint / log).glob(".*.crc"):
            if not checksum.with_name(checksum.name[1 : -len(".crc")]).exists():
                checksum.unlink()
    return str(checkpoint)
