"""Records of the topics in which coordinators keep their state: groups and offsets, transactions, share groups. Pure.

`CONSUMER_OFFSETS`, `TRANSACTION_STATE` and `SHARE_GROUP_STATE` read and write them, as `CoordinatorRecord` values. The
classes of keys and values, one module for each kind of record, have the names of Kafka's schemas, up to 4.4. Newer
records are kept as bytes (KIP-915).
"""

from __future__ import annotations

from typing import Final

from featuregate.records import (
    classic_groups,
    consumer_groups,
    offsets,
    share_groups,
    streams_groups,
    transactions,
)
from featuregate.records.coordinator_topic import CoordinatorRecord, CoordinatorTopic, UnknownKey, UnknownValue
from featuregate.records.key_value import Key, Value
from featuregate.records.tagged import tagged_fields
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

CONSUMER_OFFSETS: Final = CoordinatorTopic(
    "__consumer_offsets",
    (
        *offsets.RECORDS,
        *classic_groups.RECORDS,
        *consumer_groups.RECORDS,
        *share_groups.GROUP_RECORDS,
        *streams_groups.RECORDS,
    ),
)
"""The records of group coordinators."""
TRANSACTION_STATE: Final = CoordinatorTopic("__transaction_state", transactions.RECORDS)
"""The records of transaction coordinators."""
SHARE_GROUP_STATE: Final = CoordinatorTopic("__share_group_state", share_groups.STATE_RECORDS)
"""The records of share coordinators (KIP-932)."""
