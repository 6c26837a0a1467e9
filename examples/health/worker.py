"""A worker without HTTP: it writes its health into a file, which exec probes read.

Run it: ``KAFKA=localhost:9092 HEALTH_FILE=/tmp/worker.json python examples/health/worker.py``
Probe it: ``featuregate health /tmp/worker.json --written-within 30``
"""

from __future__ import annotations

import os
import signal
import sys
import time

import featuregate as fg
from featuregate.health import write_health

PACE = 10.0


def main() -> None:
    """Work until a signal comes."""
    # Not a threading.Event: set by a handler while the main thread begins to wait for it, it waits for itself.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGINT, lambda *_: sys.exit())
    with fg.Discoverer(os.environ.get("KAFKA", "localhost:9092"), interval=60) as features:
        new_groups = features.gate("new-groups", fg.presets.kip848)
        features.wait(PACE)
        while True:
            # In the worker's own loop, and not in a hook: a worker that hangs then writes no more.
            write_health(features, os.environ["HEALTH_FILE"])
            print("group.protocol =", "consumer" if new_groups.open else "classic", flush=True)
            time.sleep(PACE)


if __name__ == "__main__":
    main()
