"""Which expressions of a plan are seen to change, in Spark's JSON of plans and in its text."""

import json
from datetime import date
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("value", "kind", "recent"),
    [
        ("2026-11-26 19:12:30.18", "timestamp", True),
        ("2026-11-27", "date", True),
        ("1795720351065353", "timestamp_ntz", True),
        ("2026-11-23", "date", False),
        ("+294247-01-10 04:00:54", "timestamp", False),
        ("9" * 30, "timestamp_ntz", False),
        ("2026-11-26", "string", False),
        (None, "date", False),
    ],
)
def test_a_literal_of_these_days_is_found(value: str | None, kind: str, *, recent: bool) -> None:
    """Spark's parser makes one of ``timestamp 'now'``."""
    found = unstable_in_json(plan(node("Literal", value=value, dataType=kind)), TODAY)
    assert found == Unstable((), has_recent_literal=recent)


@pytest.mark.parametrize(
    ("sql", "special"),
    [
        ("timestamp 'now'", True),
        ('DATE"Today"', True),
        ("timestamp_ntz r' yesterday UTC '", True),
        (r"select timestamp \'now\' as a", True),
        ("timestamp '2020-01-01'", False),
        ("date 'nowhere'", False),
        ("'now'", False),
        ("update 'now'", False),
    ],
)
def test_a_special_literal_is_found_in_sql(sql: str, *, special: bool) -> None:
    """As Spark's parser takes it, and as Spark Connect escapes it."""
    assert is_special_literal(sql) is special


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Project [now() AS now()#1, current_date(Some(Etc/UTC)) AS day#2]", ("now()", "current_date()")),
        ("Project [uuid(Some(-3)) AS uuid()#97, SPARK_PARTITION_ID() AS a#1]", ("uuid()", "spark_partition_id()")),
        ("Project [upper(current_user()) AS a#1]", ("current_user()",)),
        ("Project [variablereference(system.session.v=1) AS v#1]", ("variablereference()",)),
        ("Project [cast(now as timestamp) AS n#5]", ("'now' as a date or time",)),
        ("Project [to_date(today, None, Some(Etc/UTC), true) AS x#57]", ("'today' as a date or time",)),
        ("Project [current_batch_timestamp(1, TimestampType, None) AS t#1, value#2]", ()),
        ("LogicalRDD [now()#1, current_date()#2, rand(3)#4, uuid()#5]", ()),
        ("Project [my_uuid(value#1), clock.now(), knowing(1), convert_timezone(current_timezone(), UTC, t#1)]", ()),
        ("Project [to_timestamp(now, Some(yyyy), TimestampType) AS a#1, cast(now as string) AS b#2]", ()),
    ],
)
def test_the_text_of_a_plan_shows_the_same(text: str, names: tuple[str, ...]) -> None:
    """On Spark Connect. A column may be called as the function that it comes from."""
    assert unstable_in_text(text) == names


def test_the_columns_of_a_batch_have_the_numbers_of_those_of_its_query() -> None:
    """Wherever the batch is in a plan."""
    text = "Join Cross\n:- LogicalRDD [value#3, now()#14L], false\n+- Project [a#5]\n   +- LogicalRDD [], false"
    assert columns_of_batch(text) == {"3", "14"}
