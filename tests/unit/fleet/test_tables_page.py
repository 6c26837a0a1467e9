"""The reference of the table has each column of each kind, in order, with the type that Arrow has for it."""

import re
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from featuregate_fleet.evidence.columns import FINDING, KINDS, ORIGIN  # noqa: E402 - after the check for the extra

PAGE = Path(__file__).parents[3] / "docs/reference/fleet-tables.md"
TABLE = re.compile(r"^<!-- (\w+)_columns, made by docs/tables\.py -->\n\n(.*?)^<!-- end -->", re.MULTILINE | re.DOTALL)
COLUMN = re.compile(r"^\| `(\w+)` \| ([\w ]+) \|", re.MULTILINE)
NAMES = {pa.date32(): "date", pa.float64(): "float64"}


def type_of(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind):
        return f"list of {'struct' if pa.types.is_struct(kind.value_type) else kind.value_type}"
    return NAMES.get(kind, str(kind))


def test_the_page_has_the_columns_of_all_kinds() -> None:
    """The page names each column and its type."""
    on_page = {name: COLUMN.findall(table) for name, table in TABLE.findall(PAGE.read_text(encoding="utf-8"))}
    schemas = {**KINDS, "finding": FINDING, "origin": ORIGIN}
    assert on_page == {name: [(field.name, type_of(field.type)) for field in schemas[name]] for name in schemas}
