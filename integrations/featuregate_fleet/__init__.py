"""The fleet pipeline says which clients use which API versions, and whether a move to another release is safe.

Evidence flows one way: lines of logs become rows of tables (``evidence``, ``stream``, ``tables``), and the rows become
verdicts (``readiness``). ``featuregate fleet`` runs both.
"""

from __future__ import annotations

from featuregate_fleet.errors import ClusterUnread, FleetError, LogTruncated, TablesBroken, WrongSpark

__all__ = ["ClusterUnread", "FleetError", "LogTruncated", "TablesBroken", "WrongSpark"]
