"""Which expressions of a plan give another value each time that Spark runs it. Pure.

Catalyst calls an expression deterministic if each row of one execution gets the same value. Its optimizer replaces the
clock, the user, the catalog and the like by literals, and does so again for the next execution: on these a replay of a
batch depends as it does on ``rand()``. Spark's optimizer has them in the rules ``ComputeCurrentTime``,
``ReplaceCurrentLike`` and ``SpecialDatetimeValues``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
_STABLE: Final = ("CurrentBatchTimestamp", "CurrentRow$")
"""The time of the batch, which Spark keeps in its offset log and puts in place of a query's ``current_timestamp()``."""
_OTHERS: Final = {
    "Now": "now()",
    "LocalTimestamp": "localtimestamp()",
    "SparkVersion": "version()",
    "VariableReference": "a session variable",
}
"""Expressions of this kind whose names do not begin with ``Current``."""
_NAMES: Final = {"CurrentTimeZone": "current_timezone()", "CurrentDatabase": "current_database()"}
_DATETIMES: Final = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
_CONVERSIONS: Final = ("ParseToDate", "ParseToTimestamp")
"""What ``to_date(text)`` and ``to_timestamp(text)`` are before Spark makes casts of them."""
_WORD: Final = r"\s*(?:now|today|tomorrow|yesterday)(?:\s[^'\"]*)?"
_SPECIAL: Final = re.compile(_WORD, re.IGNORECASE)
_SPECIAL_LITERAL: Final = re.compile(rf"\b(?:date|timestamp\w*)\s*r?\\?(['\"]){_WORD}\\?\1", re.IGNORECASE)
_NEAR: Final = timedelta(days=2)
"""More than lies between today, or any of the special words, and the same in another time zone."""

_FUNCTIONS: Final = (
    r"current_\w+|now|localtimestamp|session_user|version|variablereference|rand|randn|randstr|uniform|uuid|shuffle|"
    r"monotonically_increasing_id|spark_partition_id|input_file_\w+|reflect|java_method|try_reflect"
)
_OF_THE_BATCH_IN_TEXT: Final = "current_batch_timestamp"
# A column may have such a name, and is followed by its number: now()#12.
_CALL: Final = re.compile(rf"(?<![\w.])(?!{_OF_THE_BATCH_IN_TEXT})({_FUNCTIONS})\((?!\)#)(?![^()]*\)#)", re.IGNORECASE)
_CAST: Final = re.compile(rf"\bcast\(({_WORD}) as (?:{'|'.join(_DATETIMES)})\)", re.IGNORECASE)
_CONVERSION: Final = re.compile(rf"\bto_(?:date|timestamp)\(({_WORD}), None,", re.IGNORECASE)
_CONVERT_TIMEZONE: Final = re.compile(r"\bconvert_timezone\(current_timezone\(\),")
_ROWS: Final = re.compile(r"LogicalRDD \[([^\]]*)\]")
_NUMBER: Final = re.compile(r"#(\d+)")


class Unstable(NamedTuple):
    """What a plan has that another execution may give another value."""

    names: tuple[str, ...]
    """As a user wrote them, more or less: ``current_date()``."""
    has_recent_literal: bool
    """Whether a literal is a date or time of these days, such as Spark's parser makes of ``timestamp 'now'``."""


class _Node(NamedTuple):
    """A node of a tree that ``TreeNode.toJSON`` wrote."""

    fields: dict[str, Any]
    children: tuple[_Node, ...]

    @property
    def name(self) -> str:
        """The class of an expression; empty for another node."""
        cls = self.fields["class"]
        return cls.removeprefix(_EXPRESSIONS) if cls.startswith(_EXPRESSIONS) else ""


def unstable_in_json(plan: str, today: date) -> Unstable:
    """Find such expressions in an analyzed plan, as ``TreeNode.toJSON`` writes it, with views and subqueries."""
    nodes = list(_nodes(json.loads(plan)))
    taken = {id(node.children[0].fields) for node in nodes if node.name == "ConvertTimezone"}
    names = [name for node in nodes if id(node.fields) not in taken and (name := _unstable(node))]
    return Unstable(tuple(dict.fromkeys(names)), any(_is_recent(node, today) for node in nodes))


def unstable_in_text(plan: str) -> tuple[str, ...]:
    """Find such expressions in the text of an analyzed plan, which has the values of literals without quotes."""
    plan = _CONVERT_TIMEZONE.sub("convert_timezone(", plan)
    calls = [f"{call.lower()}()" for call in _CALL.findall(plan)]
    return tuple(dict.fromkeys([*calls, *(_quoted(word) for word in _CAST.findall(plan) + _CONVERSION.findall(plan))]))


def is_special_literal(sql: str) -> bool:
    """Return whether SQL has a literal of the clock, such as ``timestamp 'now'``."""
    return _SPECIAL_LITERAL.search(sql) is not None


def columns_of_batch(plan: str) -> frozenset[str]:
    """Return the numbers of the columns of a batch, which those of its query have, too, from the text of a plan."""
    return frozenset(number for rows in _ROWS.findall(plan) for number in _NUMBER.findall(rows))


def _nodes(value: Any) -> Iterator[_Node]:
    """Yield all nodes within a JSON value: a list has each node before its children."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _nodes(each)
    elif isinstance(value, list):
        if value and all(isinstance(each, dict) and "num-children" in each for each in value):
            rest = iter(value)
            for fields in rest:
                yield from _with_descendants(_tree(fields, rest))
        for each in value:
            yield from _nodes(each)


def _tree(fields: dict[str, Any], rest: Iterator[dict[str, Any]]) -> _Node:
    return _Node(fields, tuple(_tree(next(rest), rest) for _ in range(fields["num-children"])))


def _with_descendants(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children:
        yield from _with_descendants(child)


def _unstable(node: _Node) -> str | None:
    name = node.name
    if name.startswith("Current") and name not in _STABLE:
        return _NAMES.get(name) or re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower() + "()"
    if name in _CONVERSIONS and "format" not in node.fields:
        return _special_word(node)
    if name == "Cast" and node.fields.get("dataType") in _DATETIMES:
        return _special_word(node)
    return _OTHERS.get(name)


def _special_word(conversion: _Node) -> str | None:
    """Return the word for a time that a conversion from text gets; None where the text is that of a row."""
    below = list(_with_descendants(conversion))
    if any(node.name in {"AttributeReference", "NamedLambdaVariable"} for node in below):
        return None
    words = [str(node.fields.get("value")) for node in below if node.name == "Literal"]
    return next((_quoted(word) for word in words if _SPECIAL.fullmatch(word)), None)


def _quoted(word: str) -> str:
    return f"{word.strip()!r} as a date or time"


def _is_recent(node: _Node, today: date) -> bool:
    if node.name != "Literal" or node.fields.get("dataType") not in _DATETIMES or not node.fields.get("value"):
        return False
    value = str(node.fields["value"])
    try:
        if value.isdecimal():
            day = date(1970, 1, 1) + timedelta(microseconds=int(value))
        else:
            day = date.fromisoformat(value[:10])
    except (ValueError, OverflowError):  # a year that Python's dates do not have
        return False
    return abs(day - today) <= _NEAR
