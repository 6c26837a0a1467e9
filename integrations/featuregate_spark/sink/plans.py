"""What Spark shows of a batch's plan and of its query, and the refusal of rows that a replay would not give again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.protocol import Py4JError

from featuregate_spark.errors import NotReplayable
from featuregate_spark.session_kind import is_classic
from featuregate_spark.sink.replayable import columns_of_batch, is_special_literal, unstable_in_json, unstable_in_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELDS: Final = "spark.sql.debug.maxToStringFields"
_ALL: Final = str(2**31 - 1)
_CUT: Final = " more fields"
"""How Spark ends a list of which it shows only some."""
_IDS_OF_A_PLAN: Final = re.compile(r'\b(?:plan_id: -?\d+|relation_id: "[^"]*")')
_LITERAL: Final = "'now' or another special word in a literal"


class Run(NamedTuple):
    """A run of Spark's query: None where there is no query, or Spark does not show it."""

    checkpoint: str | None = None
    """The id of the query, which its checkpoint keeps."""
    id: str | None = None
    """Another one each time that the query starts."""


class RunningQuery(NamedTuple):
    """The query whose micro-batch runs."""

    run: Run
    execution: Any = None
    """The JVM's plan of the batch, with the time of the batch in place of the clock. None on Spark Connect."""
    text: str = ""
    """The analyzed plan, on Spark Connect."""


