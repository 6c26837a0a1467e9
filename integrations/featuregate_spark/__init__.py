"""featuregate for PySpark: decisions that hold for a micro-batch, survive a restart, and travel to executors as values.

Names load at their first use, so that executors pay for what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featuregate_spark.errors import (
        FeatureSparkError,
        NotReplayable,
        OffsetCorrupt,
        PinCorrupt,
        PinError,
        ProgressLost,
        SinkError,
        TransactionTimedOut,
        WriteFailed,
        WrongCheckpoint,
        WrongColumns,
        WrongPython,
        WrongSession,
    )
    from featuregate_spark.failures import cause_of
    from featuregate_spark.listener import FeatureListener
    from featuregate_spark.options.advice import OptionAdvice, OptionState, kafka_options, with_kafka_options
    from featuregate_spark.session import FeatureSession
    from featuregate_spark.snapshot import Snapshot
    from featuregate_spark.source.data_source import KafkaFeatures
    from featuregate_spark.stop_signals import StopSignals

__all__ = [
    "FeatureListener",
    "FeatureSession",
    "FeatureSparkError",
    "KafkaFeatures",
    "NotReplayable",
    "OffsetCorrupt",
    "OptionAdvice",
    "OptionState",
    "PinCorrupt",
    "PinError",
    "ProgressLost",
    "SinkError",
    "Snapshot",
    "StopSignals",
    "TransactionTimedOut",
    "WriteFailed",
    "WrongCheckpoint",
    "WrongColumns",
    "WrongPython",
    "WrongSession",
    "cause_of",
    "kafka_options",
    "with_kafka_options",
]

_ROOMS = {
    "errors": (
        "FeatureSparkError",
        "ProgressLost",
        "NotReplayable",
        "OffsetCorrupt",
        "PinCorrupt",
        "PinError",
        "SinkError",
        "TransactionTimedOut",
        "WriteFailed",
        "WrongCheckpoint",
        "WrongColumns",
        "WrongPython",
        "WrongSession",
    ),
    "failures": ("cause_of",),
    "listener": ("FeatureListener",),
    "options.advice": ("OptionAdvice", "OptionState", "kafka_options", "with_kafka_options"),
    "session": ("FeatureSession",),
    "snapshot": ("Snapshot",),
    "source.data_source": ("KafkaFeatures",),
    "stop_signals": ("StopSignals",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name in {"pyspark", "pyarrow", "py4j", "confluent_kafka"}:
            raise ImportError(f"featuregate_spark needs {error.name}: install featuregate[spark]") from error
        raise
    globals()[name] = found  # the next read is that of any module attribute
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
