"""Records of the topics in which coordinators keep their state: groups and offsets, transactions, share groups. Pure.

`CONSUMER_OFFSETS`, `TRANSACTION_STATE` and `SHARE_GROUP_STATE` read and write them, as `CoordinatorRecord` values. The
classes of keys and values are in ``featuregate.records.schemas``: those of Kafka 4.4. Newer records are kept as bytes
(KIP-915).
"""

from __future__ import annotations

from typing import Final

from featuregate.records.coordinator_topic import CoordinatorRecord, CoordinatorTopic, UnknownKey, UnknownValue
from featuregate.records.schemas import TOPICS, Key, Value, tagged_fields
from featuregate.wire.schema import ZERO_UUID

__all__ = [
    "CONSUMER_OFFSETS",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "ZERO_UUID",
    "CoordinatorRecord",
    "CoordinatorTopic",
    "Key",
    "UnknownKey",
    "UnknownValue",
    "Value",
    "tagged_fields",
]

CONSUMER_OFFSETS: Final = CoordinatorTopic("__consumer_offsets", TOPICS["__consumer_offsets"])
"""The records of group coordinators."""
TRANSACTION_STATE: Final = CoordinatorTopic("__transaction_state", TOPICS["__transaction_state"])
"""The records of transaction coordinators."""
SHARE_GROUP_STATE: Final = CoordinatorTopic("__share_group_state", TOPICS["__share_group_state"])
"""The records of share coordinators (KIP-932)."""
