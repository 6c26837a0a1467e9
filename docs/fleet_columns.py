"""The columns of the fleet's rows, from their source: names, types, and the comment at the end of each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = (
    Path(__file__).parents[1] / "integrations/featuregate_fleet/evidence/columns.py"
)
TYPES = {"_TIME": "timestamp", "pa.bool_()": "bool", "pa.date32()": "date"}


def column_rows() -> dict[str, list[tuple[str, str, str]]]:
    """Return name, type and meaning of each column, by the name of the schema in lower case."""
    text = SOURCE.read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, str, str]]] = {}
    for node in ast.parse(text).body:
        match node:
            case ast.AnnAssign(
                target=ast.Name(name),
                value=ast.Call(ast.Name("_schema"), keywords=columns),
            ):
                found[name.lower()] = list(_columns(columns, text.splitlines()))
    return found


def _columns(
    columns: list[ast.keyword], lines: list[str]
) -> Iterator[tuple[str, str, str]]:
    for column in columns:
        meaning = lines[(column.end_lineno or 1) - 1].partition("  # ")[2]
        yield f"`{column.arg}`", _type(ast.unparse(column.value)), meaning


def _type(text: str) -> str:
    if text.startswith("pa.list_("):
        return f"list of {_type(text.removeprefix('pa.list_(').removesuffix(')'))}"
    if text in TYPES:
        return TYPES[text]
    if text.startswith("pa.struct(") or text.isupper():
        return "struct"
    return text.removeprefix("pa.").removesuffix("()")
