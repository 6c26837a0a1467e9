"""The questions in SQL of the reference of the tables: they answer as they stand on the page."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fleet_lines import document, line_of
from pyspark.sql import SparkSession

from featuregate_fleet import Fleet
from featuregate_fleet.evidence.columns import rows_from
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_spark.arrow_tables import from_arrow

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), pytest.mark.proof("fleet")]

PAGE = Path(__file__).parents[3] / "docs/reference/fleet-tables.md"
LINE = line_of(document())
ASKED = {"asked_at": datetime(2026, 11, 22, 21, tzinfo=UTC), "levels": [{"feature": "group.version", "level": 1}]}


@pytest.mark.usefixtures("jvm")
def test_the_questions_of_the_page_are_answered(tmp_path: Path) -> None:
    """There are two clusters, each with a line that was cut, and with a file that is damaged."""
    spark = SparkSession.builder.getOrCreate()
    (tmp_path / "logs" / "1").mkdir(parents=True)
    (tmp_path / "logs" / "1" / "a.log").write_text(f"{LINE}\n{LINE}\n{LINE[:300]}\n")
    (tmp_path / "logs" / "1" / "b.log").write_bytes(b"7z\xbc\xaf\x27\x1c and more")
    for cluster in ("orders", "payments"):
        Fleet(spark, tmp_path / "tables", cluster).ingest(logs=tmp_path / "logs")
        table = EvidenceTable(spark, tmp_path / "tables", cluster)
        table.append(from_arrow(spark, pa.Table.from_batches([rows_from("run", [ASKED])])), 1)
    view, *questions = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    spark.sql(view.replace("/srv/tables", str(tmp_path / "tables")))
    answers = [sorted(map(tuple, spark.sql(question).collect())) for question in questions]
    answers[0] = [row[:-1] for row in answers[0]]  # the last one is a time, in the zone of the session
    of_cluster: list[tuple[Any, ...]] = [
        ("User:audit", "audit", 1, 16, 2),
        ("1", "cut", 1),
        ("1/b.log", "unreadable"),
        ("group.version", 1),
    ]
    assert answers == [[("orders", *row), ("payments", *row)] for row in of_cluster]
