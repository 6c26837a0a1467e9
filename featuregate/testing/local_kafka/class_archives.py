"""Class archives (CDS, JEP 310 and 350): with one, a node needs about half of the processor time to start.

An archive holds the classes that a node of one release has loaded, as one Java keeps them in memory. It is beside the
jars, in a file named after both. Java ignores an archive that does not fit, and does not survive one that is cut short:
so it is written under another name.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def archive_of(jars: Path, java: Path) -> Path:
    """Return the path of the archive of a folder of jars for a Java; it may not exist."""
    program = java.resolve()
    identity = sha256(f"{program} {program.stat().st_mtime_ns}".encode()).hexdigest()
    return jars.with_name(f"{jars.name}-{identity[:12]}.jsa")


def options_to_read(archive: Path) -> list[str]:
    """Return the options of a JVM that takes its classes from an archive, if there is one."""
    if not archive.exists():
        return []
    # By default Java warns in the log of the node where an archive does not fit any more.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