class ReplayCheck:
    """Refuses rows that a replay would give other values, as far as Spark shows that. It looks at a query once a run.

    Picklable.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._shape = ""

    def require_replayable(self, df: DataFrame, query: RunningQuery | None) -> None:
        """Check the plan of the query, and what the function of the batch adds to it. Raises NotReplayable."""
        (self._check_classic if is_classic(df.sparkSession) else self._check_connect)(df)
        if query is not None and query.run != self._run:
            _check_query(query)
            self._run = query.run

    def _check_classic(self, df: DataFrame) -> None:
        plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows plans as text only
        _refuse(_unstable(plan))
        if not plan.deterministic():
            _refuse(("an expression such as uuid() or rand()",))

    def _check_connect(self, df: DataFrame) -> None:
        remote: Any = df
        sent = remote._plan.to_proto(remote.sparkSession.client)  # noqa: SLF001 - PySpark does not show it
        shape = _IDS_OF_A_PLAN.sub("", str(sent))
        if shape == self._shape:  # that of the last batch: the server takes a while to analyze and to show a plan
            return
        _refuse(unstable_in_text(_analyzed_text(df)))
        if is_special_literal(shape):
            _refuse((_LITERAL,))
        if any(not each.deterministic for each in _functions(sent)):
            _refuse(("a function that is not deterministic",))
        self._shape = shape


def running_query(df: DataFrame) -> RunningQuery | None:
    """Return the query whose micro-batch a DataFrame is; None if it is not of a stream."""
    spark = df.sparkSession
    return _classic_query(df) if is_classic(spark) else _connect_query(df)


def _classic_query(df: DataFrame) -> RunningQuery | None:
    spark: Any = df.sparkSession
    # Of all sessions: the session of the batch's DataFrame is a copy without queries.
    streams = spark._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001 - PySpark does not have it
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query_id:
        found = streams.get(spark._jvm.java.util.UUID.fromString(query_id))  # noqa: SLF001 - likewise
    elif streams.isEmpty():
        return None
    else:  # a thread of the app
        columns = columns_of_batch(df._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - likewise
        found = next((each for each in streams.values() if _has_columns(each.lastExecution(), columns)), None)
    if found is None:
        return None
    return RunningQuery(Run(found.id().toString(), found.runId().toString()), found.lastExecution())


def _has_columns(execution: Any, columns: frozenset[str]) -> bool:
    """Return whether an execution, which a query has when its first batch begins, gives these columns."""
    return bool(columns) and execution is not None and columns <= columns_in(execution.analyzed().output().toString())


def columns_in(text: str) -> frozenset[str]:
    """Return the numbers of all columns in the text of a plan."""
    return frozenset(re.findall(r"#(\d+)", text))


def _connect_query(df: DataFrame) -> RunningQuery | None:
    spark = df.sparkSession
    queries = spark.streams.active
    columns = columns_of_batch(_analyzed_text(df)) if queries else frozenset()
    for query in queries if columns else ():
        text = _analyzed(spark, partial(_explained, query))
        if columns <= columns_in(text):
            return RunningQuery(Run(str(query.id), str(query.runId)), text=text)
    return None


def _explained(query: Any) -> str:
    from pyspark.sql.connect.proto import StreamingQueryCommand  # noqa: PLC0415 - it needs gRPC

    command = StreamingQueryCommand()
    command.explain.extended = True
    return str(query._execute_streaming_query_cmd(command).explain.result)  # noqa: SLF001 - explain() prints it


def _check_query(query: RunningQuery) -> None:
    if query.execution is None:
        _refuse(unstable_in_text(query.text))
        return
    _refuse(_unstable(query.execution.analyzed()))
    # The optimizer has put a literal in place of the time of the batch, which Catalyst calls not deterministic.
    if not query.execution.optimizedPlan().deterministic():
        _refuse(("an expression such as uuid() or rand()",))


def _refuse(names: tuple[str, ...]) -> None:
    if names:
        raise NotReplayable(
            f"the rows have {', '.join(names)}, with another value each time that Spark runs the batch: a replay would "
            "lead them to other shards. Compute it from columns; or, for the time, take current_timestamp() or "
            "current_date() in the query (not in the function of the batch, nor in a subquery), where it is that of "
            "the batch; or name the columns that do not change: kafka_sink(..., shard_by=[...])"
        )


def _unstable(plan: Any) -> tuple[str, ...]:
    """Find what another execution may give another value, in a plan of the JVM."""
    try:
        text = plan.toJSON()
    except Py4JError:  # a node of another library that Spark cannot write
        return unstable_in_text(plan.toString())
    found = unstable_in_json(text, datetime.now(UTC).date())
    if found.has_recent_literal and any(map(is_special_literal, _texts_of_literals(plan))):
        return (*found.names, _LITERAL)
    return found.names


def _texts_of_literals(plan: Any) -> Iterator[str]:
    """Yield the SQL of each literal of a plan, as far as Spark has parsed it from SQL."""
    for node in (plan, *_each(plan.subqueriesAll())):
        waiting = [node]
        while waiting:
            each = waiting.pop()
            yield from (text for expression in _each(each.expressions()) for text in _literals(expression))
            waiting += _each(each.children())


def _literals(expression: Any) -> Iterator[str]:
    children = list(_each(expression.children()))
    if not children:
        origin = expression.origin()
        first, last = origin.startIndex(), origin.stopIndex()
        if origin.sqlText().isDefined() and first.isDefined() and last.isDefined():
            yield origin.sqlText().get()[first.get() : last.get() + 1]
    for child in children:
        yield from _literals(child)


def _each(seq: Any) -> Iterator[Any]:
    for at in range(seq.size()):
        yield seq.apply(at)


def _functions(message: Any) -> Iterator[Any]:
    """Yield the Python functions within a message of Spark Connect."""
    if message.DESCRIPTOR.name == "CommonInlineUserDefinedFunction":
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in value if field.label == field.LABEL_REPEATED else [value]:
                yield from _functions(each)


def _analyzed_text(df: DataFrame) -> str:
    return _analyzed(df.sparkSession, lambda: df._explain_string(extended=True))  # type: ignore[operator]  # noqa: SLF001 - explain() prints it


def _analyzed(spark: SparkSession, explain: Callable[[], str]) -> str:
    """Return the analyzed plan with all columns, without the line of its schema, which has names only."""
    text = explain()
    if _CUT in text:
        before = spark.conf.get(_FIELDS, "25")
        spark.conf.set(_FIELDS, _ALL)
        try:
            text = explain()
        finally:
            spark.conf.set(_FIELDS, before or "25")
    analyzed = text.partition("== Analyzed Logical Plan ==\n")[2].partition("\n== Optimized Logical Plan ==")[0]
    return analyzed.partition("\n")[2]
