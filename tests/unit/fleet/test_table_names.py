"""How Spark names the table of a cluster, in a folder and in a catalog."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from featuregate.errors import ConfigError
from featuregate_fleet.tables.table_names import table_name

NO_SPARK: Any = None


def test_the_parts_of_a_name_are_quoted() -> None:
    """A schema and a cluster may have a hyphen, and a folder a backtick."""
    spark: Any = SimpleNamespace(catalog=SimpleNamespace(databaseExists="`main`.`kafka-1`".__eq__))
    assert table_name(spark, "catalog:main.kafka-1", "orders.eu").for_sql == "`main`.`kafka-1`.`orders.eu`"
    assert table_name(NO_SPARK, Path("/t"), "a`b").for_sql == "delta.`/t/a``b`"


def test_a_table_in_a_folder_is_where_it_is_named(tmp_path: Path) -> None:
    """No quotes: Hadoop takes the text as it is. A table exists once it has a commit."""
    found = table_name(NO_SPARK, tmp_path / "a`b", "orders")
    assert found.folder == tmp_path / "a`b" / "orders"
    assert found == table_name(NO_SPARK, str(tmp_path / "a`b"), "orders")
    log = tmp_path / "a`b" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    assert found.newest(NO_SPARK) is None
    (log / "00000000000000000003.json").touch()
    assert found.newest(NO_SPARK) == 3


def test_a_relative_folder_is_that_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM runs in a folder of its own, and would write the table there."""
    monkeypatch.chdir(tmp_path)
    assert table_name(NO_SPARK, Path("tables"), "orders").folder == tmp_path / "tables" / "orders"


@pytest.mark.parametrize("schema", ["a.b.c", "/lake/kafka", "s3:/lake/t", "a b", ".", ""])
def test_what_is_no_schema_is_refused(schema: str) -> None:
    """Before Spark is asked."""
    with pytest.raises(ConfigError, match=r"tables: .* is not the name of a schema, such as catalog:main\.kafka"):
        table_name(NO_SPARK, f"catalog:{schema}", "orders")
