"""Files that lay outside of the brokers' folders, and were moved into the one of their broker since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from featuregate_fleet.evidence.reasons import UNKNOWN_BROKER
from featuregate_fleet.files.contents import COMPRESSED
from featuregate_fleet.files.opening import look_at_each
from featuregate_fleet.files.storage import path_at

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables


def moved_files(tables: Tables) -> list[str]:
    """Return the URIs of files without a broker that are gone, and whose text was read from the folder of a broker."""
    unknown = tables.read("quarantine").where((f.col("reason") == UNKNOWN_BROKER) & ~f.col("uri").startswith("kafka:"))
    uris = [row["uri"] for row in unknown.select("uri").distinct().collect()]
    gone = [uri for uri, is_there in zip(uris, look_at_each(_is_there, uris), strict=True) if not is_there]
    if not gone:
        return []
    text = f.expr(f"replace(content, '{COMPRESSED}')").alias("text")
    files = tables.read("evidence_files").where("content is not null")
    of_brokers = files.where("broker is not null").select(text)
    moved = files.where(f.col("uri").isin(gone)).select("uri", text).join(of_brokers, "text", "left_semi")
    return sorted(row["uri"] for row in moved.select("uri").distinct().collect())


def _is_there(uri: str) -> bool:
    return path_at(uri).exists()
