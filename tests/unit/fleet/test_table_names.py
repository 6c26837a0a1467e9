"""How Spark names a table, in a folder and in a catalog."""

import argparse
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from featuregate.cli.plugin import CommandError
from featuregate.errors import ConfigError
from featuregate_fleet.commands.options.tables import tables_folder
from featuregate_fleet.tables.table_names import InCatalog, InFolder, in_catalog


def test_the_parts_of_a_name_are_quoted() -> None:
    """A schema may have a hyphen, and a folder a backtick."""
    assert InCatalog("main.kafka-1").of("api_usage") == "`main`.`kafka-1`.`api_usage`"
    assert InFolder(Path("/t/a`b")).of("api_usage") == "delta.`/t/a``b/api_usage`"


def test_a_table_in_a_folder_is_where_it_is_named(tmp_path: Path) -> None:
    """No quotes: Hadoop takes the text as it is. A table exists once it has a commit."""
    spark: Any = None
    folder = InFolder(tmp_path / "a`b")
    assert folder.location(spark, "api_usage") == str(tmp_path / "a`b" / "api_usage")
    log = tmp_path / "a`b" / "api_usage" / "_delta_log"
    log.mkdir(parents=True)
    assert (folder.exists(spark, "api_usage"), folder.newest(spark, "api_usage")) == (False, None)
    (log / "00000000000000000003.json").touch()
    assert (folder.exists(spark, "api_usage"), folder.newest(spark, "api_usage")) == (True, 3)


@pytest.mark.parametrize("schema", ["a.b.c", "/lake/kafka", "s3:/lake/t", "a b", ".", ""])
def test_what_is_no_schema_is_refused(schema: str) -> None:
    """Before Spark is asked."""
    spark: Any = None
    with pytest.raises(ConfigError, match=r"is not the name of a schema, such as main\.kafka"):
        in_catalog(spark, schema)


def test_with_checkpoints_the_tables_have_no_folder(tmp_path: Path) -> None:
    """The folder has checkpoints and locks, and one that is a file is refused."""
    (tmp_path / "file").touch()
    args = argparse.Namespace(tables=Path("main.kafka"), checkpoints=tmp_path / "state")
    assert tables_folder(args) == tmp_path / "state"
    with pytest.raises(CommandError, match=r"--checkpoints .*: this is not a folder"):
        tables_folder(argparse.Namespace(tables=Path("main.kafka"), checkpoints=tmp_path / "file"))
