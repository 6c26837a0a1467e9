"""Which expressions of a plan are seen to change, in Spark's JSON of plans and in its text."""

import ast
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from transcripts import retold, sections

from featuregate_spark.sink.replayable import (
    Unstable,
    columns_of_batch,
    is_special_literal,
    unstable_in_json,
    unstable_in_text,
)

TODAY = date(2026, 11, 26)
PACKAGE = "org.apache.spark.sql.catalyst."

Nodes = list[dict[str, Any]]


def node(name: str, /, *children: Nodes, **fields: Any) -> Nodes:
    """Return an expression and those below it, as ``TreeNode.toJSON`` lists them."""
    own = {"class": f"{PACKAGE}expressions.{name}", "num-children": len(children), **fields}
    return [own, *(each for child in children for each in child)]


def literal(value: str, kind: str = "string") -> Nodes:
    return node("Literal", value=value, dataType=kind)


def plan(*expressions: Nodes) -> str:
    top = {"class": f"{PACKAGE}plans.logical.Project", "num-children": 1, "projectList": expressions, "child": 0}
    return json.dumps([top, {"class": "org.apache.spark.sql.execution.LogicalRDD", "num-children": 0, "output": []}])


COLUMN = node("AttributeReference", name="value", dataType="string")


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        (node("CurrentTimestamp"), "current_timestamp()"),
        (node("CurrentTime"), "current_time()"),
        (node("CurrentTimeZone"), "current_timezone()"),
        (node("CurrentDatabase"), "current_database()"),
        (node("Now"), "now()"),
        (node("SparkVersion"), "version()"),
        (node("VariableReference"), "a session variable"),
        (node("Upper", node("Alias", node("LocalTimestamp"))), "localtimestamp()"),
        (node("ScalarSubquery", plan=node("Max", node("CurrentDate"))), "current_date()"),
        (node("ConvertTimezone", literal("UTC"), literal("UTC"), node("CurrentTimeZone")), "current_timezone()"),
        (node("Cast", literal(" Now "), dataType="timestamp"), "'Now' as a date or time"),
        (
            node("Cast", node("Coalesce", literal("a"), literal("today UTC")), dataType="date"),
            "'today UTC' as a date or time",
        ),
        (node("ParseToDate", literal("tomorrow")), "'tomorrow' as a date or time"),
    ],
)
def test_an_expression_that_the_optimizer_folds_is_found(expression: Nodes, name: str) -> None:
    """By its class, whatever is around it."""
    assert unstable_in_json(plan(node("Alias", expression)), TODAY) == Unstable((name,), has_recent_literal=False)


@pytest.mark.parametrize(
    "expression",
    [
        node("CurrentBatchTimestamp"),
        node("CurrentRow$"),
        node("ConvertTimezone", node("CurrentTimeZone"), literal("UTC"), COLUMN),
        literal("now"),
        node("Cast", literal("now"), dataType="string"),
        node("Cast", literal("nowhere"), dataType="date"),
        node("Cast", literal("epoch"), dataType="timestamp"),
        node("Cast", node("If", COLUMN, literal("now"), COLUMN), dataType="timestamp"),
        node("ParseToTimestamp", literal("now"), literal("yyyy"), format=literal("yyyy")),
        {"class": "com.example.CurrentThing", "num-children": 0},
    ],
)
def test_what_stays_the_same_is_not_found(expression: Any) -> None:
    """The time of the batch, a frame of a window, texts, and a setting that any cast of a time has."""
    expression = expression if isinstance(expression, list) else [expression]
    assert unstable_in_json(plan(expression), TODAY) == Unstable((), has_recent_literal=False)


def of_literal(text: str) -> Unstable:
    value, kind = ast.literal_eval(text)
    return unstable_in_json(plan(node("Literal", value=value, dataType=kind)), TODAY)


TELL: dict[str, Callable[[str], object]] = {
    "literals": of_literal,
    "sql": is_special_literal,
    "texts": unstable_in_text,
}


@pytest.mark.parametrize("scene", TELL)
def test_what_changes_is_found_in_literals_and_texts_as_kept(scene: str) -> None:
    kept = sections(__file__, "replayable.txt")[scene]
    assert retold(kept, TELL[scene]) == kept


def test_the_columns_of_a_batch_have_the_numbers_of_those_of_its_query() -> None:
    """Wherever the batch is in a plan."""
    text = "Join Cross\n:- LogicalRDD [value#3, now()#14L], false\n+- Project [a#5]\n   +- LogicalRDD [], false"
    assert columns_of_batch(text) == {"3", "14"}
