"""The transactional ids of a member. An id is stable: a producer with the same id fences the one before it. Pure.

.. code-block:: text

    billing:orders-0        app id, topic and partition
    billing/host-0          app id and process

Topics and process names have neither of the two separators, so that the last one ends the app id: no two apps have an
id in common, also where the name of one begins that of another. All ids of an app begin with its app id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featuregate_confluent.latch.protocol import Partition


def partition_transactional_id(app_id: str, partition: Partition) -> str:
    """Name the transactional id of an input partition."""
    return f"{app_id}:{partition[0]}-{partition[1]}"


def process_transactional_id(app_id: str, process: str) -> str:
    """Name the transactional id of a process."""
    return f"{app_id}/{process}"
