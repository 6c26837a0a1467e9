"""Adds up the lines of all files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from featuregate_fleet.evidence.line_counts import LineCounts
from featuregate_fleet.tables.failures import one_line_failures

if TYPE_CHECKING:
    from featuregate_fleet.tables.folder import Tables


def read_line_counts(tables: Tables) -> LineCounts:
    """Add up the lines of all files that were read.

    Raises
    ------
    TablesBroken
        The table of the files cannot be read.
    """
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in LineCounts._fields]
    with one_line_failures("the tables cannot be read"):
        return LineCounts(*tables.read("evidence_files").agg(*sums).collect()[0])
