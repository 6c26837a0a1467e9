"""The reference of the tables has each column of each table, in order."""

import re
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from featuregate_fleet.evidence import columns  # noqa: E402 - after the check for the extra

PAGE = Path(__file__).parents[3] / "docs/reference/fleet-tables.md"
COLUMN = re.compile(r"^\| `(\w+)` \| ([\w ]+) \|", re.MULTILINE)
NO_TABLES = {"LINES", "MEMBER", "ORIGIN", "PARSED", "PARSED_USAGE"}


def type_of(kind: pa.DataType) -> str:
    """Return the name of a type as the page has it."""
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind):
        return f"list of {'struct' if pa.types.is_struct(kind.value_type) else kind.value_type}"
    return str(kind)


def test_the_page_has_the_columns_of_all_tables():
    """The page names each column and its type."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    on_page = {text.partition("\n")[0]: found for text in sections if (found := COLUMN.findall(text))}
    schemas = {
        name.lower(): [(field.name, type_of(field.type)) for field in value]
        for name, value in vars(columns).items()
        if isinstance(value, pa.Schema) and name not in NO_TABLES
    }
    assert on_page == schemas
