"""What the last batches said of the cluster: whose rows the table has, and whether something is different now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import functions as f

from featuregate.errors import ConfigError
from featuregate_fleet.runs.cluster_answers import is_due, says_the_same
from featuregate_fleet.tables.source_reader import newest_readings, readings_again
from featuregate_fleet.tables.times import from_micros

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_PROBE: Final = "featuregate"
"""Its hash tells keys apart, and says nothing of them."""
_STATE: Final = ("folders", "unread")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The newest rows of kind ``run``."""

    batch: int = -1
    folders: list[str] = field(default_factory=list)
    unread: list[dict[str, Any]] = field(default_factory=list)
    names: str | None = None
    cluster_id: str | None = None
    asked_at: datetime | None = None
    view: str | None = None

    @classmethod
    def of(cls, table: EvidenceTable) -> Self:
        """Ask the table."""
        if table.version() is None:
            return cls()
        state = f.struct("folders", "unread", "names")
        asked = f.struct("cluster_id", f.unix_micros("asked_at").alias("asked_at"), "view")
        when_asked = f.when(f.col("asked_at").isNotNull(), f.col("batch"))
        found = (
            table.rows("run")
            .agg(
                f.max("batch").alias("batch"),
                f.max_by(state, "batch").alias("state"),
                f.max_by(asked, when_asked).alias("asked"),
            )
            .collect()[0]
            .asDict(recursive=True)
        )
        if found["batch"] is None:
            return cls()
        answers = found["asked"] or {}
        at = answers.get("asked_at")
        return cls(
            batch=found["batch"],
            **found["state"],
            cluster_id=answers.get("cluster_id"),
            asked_at=None if at is None else from_micros(at),
            view=answers.get("view"),
        )

    def after(self, row: Mapping[str, Any], batch: int) -> Self:
        """Return this once a batch with a row of kind ``run`` is committed."""
        known = {name: row[name] for name in (*_STATE, "names")}
        if row.get("asked_at") is not None:
            known |= {name: row[name] for name in ("cluster_id", "asked_at", "view")}
        return replace(self, batch=batch, **known)

    def differs(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of kind ``run`` says something new."""
        return row.get("asked_at") is not None or any(row[name] != getattr(self, name) for name in _STATE)

    def is_due(self, view: View) -> bool:
        """Return whether what brokers answer is committed, where nothing else is new."""
        return is_due(self.asked_at, datetime.now(UTC), same=says_the_same(self.view, view))

    def check_names(self, cluster: str, names: Pseudonyms | None) -> None:
        """Refuse names that are written in another way than before: rows of one client would not add up.

        Raises
        ------
        ConfigError
            They were hashed by another key, or in the clear.
        """
        said = names_probe(names)
        if self.batch < 0 or said == self.names:
            return
        if self.names is None:
            problem = "in the clear: give another folder of tables, or hash no principals"
        elif said is None:
            problem = "hashed: give their key"
        else:
            problem = "hashed by another key: give that key, or another folder of tables"
        raise ConfigError("pseudonyms", f"in the table of {cluster}, names are {problem}")

    @staticmethod
    def in_quarantine(table: EvidenceTable, reasons: Collection[str]) -> set[str]:
        """Return the names of the texts that have lines in quarantine for some reasons, since they were last read."""
        if not reasons:
            return set()
        lines = table.rows("quarantine").where(f.col("reason").isin(*reasons) & f.col("source").isNotNull())
        lines = newest_readings(lines, readings_again(table.rows("source")))
        return {row["source"] for row in lines.select("source").distinct().collect()}


def names_probe(names: Pseudonyms | None) -> str | None:
    """Return what tells the key of hashed names; None where they are in the clear."""
    return names.of(_PROBE) if names else None
