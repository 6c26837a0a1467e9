"""What container runtimes, shippers and JSON layouts put around a line that a broker wrote. Pure.

The text of the broker is inside: behind the prefix of CRI, or a text of a JSON object, also where one is in another.
A runtime splits a line at 16 kB: CRI marks each part but the last one as P, and Docker ends the last one alone with a
line break.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate_fleet.evidence.lines.layouts import Layout, time_in
from featuregate_fleet.evidence.lines.request import MARKER
from featuregate_fleet.evidence.lines.times import LineTime, epoch_time

if TYPE_CHECKING:
    from collections.abc import Iterator

_CRI: Final = re.compile(
    r"(?P<time>20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)?(?: |$)",
    re.ASCII,
)
_OBJECT: Final = re.compile(r'\{\s*"')
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[mK]")
_ANNOUNCES: Final = ("Closing socket for ", "Exception while processing request from ")
"""Errors that have their reason behind them: `featuregate_fleet.evidence.lines.refusals`."""
_REASON: Final = re.compile(r"^(?:org\.apache\.kafka|kafka)\.[\w.$]*Exception: ", re.ASCII | re.MULTILINE)
_EXCEPTION: Final = re.compile(r"(?:org\.apache\.kafka|kafka)\.[\w.$]*Exception", re.ASCII)
_MESSAGES: Final = ("Received request ", "Error getting request for ")
"""How the messages of these exceptions begin."""
_NAMES: Final = 4
"""Names of exceptions in one document, of which one may have the message."""
_LEVEL: Final = re.compile(r"(?<![\w.-])(TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)(?![\w.-])", re.ASCII)
_LEVEL_OF_ANY_CASE: Final = re.compile(_LEVEL.pattern, re.ASCII | re.IGNORECASE)

_TEXTS: Final = (
    "message", "log", "msg", "MESSAGE", "@message", "textPayload", "text", "line", "body", "event", "short_message",
    "full_message", "_raw", "data",
)  # fmt: skip
"""The names of the text, in JSON layouts and in the documents of shippers."""
_TIMES: Final = (
    "@timestamp", "time", "ts", "timestamp", "timemillis", "instant", "datetime", "date", "asctime", "eventtime",
    "_source_realtime_timestamp", "__realtime_timestamp", "timestampms", "epochmillis", "t", "@t",
)  # fmt: skip
"""In lower case. Behind these any name with ``time`` in it counts."""
_LEVELS: Final = ("level", "log.level", "severity", "loglevel", "logLevel", "log_level", "levelname", "lvl")
_INSTANT: Final = ("epochSecond", "nanoOfSecond")
_LOOKED_AT: Final = 1000
"""Names of a document, in which its time may be. Brokers do not write more, and a line may have millions."""
_DEPTH: Final = 4
"""Envelopes in one another."""
_PREFIX: Final = 512
"""Characters before a JSON object: what syslog, Compose or kubectl write there."""


class Unwrapped(NamedTuple):
    """The text of a line as the broker wrote it, and what its envelopes say."""

    text: str
    time: LineTime | None = None
    """Of the innermost envelope that has one."""
    level: str | None = None
    stream: str | None = None
    """Which lines a runtime may have split; None where it splits none."""
    ends: bool | None = True
    """Whether the line ends here; None where the envelope does not say it."""
    lost: bool = False
    """Whether the text is missing: journald's JSON leaves out long ones."""
    layout: Layout | None = None
    """How times are written, where the operator says it."""


def unwrap(line: str, layout: Layout | None = None) -> Unwrapped:
    """Return the text of a line without its envelopes."""
    found = Unwrapped(_COLOURS.sub("", line) if "\x1b" in line else line, layout=layout)
    for _ in range(_DEPTH):
        inner = _in_cri(found) or _in_json(found) or _in_quotes(found)
        if inner is None:
            break
        found = inner
    # JSON can spell halves of surrogate pairs, which no table can keep.
    return found if found.text.isascii() else found._replace(text=found.text.encode(errors="replace").decode())


def last_level(text: str) -> str | None:
    """Return the last level in a text; None without any."""
    found = _LEVEL.findall(text) or _LEVEL_OF_ANY_CASE.findall(text)
    return str(found[-1]).upper().removesuffix("ING") if found else None


def _in_cri(outer: Unwrapped) -> Unwrapped | None:
    found = _CRI.match(outer.text)
    if found is None:
        return None
    time = time_in(found["time"], None) or outer.time
    return outer._replace(text=outer.text[found.end() :], time=time, stream=found["stream"], ends=found["tag"] == "F")


