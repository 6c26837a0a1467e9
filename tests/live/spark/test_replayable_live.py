"""What the sink sees of expressions whose values another execution of a batch would not give again."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from eos.pipes import BOUND
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate_spark import NotReplayable
from featuregate_spark.sink.plans import ReplayCheck, RunningQuery, running_query

pytestmark = [pytest.mark.live, pytest.mark.slow]

CLOCKS = {
    "current_timestamp()": r"current_timestamp\(\)",
    "now()": r"now\(\)",
    "current_date()": r"current_date\(\)",
    "curdate()": r"current_date\(\)",
    "localtimestamp()": r"localtimestamp\(\)",
    "unix_timestamp()": r"current_timestamp\(\)",
    "unix_millis(now())": r"now\(\)",
    "transform(array(1), x -> current_timestamp())": r"current_timestamp\(\)",
    "(select max(current_timestamp()) from one)": r"current_timestamp\(\)",
    "exists(select 1 from one where current_date() > date'2020-01-01')": r"current_date\(\)",
    "cast('now' as timestamp)": "'now'",
    "try_cast(' NOW ' as timestamp)": "'NOW'",
    "'today UTC'::date": "'today UTC'",
    "date('yesterday')": "'yesterday'",
    "date_add('today', 1)": "'today'",
    "cast(nvl('now', 'x') as timestamp_ntz)": "'now'",
    "to_date('tomorrow')": "'tomorrow'",
    "to_timestamp('now')": "'now'",
    "try_to_timestamp('now')": "'now'",
    "timestamp 'now'": "in a literal",
    'date "Today"': "in a literal",
    "timestamp_ntz 'now'": "in a literal",
    "(select max(timestamp 'now') from one)": "in a literal",
    "clock()": r"current_timestamp\(\)",
}
SESSIONS = {
    "current_user()": r"current_user\(\)",
    "session_user()": r"current_user\(\)",
    "current_catalog()": r"current_catalog\(\)",
    "current_schema()": r"current_database\(\)",
    "current_timezone()": r"current_timezone\(\)",
    "version()": r"version\(\)",
    "declared": "a session variable",
}
DRAWN = [
    "uuid()",
    "rand()",
    "rand(3)",
    "randn()",
    "randstr(5)",
    "uniform(1, 9)",
    "shuffle(array(1, 2))",
    "monotonically_increasing_id()",
    "spark_partition_id()",
    "input_file_name()",
    "reflect('java.time.Instant', 'now')",
    "(select rand())",
]
TAKEN = [
    "value",
    "'now'",
    "concat(value, ' current_timestamp() now()')",
    "timestamp '2020-01-01'",
    "timestamp 'epoch'",
    "cast('epoch' as timestamp)",
    "cast('2020-01-01' as date)",
    "cast(value as timestamp)",
    "cast(if(value = 'now', '2020-01-01', value) as timestamp)",
    "to_timestamp('now', 'yyyy')",
    "unix_timestamp(timestamp '2020-01-01')",
    "unix_timestamp(value)",
    "convert_timezone('UTC', timestamp_ntz '2020-01-01 00:00:00')",
    "xxhash64(value)",
    "make_timestamp(2020, 1, 1, 1, 1, 1)",
    "window(timestamp '2020-01-01', '1 minute').start",
    "(select max(id) from one)",
    "row_number() over (partition by value order by value)",
    "`now()`",
]


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> SparkSession:
    """Create a view, a view with the clock, a function with the clock, and a session variable."""
    spark.range(1).createOrReplaceTempView("one")
    spark.sql("CREATE TEMPORARY VIEW clocked AS SELECT id, current_timestamp() AS at FROM one")
    spark.sql("CREATE TEMPORARY FUNCTION clock() RETURNS TIMESTAMP RETURN current_timestamp()")
    spark.sql("DECLARE VARIABLE declared TIMESTAMP DEFAULT current_timestamp()")
    return spark


@pytest.fixture
def rows(names: SparkSession) -> DataFrame:
    return names.createDataFrame([("a", "b")], "value string, `now()` string")


def check(df: DataFrame) -> None:
    ReplayCheck().require_replayable(df, None)


@pytest.mark.parametrize("expression", [*CLOCKS, *SESSIONS])
def test_a_value_that_the_optimizer_folds_is_refused(rows: DataFrame, expression: str) -> None:
    """The plan calls itself deterministic, and its next execution has another literal there."""
    df = rows.selectExpr(f"{expression} AS key", "value")
    assert df._jdf.queryExecution().analyzed().deterministic()
    with pytest.raises(NotReplayable, match=(CLOCKS | SESSIONS)[expression]):
        check(df)


@pytest.mark.parametrize("expression", DRAWN)
def test_a_value_that_is_drawn_is_refused(rows: DataFrame, expression: str) -> None:
    """The plan says so itself."""
    with pytest.raises(NotReplayable, match=r"such as uuid\(\) or rand\(\)"):
        check(rows.selectExpr(f"{expression} AS key", "value"))


@pytest.mark.parametrize("expression", TAKEN)
def test_a_value_that_stays_the_same_is_taken(rows: DataFrame, expression: str) -> None:
    """Times, texts and names that look like a clock are none."""
    check(rows.selectExpr(f"{expression} AS key", "value"))


@pytest.mark.parametrize(
    "plan",
    [
        lambda df: df.crossJoin(df.sparkSession.table("clocked")).select("value"),
        lambda df: df.where("now() > timestamp '2020-01-01'"),
        lambda df: df.select("value").union(df.selectExpr("cast(now() AS string)")),
        lambda df: df.sparkSession.sql("WITH t AS (SELECT now() AS at) SELECT value FROM {df}, t", df=df),
        lambda df: df.sparkSession.sql("SELECT value FROM {df}, LATERAL (SELECT now() AS at)", df=df),
        lambda df: df.orderBy(f.current_date()),
        lambda df: df.groupBy("value").agg(f.max(f.current_timestamp())),
        lambda df: df.withColumn("at", f.current_timestamp()).persist(),
        lambda df: df.select(*[f.col("value").alias(f"c{each}") for each in range(40)], f.now()),
    ],
    ids=["view", "filter", "union", "with", "lateral", "order", "aggregate", "persisted", "wide"],
)
def test_the_clock_is_found_anywhere_in_a_plan(rows: DataFrame, plan: Callable[[DataFrame], DataFrame]) -> None:
    """A filter by the clock gives other rows, and a join other values."""
    with pytest.raises(NotReplayable, match=r"(now|current_\w+)\(\)"):
        check(plan(rows))


@pytest.mark.parametrize(
    "plan",
    [
        lambda df: df.withColumn("key", f.lit(datetime.now(UTC))),
        lambda df: df.withColumn("key", f.lit(datetime.now(UTC).date())),
        lambda df: df.mapInPandas(lambda pieces: pieces, df.schema),
        lambda df: df.withColumn("key", f.udf(lambda value: value)("value")),
        lambda df: df.groupBy("value").count().join(df, "value", "left"),
        lambda df: df.select(f.explode(f.array("value"))),
    ],
    ids=["time", "day", "pandas", "udf", "join", "explode"],
)
def test_what_python_gives_is_taken(rows: DataFrame, plan: Callable[[DataFrame], DataFrame]) -> None:
    """A literal of the app, its functions, and the plans around them."""
    check(plan(rows))


def test_a_function_that_calls_itself_nondeterministic_is_refused(rows: DataFrame) -> None:
    """The app says so."""
    drawn = f.udf(lambda value: value).asNondeterministic()
    with pytest.raises(NotReplayable):
        check(rows.withColumn("key", drawn("value")))


def batches(spark: SparkSession, folder: Path, expressions: list[str], seen: Callable[[DataFrame, int], Any]) -> None:
    """Run a query with these columns for a batch of one row, and raise the error of its function."""
    (folder / "lines").mkdir()
    (folder / "lines" / "a").write_text("a\n")
    rows = spark.readStream.text(str(folder / "lines")).selectExpr("value", *expressions)
    errors: list[BaseException] = []

    def write(df: DataFrame, batch_id: int) -> None:
        try:
            seen(df, batch_id)
        except BaseException as error:
            errors.append(error)
            raise

    writing = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    try:
        query.awaitTermination(int(BOUND))
    except StreamingQueryException:
        raise errors[0] from None
    finally:
        query.stop()


def test_the_time_of_the_batch_is_taken_from_the_query(names: SparkSession, tmp_path: Path) -> None:
    """Spark keeps it in its offset log, so that a replay has the same; the function adds to it without a clock."""
    columns = [
        "current_timestamp() AS at",
        "current_date() AS day",
        "localtimestamp() AS here",
        "unix_timestamp() AS seconds",
        "transform(array(1), each -> current_timestamp()) AS ats",
        "current_timestamp()",
    ]
    found: list[RunningQuery | None] = []

    def seen(df: DataFrame, _: int) -> None:
        found.append(running_query(df))
        ReplayCheck().require_replayable(df.selectExpr("cast(at AS string) AS key", "`current_timestamp()`"), found[0])

    batches(names, tmp_path, columns, seen)
    assert found[0] is not None


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("now()", r"now\(\)"),
        ("(select max(current_timestamp()) from one)", r"current_timestamp\(\)"),
        ("cast('now' as timestamp)", "'now'"),
        ("timestamp 'now'", "in a literal"),
        ("current_user()", r"current_user\(\)"),
        ("uuid()", r"such as uuid\(\)"),
    ],
)
def test_a_query_with_another_clock_is_refused(names: SparkSession, tmp_path: Path, expression: str, name: str) -> None:
    """Spark gives the time of the batch to three functions only, and to none in a subquery."""
    with pytest.raises(NotReplayable, match=name):
        batches(names, tmp_path, [expression], lambda df, _: ReplayCheck().require_replayable(df, running_query(df)))


def test_the_query_of_a_batch_is_found_from_any_session_and_thread(names: SparkSession, tmp_path: Path) -> None:
    """A thread of the app does not have the properties that Spark sets for the batch."""
    found: list[RunningQuery | None] = []

    def seen(df: DataFrame, _: int) -> None:
        found.append(running_query(df))
        thread = Thread(target=lambda: found.extend([running_query(df), running_query(df.select("value"))]))
        thread.start()
        thread.join(BOUND)
        found.append(running_query(df.where("value = 'a'").select("value")))

    batches(names.newSession(), tmp_path, ["upper(value)"], seen)
    assert len(found) == 4
    assert len({query.run for query in found if query is not None and all(query.run)}) == 1
    assert running_query(names.range(1)) is None
