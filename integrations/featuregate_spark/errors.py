"""The exceptions of the PySpark side. Pure."""

from __future__ import annotations

from featuregate.errors import FeatureGateError


class FeatureSparkError(FeatureGateError):
    """The base of all errors of the PySpark side."""


class WrongSession(FeatureSparkError):
    """A session of this kind, such as one of Spark Connect, cannot do it; the text says what can."""


class WrongPython(FeatureSparkError):
    """The Python of Spark's workers cannot run featuregate; the text says what it lacks."""


class WrongConnector(FeatureSparkError):
    """Spark runs without its Kafka connector, or with that of another release; the text names the one that fits."""


class SparkFailed(FeatureSparkError):
    """Spark ended a query by a known fault of its own, and nothing is lost; the text says what to do."""


class PinError(FeatureSparkError):
    """The pin of a micro-batch could not be read or written. The batch has had no effect."""


class PinCorrupt(PinError):
    """A pin does not parse. It stays as it is: an operator may still read it."""


class WrongCheckpoint(PinError):
    """The folder is not the checkpoint of the query that runs: pins there would not belong to its batches."""


class SinkError(FeatureSparkError):
    """The Kafka sink cannot write this batch. Some of its shards may have committed; a replay skips these."""


class WrongColumns(SinkError):
    """The DataFrame lacks the columns of Spark's Kafka sink."""


class NotReplayable(SinkError):
    """A replay of the batch might lead rows to other shards, which would lose or duplicate some of them."""


class WrittenBefore(SinkError):
    """The sink was called a second time for a batch: it would take the rows for those that it has written."""


class ProgressLost(SinkError):
    """It is unknown what the query has committed: to write again might duplicate rows, to skip might lose them."""


class WriteFailed(SinkError):
    """Kafka did not take the rows; the transaction was aborted, and Spark may retry the task."""


class TransactionTimedOut(WriteFailed):
    """The transaction of a shard was open for longer than ``transaction.timeout.ms``, and Kafka aborted it."""
