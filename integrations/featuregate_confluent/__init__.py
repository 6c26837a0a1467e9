"""The exactly-once producer switch (KIP-447) for confluent-kafka: group-wide, and never back.

Names load at their first use, so that operators' tools and the pure rooms need no confluent-kafka.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from featuregate.version import how_to_install

if TYPE_CHECKING:
    from featuregate_confluent.client.group import GroupMembers
    from featuregate_confluent.client.topic_latch_store import TopicLatchStore
    from featuregate_confluent.config.advice import advise, with_advice
    from featuregate_confluent.config.options import SwitchOptions
    from featuregate_confluent.errors import (
        Aborted,
        CommitRefused,
        ModelRefused,
        MustRejoin,
        RecordRefused,
        RoundTooLong,
        SettingsContradict,
        SwitchError,
        SwitchFatal,
        TransformFailed,
    )
    from featuregate_confluent.group_gate import GroupGate
    from featuregate_confluent.latch.group_agreement import GroupLatch, GroupLatchState
    from featuregate_confluent.models import Model
    from featuregate_confluent.processor import ExactlyOnceProcessor
    from featuregate_confluent.producing.offsets import safe_send_offsets
    from featuregate_confluent.producing.pipeline import Pipeline
    from featuregate_confluent.records import DeadLetter, Record
    from featuregate_confluent.switch import ProducerSwitch
    from featuregate_librdkafka.advice import Advice, AdviceState
    from featuregate_librdkafka.error_table import ErrorAction
    from featuregate_librdkafka.usage_topic import UsageTopic

__all__ = [
    "Aborted",
    "Advice",
    "AdviceState",
    "CommitRefused",
    "DeadLetter",
    "ErrorAction",
    "ExactlyOnceProcessor",
    "GroupGate",
    "GroupLatch",
    "GroupLatchState",
    "GroupMembers",
    "Model",
    "ModelRefused",
    "MustRejoin",
    "Pipeline",
    "ProducerSwitch",
    "Record",
    "RecordRefused",
    "RoundTooLong",
    "SettingsContradict",
    "SwitchError",
    "SwitchFatal",
    "SwitchOptions",
    "TopicLatchStore",
    "TransformFailed",
    "UsageTopic",
    "advise",
    "safe_send_offsets",
    "with_advice",
]

_ROOMS = {
    "featuregate_confluent.client.group": "GroupMembers",
    "featuregate_confluent.client.topic_latch_store": "TopicLatchStore",
    "featuregate_confluent.config.advice": "advise with_advice",
    "featuregate_confluent.config.options": "SwitchOptions",
    "featuregate_confluent.errors": "Aborted CommitRefused ModelRefused MustRejoin RecordRefused RoundTooLong "
    "SettingsContradict SwitchError SwitchFatal TransformFailed",
    "featuregate_confluent.group_gate": "GroupGate",
    "featuregate_confluent.latch.group_agreement": "GroupLatch GroupLatchState",
    "featuregate_confluent.models": "Model",
    "featuregate_confluent.processor": "ExactlyOnceProcessor",
    "featuregate_confluent.producing.offsets": "safe_send_offsets",
    "featuregate_confluent.producing.pipeline": "Pipeline",
    "featuregate_confluent.records": "DeadLetter Record",
    "featuregate_confluent.switch": "ProducerSwitch",
    "featuregate_librdkafka.advice": "Advice AdviceState",
    "featuregate_librdkafka.error_table": "ErrorAction",
    "featuregate_librdkafka.usage_topic": "UsageTopic",
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found: object = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name == "confluent_kafka":
            raise ImportError(f"featuregate_confluent needs confluent-kafka: {how_to_install('confluent')}") from error
        raise
    globals()[name] = found  # the next read is that of any module attribute
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
