"""Ports in a row for a process that a test starts."""

from collections.abc import Iterator
from contextlib import contextmanager

from featuregate.testing.local_kafka.processes import ReservedPorts

__all__ = ["two_ports_in_a_row"]


@contextmanager
def two_ports_in_a_row() -> Iterator[int]:
    """Reserve a free port and the next one, as a cluster of two brokers uses them, and yield the first."""
    for _ in range(100):
        first = ReservedPorts([0])
        try:
            second = ReservedPorts([first.numbers[0] + 1])
        except OSError:
            first.close()
            continue
        try:
            yield first.numbers[0]
        finally:
            first.close()
            second.close()
        return
    raise OSError("no two ports in a row are free")
