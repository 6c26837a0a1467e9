"""What can go wrong on the PySpark side, drawn once.

.. code-block:: text

    featuregate.FeatureGateError
    └── FeatureSparkError          the base of what follows
        ├── WrongSession           this session's kind of Spark cannot do it; the text says what can
        ├── WrongPython            the Python of Spark's workers cannot run featuregate
        ├── PinError               the pin of a micro-batch could not be read or written
        │   ├── PinCorrupt         it is there, and does not parse
        │   └── WrongCheckpoint    the folder is not the checkpoint of the query that runs
        ├── OffsetCorrupt          the offset of a stream of features does not parse
        └── SinkError              the Kafka sink cannot write this batch
            ├── WrongColumns       the DataFrame has not the columns of Spark's Kafka sink
            ├── NotReplayable      a replay of the batch might give other rows, which breaks exactly-once
            ├── ProgressLost         what the query has committed is not known any more
            └── WriteFailed        Kafka did not take the rows, and the transaction was aborted
                └── TransactionTimedOut    the transaction of a shard was open for longer than transaction.timeout.ms
"""

from __future__ import annotations

from featuregate.errors import FeatureGateError

__all__ = [
    "FeatureSparkError",
    "NotReplayable",
    "OffsetCorrupt",
    "PinCorrupt",
    "PinError",
    "ProgressLost",
    "SinkError",
    "TransactionTimedOut",
    "WriteFailed",
    "WrongCheckpoint",
    "WrongColumns",
    "WrongPython",
    "WrongSession",
]


class FeatureSparkError(FeatureGateError):
    """The base of what can go wrong on the PySpark side."""


class WrongSession(FeatureSparkError):
    """A session of this kind cannot do it, one of Spark Connect for example; the text says what can."""


class WrongPython(FeatureSparkError):
    """The Python of Spark's workers cannot run featuregate: ``PYSPARK_PYTHON`` names it, the text what it lacks."""


class PinError(FeatureSparkError):
    """The pin of a micro-batch could not be read or written. The batch has had no effect."""


class PinCorrupt(PinError):
    """A pin is there, and does not parse. It is left as it is: an operator may still read it."""


class WrongCheckpoint(PinError):
    """The folder is not the checkpoint of the query that runs: pins there would not belong to its batches."""


class OffsetCorrupt(FeatureSparkError):
    """The offset of a stream of features, in Spark's own log, does not parse, or is of a newer release."""


class SinkError(FeatureSparkError):
    """The Kafka sink cannot write this batch. Nothing of it was committed by the task that raised."""


class WrongColumns(SinkError):
    """The DataFrame has not the columns of Spark's Kafka sink."""


class NotReplayable(SinkError):
    """A replay of the batch might give other rows in other places, which would lose or double some of them."""


class ProgressLost(SinkError):
    """What the query has committed is not known any more: to write again might double it, to skip might lose it."""


class WriteFailed(SinkError):
    """Kafka did not take the rows; the transaction was aborted, and Spark may try the task again."""


class TransactionTimedOut(WriteFailed):
    """The transaction of a shard was open for longer than ``transaction.timeout.ms``, and Kafka aborted it."""
