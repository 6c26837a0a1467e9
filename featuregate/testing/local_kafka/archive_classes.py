"""Write the class archives of releases, so that their nodes start with about half of the processor time.

.. code-block:: console

    $ python -m featuregate.testing.local_kafka.archive_classes 4.2.0 3.9.2
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from featuregate.testing.local_kafka.cluster import LocalKafka
from featuregate.testing.local_kafka.commands import jars_of
from featuregate.testing.local_kafka.java import archive_of, find_java
from featuregate.testing.local_kafka.processes import wait_until
from featuregate.testing.local_kafka.releases import recipe_for

if TYPE_CHECKING:
    from pathlib import Path

WRITE_TIMEOUT = 120.0
"""Seconds that a node may take to write its classes when it ends."""


def archive_classes(version: str) -> Path:
    """Return the class archive of a release. Where there is none, a node that runs for a moment writes it.

    Raises `LocalKafkaError`: the node did not start, or did not end in time.
    """
    archive = archive_of(jars_of(recipe_for(version)), find_java())
    if archive.exists():
        return archive
    part = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        with LocalKafka(version, jvm_options=[f"-XX:ArchiveClassesAtExit={part}", "-Xlog:cds=off"]) as kafka:
            node = kafka.node(1)
            assert node.pid is not None, "an open cluster has started its nodes"
            os.kill(node.pid, signal.SIGTERM)  # `stop` would kill a node that still writes after 30 s
            ended = f"node 1 (Kafka {version}) has written its classes"
            wait_until(lambda: kafka.node(1).state == "exited", ended, {}, timeout=WRITE_TIMEOUT)
        part.rename(archive)
    finally:
        part.unlink(missing_ok=True)
    return archive


if __name__ == "__main__":
    for release in sys.argv[1:]:
        print(f"Kafka {release}: {archive_classes(release)}")
