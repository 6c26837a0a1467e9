"""The fleet pipeline says which clients use which API versions, and whether a move to another release is safe.

Evidence flows one way: lines of logs become rows of a table (``evidence``, ``files``, ``runs``, ``tables``), and the
rows become verdicts (``readiness``). `Fleet` does both from Python (``api``), and ``featuregate fleet`` is on top of
it. All names but the errors load at their first use, because Spark takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from featuregate.version import how_to_install
from featuregate_fleet.errors import ClusterUnread, FleetError, NotReady, TablesBroken, WrongSpark

if TYPE_CHECKING:
    from featuregate_fleet.api.fleet import Fleet
    from featuregate_fleet.api.report import FleetReport
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.runs.ingestion import Ingested
    from featuregate_fleet.tables.tidying import TidyPlan

__all__ = [
    "ClusterUnread",
    "Fleet",
    "FleetError",
    "FleetReport",
    "Ingested",
    "NotReady",
    "Pseudonyms",
    "TablesBroken",
    "TidyPlan",
    "WrongSpark",
]

_HOMES = {
    "Fleet": "api.fleet",
    "FleetReport": "api.report",
    "Ingested": "runs.ingestion",
    "Pseudonyms": "evidence.pseudonyms",
    "TidyPlan": "tables.tidying",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name in {"pyspark", "pyarrow", "py4j"}:
            raise ImportError(f"featuregate_fleet needs {error.name}: {how_to_install('fleet')}") from error
        raise
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