def _in_json(outer: Unwrapped) -> Unwrapped | None:
    text = outer.text
    request = text.find(MARKER)
    begin = text.find("{", 0, min(_PREFIX, request if request >= 0 else _PREFIX))
    if begin < 0 or not _OBJECT.match(text, begin):
        return None
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):  # also an integer of thousands of digits
        return None
    if (message := _message(document)) is None:
        return outer._replace(text="", lost=True) if _is_lost(document) else None
    before = text[:begin]
    found = outer._replace(
        text=message,
        time=_time(document, outer.layout) or (time_in(before, outer.layout) if before else None) or outer.time,
        level=_level(document) or (last_level(before) if before else None) or outer.level,
    )
    return _of_runtime(found, document) if "stream" in document else found


def _of_runtime(found: Unwrapped, document: dict[str, Any]) -> Unwrapped:
    """Return a line of a container with the stream in which it may go on."""
    text, tag = found.text, document.get("logtag")
    ends = tag == "F" if tag in ("P", "F") else (text.endswith("\n") or None)
    return found._replace(text=text.removesuffix("\n").removesuffix("\r"), stream=str(document["stream"]), ends=ends)


def _in_quotes(outer: Unwrapped) -> Unwrapped | None:
    """Unwrap a request in a quoted text, as logfmt and CSV have it."""
    text = outer.text
    if (request := text.find(MARKER)) < 0:
        return None
    begin = text.rfind('"', 0, request)
    if text.startswith('{\\"', request + len(MARKER)) and begin >= 0:
        try:
            inner, end = json.decoder.scanstring(text, begin + 1, False)  # type: ignore[attr-defined]  # noqa: FBT003
        except ValueError:
            return None
        return outer._replace(text=text[:begin] + inner + text[end:])
    if text.startswith('{""', request + len(MARKER)) and begin >= 0:
        return outer._replace(text=text[:begin] + text[begin + 1 :].replace('""', '"'))
    return None


def _message(document: Any, depth: int = _DEPTH) -> str | None:
    """Return the text of a document: the one with a request, or that of a known name, with the reason of an error."""
    if depth == 0 or not isinstance(document, dict):
        return None
    texts = list(_strings(document, _DEPTH))
    if (found := next((text for text in texts if MARKER in text), None)) is not None:
        return found
    message = next((text for name in _TEXTS if (text := _text(document.get(name))) is not None), None)
    if message is None:
        nested = (_message(value, depth - 1) for value in document.values())
        return next((text for text in nested if text is not None), None)
    if any(announced in message for announced in _ANNOUNCES) and not _REASON.search(message):
        return "\n".join([message, *_reasons(texts)])
    return message


def _text(value: Any) -> str | None:
    if isinstance(value, list):  # journald, of a text with characters that cannot be printed
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return None
    return value if isinstance(value, str) else None


def _is_lost(document: Any) -> bool:
    return isinstance(document, dict) and "MESSAGE" in document and document["MESSAGE"] is None


def _strings(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts of a document."""
    if (text := _text(value)) is not None:
        yield text
    elif depth and isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, depth - 1)


def _reasons(texts: list[str]) -> Iterator[str]:
    """Yield the reasons of an error: the first lines of stack traces, or the name of an exception and a message."""
    for text in texts:
        if found := _REASON.search(text):
            yield text[found.start() :].partition("\n")[0]
    message = next((text for text in texts if text.startswith(_MESSAGES)), None)
    if message is not None:
        # A name with each text would be as much as the square of the document.
        for name in islice(filter(_EXCEPTION.fullmatch, dict.fromkeys(texts)), _NAMES):
            yield f"{name}: {message}"


def _time(document: dict[str, Any], layout: Layout | None) -> LineTime | None:
    named = list(islice(_named(document, _DEPTH), _LOOKED_AT))
    values = dict(reversed(named))  # the outermost one of each name
    known = [values.get(name) for name in _TIMES]
    others = [value for name, value in named if "time" in name and name not in _TIMES]
    times = (_time_of(value, layout) for value in (*known, *others))
    return next((time for time in times if time is not None), None)


def _named(document: dict[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the values of a document with their names in lower case, those of inner objects last."""
    yield from ((name.lower(), value) for name, value in document.items())
    for value in document.values() if depth else ():
        for inner in value if isinstance(value, list) else (value,):
            if isinstance(inner, dict):
                yield from _named(inner, depth - 1)


def _time_of(value: Any, layout: Layout | None) -> LineTime | None:
    if isinstance(value, dict) and _INSTANT[0] in value:
        second, nanos = (value.get(part, 0) for part in _INSTANT)
        value = f"{second}.{nanos:09}" if isinstance(second, int) and isinstance(nanos, int) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = f"{value:.6f}" if isinstance(value, float) else str(value)
    return (epoch_time(value) or time_in(value, layout)) if isinstance(value, str) else None


def _level(document: dict[str, Any]) -> str | None:
    nested = document.get("log")
    values = [document.get(name) for name in _LEVELS] + ([nested.get("level")] if isinstance(nested, dict) else [])
    return next((level for value in values if isinstance(value, str) and (level := last_level(value))), None)
