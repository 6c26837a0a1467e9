"""The errors of the fleet pipeline."""

from __future__ import annotations

from featuregate.errors import FeatureGateError


class FleetError(FeatureGateError):
    """Base class of the errors of this package."""


class ClusterUnread(FleetError):
    """The cluster does not answer, or does not allow to read what a run needs."""


class WrongSpark(FleetError):
    """No Spark can keep the tables: there is none, it is of the wrong release, or it was started without Delta Lake."""


class StorageFailed(FleetError):
    """A storage of logs or tables does not answer, or does not allow what a run needs."""


class BatchTaken(FleetError):
    """Another process has committed the batch of this number; this one is not in the table."""

    def __init__(self, number: int) -> None:
        super().__init__(f"another process has committed batch {number}")


class NotReady(FleetError):
    """A move is not safe, or nobody knows; the text says why."""


class TablesBroken(FleetError):
    """The table cannot be read or written, or the JVM of Spark has ended meanwhile."""
