"""featuregate for PySpark: decisions that hold for a micro-batch, survive a restart, and travel to executors as values.

All names but the errors load at their first use, so that executors load only what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from featuregate.version import how_to_install
from featuregate_spark.errors import (
    FeatureSparkError,
    NotReplayable,
    PinCorrupt,
    PinError,
    ProgressLost,
    SinkError,
    SparkFailed,
    TransactionTimedOut,
    WriteFailed,
    WrittenBefore,
    WrongCheckpoint,
    WrongColumns,
    WrongConnector,
    WrongPython,
    WrongSession,
)

if TYPE_CHECKING:
    from featuregate_librdkafka.advice import Advice, AdviceState
    from featuregate_spark.environment import SparkEnvironment
    from featuregate_spark.failures import cause_of
    from featuregate_spark.listener import FeatureListener
    from featuregate_spark.options import kafka_options, with_kafka_options
    from featuregate_spark.session import FeatureSession
    from featuregate_spark.snapshot import Snapshot
    from featuregate_spark.source.data_source import KafkaFeatures
    from featuregate_spark.stop_signals import StopSignals

__all__ = [
    "Advice",
    "AdviceState",
    "FeatureListener",
    "FeatureSession",
    "FeatureSparkError",
    "KafkaFeatures",
    "NotReplayable",
    "PinCorrupt",
    "PinError",
    "ProgressLost",
    "SinkError",
    "Snapshot",
    "SparkEnvironment",
    "SparkFailed",
    "StopSignals",
    "TransactionTimedOut",
    "WriteFailed",
    "WrittenBefore",
    "WrongCheckpoint",
    "WrongColumns",
    "WrongConnector",
    "WrongPython",
    "WrongSession",
    "cause_of",
    "kafka_options",
    "with_kafka_options",
]

_HOMES = {
    "FeatureListener": "listener",
    "FeatureSession": "session",
    "KafkaFeatures": "source.data_source",
    "Advice": "options",
    "AdviceState": "options",
    "Snapshot": "snapshot",
    "SparkEnvironment": "environment",
    "StopSignals": "stop_signals",
    "cause_of": "failures",
    "kafka_options": "options",
    "with_kafka_options": "options",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name in {"pyspark", "pyarrow", "py4j", "confluent_kafka"}:
            raise ImportError(f"featuregate_spark needs {error.name}: {how_to_install('spark')}") from error
        if error.name == "pyspark.sql.datasource":
            raise ImportError("kafka_features needs PySpark 4.0, the first with data sources in Python") from error
        raise
    globals()[name] = found  # the next read is that of any module attribute
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
