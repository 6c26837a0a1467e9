"""The errors of the fleet pipeline."""

from __future__ import annotations

from featuregate.errors import FeatureGateError


class FleetError(FeatureGateError):
    """Base class of the errors of this package."""


class LogTruncated(FleetError):
    """A live log lost lines that were not collected, or may have."""


class BodiesUncut(FleetError):
    """A line may hold bodies of requests that cannot be cut out."""


class ClusterUnread(FleetError):
    """The cluster does not answer, or does not allow to read what a run needs."""


class WrongSpark(FleetError):
    """No Spark can keep the tables: there is none, it is of the wrong release, or it was started without Delta Lake."""


class StorageFailed(FleetError):
    """A storage of logs or tables does not answer, or does not allow what a run needs."""


class TablesBusy(FleetError):
    """Another process writes the tables."""


class NotReady(FleetError):
    """A move is not safe, or nobody knows; the text says why."""


class TablesBroken(FleetError):
    """A stream over the evidence failed, or the tables cannot be read, or the JVM of Spark has ended meanwhile."""
