"""The log events in JSON: one document, documents that follow each other, and lists of events in them. Pure.

The text of an event is the one with a request, or that of a known name. Each element of a list that holds events is an
event, and so is each request: a shipper may send thousands in one line. A list of texts, as Loki has it, may begin with
the time. What is around a list says what its events leave out.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import Any, Final

from featuregate_fleet.evidence.lines.request import AS_FIELDS, MARKER, OF_SEARCH, Unwrapped, last_level
from featuregate_fleet.evidence.lines.times import Layout, LineTime, epoch_time, time_in

_ANNOUNCES: Final = ("Closing socket for ", "Exception while processing request from ")
"""Errors that have their reason behind them: `featuregate_fleet.evidence.lines.one_line`."""
_REASON: Final = re.compile(r"^(?:org\.apache\.kafka|kafka)\.[\w.$]*Exception: ", re.ASCII | re.MULTILINE)
_EXCEPTION: Final = re.compile(r"(?:org\.apache\.kafka|kafka)\.[\w.$]*Exception", re.ASCII)
_MESSAGES: Final = ("Received request ", "Error getting request for ")
"""How the messages of these exceptions begin."""
_NAMES: Final = 4
"""Names of exceptions in one document, of which one may have the message."""

_TEXTS: Final = (
    "message", "log", "msg", "MESSAGE", "@message", "textPayload", "text", "line", "body", "event", "short_message",
    "full_message", "_raw", "data",
)  # fmt: skip
"""The names of the text, in JSON layouts and in the documents of shippers."""
_OF_OTLP: Final = "stringValue"
"""OpenTelemetry has a text in an object of its own."""
_TIMES: Final = (
    "@timestamp", "time", "ts", "timestamp", "timemillis", "instant", "datetime", "date", "asctime", "eventtime",
    "_source_realtime_timestamp", "__realtime_timestamp", "timestampms", "epochmillis", "t", "@t",
)  # fmt: skip
"""In lower case. Behind these any name with ``time`` in it counts."""
_LEVELS: Final = (
    "level", "log.level", "severity", "severityText", "loglevel", "logLevel", "log_level", "levelname", "lvl",
)  # fmt: skip
_INSTANT: Final = ("epochSecond", "nanoOfSecond")
_LOOKED_AT: Final = 1000
"""Names of a document, in which its time may be. Brokers do not write more, and a line may have millions."""
_DEPTH: Final = 4
"""Objects in one another in which times and reasons are looked for."""
_DEEPEST: Final = 24
"""Objects and lists in one another in which events are looked for."""
_BETWEEN: Final = re.compile(r"(?:[\s,\]}\x1e]++|\[(?=\s*\{))*+")
"""What stands between documents: the elements of a list are read one after the other. What they are in may be cut."""
_BEGIN: Final = re.compile(r"""\{\s*"|\[\s*[\["]""")
_SEVERAL: Final = 2
_SPELLED: Final = 2048
_COMPARED: Final = 200
"""Characters of a request, with and without the signs by which JSON spells quotes in quotes."""

Document = dict[str, Any]


def documents_in(outer: Unwrapped, begin: int) -> list[Unwrapped] | None:
    """Return the events of the documents that begin here; None where there is no event.

    Each request that is in the text and in none of the events is an event that is lost: of documents that do not parse,
    of names that an object has twice, and what follows on the last document.
    """
    text, reader = outer.text, _Reader(outer.text)
    before = text[:begin]
    known = outer._replace(
        time=(time_in(before, outer.layout) if before else None) or outer.time,
        level=(last_level(before) if before else None) or outer.level,
    )
    found, at = reader.read(known, begin)
    if not found:
        return None
    lost = text.count(MARKER, begin, at) - reader.requests
    rest = requests_apart(known._replace(text=text[at:], lost=True))
    return [*found, *[known._replace(text="", lost=True)] * lost, *rest]


def requests_apart(line: Unwrapped) -> list[Unwrapped]:
    """Return a text with several requests as one event for each of them; nothing without a request."""
    at = [found.start() for found in re.finditer(MARKER, line.text)]
    begins, ends = [0, *(one + len(MARKER) for one in at)], [*at[1:], len(line.text)]
    return [line._replace(text=line.text[begin:end]) for begin, end in zip(begins, ends, strict=False)] if at else []


class _Reader:
    """Reads documents, and counts the requests that are in their texts."""

    def __init__(self, text: str) -> None:
        self.requests = 0
        self._may_have_fields = AS_FIELDS in text  # asked once: for each document it would be the square of the line

    def read(self, outer: Unwrapped, begin: int) -> tuple[list[Unwrapped], int]:
        """Return the events of documents that follow each other, and where the last one ends.

        Of a document that was cut, those in it may be whole. What stands behind a request is never looked into: the
        bodies of requests have texts of clients.
        """
        text, decoder, found = outer.text, json.JSONDecoder(), list[Unwrapped]()
        several = text.count(MARKER, begin) >= _SEVERAL
        at, end, failures = begin, begin, 0
        while failures <= _DEPTH:
            at = next(_BETWEEN.finditer(text, at)).end()
            is_document = text.startswith(("{", "["), at)
            if not is_document and not failures:
                break
            try:
                document, at = decoder.raw_decode(text, at) if is_document else (None, at)
            except (ValueError, RecursionError):  # also an integer of thousands of digits
                failures += 1
                is_document = False
            else:
                found += self._events(document, outer, _DEEPEST)
                found += [outer._replace(text=text) for text in _left_out(document)]
                end = at
            if not is_document:
                inner = _BEGIN.search(text, at + 1)
                if inner is None or not several or MARKER in text[at : inner.start()]:
                    break
                at = inner.start()
        return found, end

    def _events(self, value: Any, outer: Unwrapped, depth: int) -> list[Unwrapped]:
        if depth <= 0:
            return []
        if isinstance(value, list):
            return self._of_list(value, outer, depth)
        return self._of_object(value, outer, depth) if isinstance(value, dict) else []

    def _of_list(self, values: list[Any], outer: Unwrapped, depth: int) -> list[Unwrapped]:
        scalars = [value for value in values if isinstance(value, (str, int, float))]
        texts = [value for value in scalars if isinstance(value, str)]
        self.requests += sum(text.count(MARKER) for text in texts)
        times = ((_time_of(value, outer.layout), value) for value in scalars[:_DEPTH] if MARKER not in str(value))
        time, of_time = next(((time, value) for time, value in times if time), (outer.time, None))
        outer = outer._replace(time=time)
        inner = [self._events(value, outer, depth - 1) for value in values if isinstance(value, (dict, list))]
        if not texts and any(inner):
            return [event for events in inner for event in events or [outer._replace(text="{}")]]
        others = [text for text in texts if text is not of_time]
        chosen = [text for text in others if MARKER in text]
        if len(chosen) != 1:  # each is an event, or there is one if there is a time
            chosen = others if chosen else others[:1] if of_time is not None and not any(inner) else []
        return [*(outer._replace(text=text) for text in chosen), *chain.from_iterable(inner)]

    def _of_object(self, document: Document, outer: Unwrapped, depth: int) -> list[Unwrapped]:
        texts: list[tuple[Document, str]] = []
        lists: list[list[Any]] = []
        self._gather(document, texts, lists, depth)
        requests = _different([(at, text) for at, text in texts if MARKER in text])
        around = outer
        if lists:
            around = outer._replace(
                time=_time(document, outer.layout, into_lists=False) or outer.time,
                level=_level(document) or outer.level,
            )
        inner = [event for values in lists for event in self._of_list(values, around, depth - 1)]
        others = [event for event in inner if _says_something(event.text)]
        message = None if requests else _message(document)
        if len(requests) > 1:
            around = _event(document, "", outer)
            places = {id(at): _within(at, around) for at in {id(at): at for at, _ in requests}.values()}
            own = [_with_text(text, at, places[id(at)]) for at, text in requests]
        elif requests:
            own = [_event(document, requests[0][1], outer)]
        elif not others and self._may_have_fields and _has_fields(message, as_text := json.dumps(document)):
            own = [outer._replace(text=as_text)]
        elif message is not None:
            own = [_event(document, _with_reason(message, document), outer)]
        elif not inner and "MESSAGE" in document and document["MESSAGE"] is None:  # journald leaves out long ones
            return [outer._replace(text="", lost=True)]
        else:
            return inner
        heads = sorted(_head(text) for _, text in requests)
        return [*own, *(event for event in others if MARKER not in event.text or not _is_among(heads, event.text))]

    def _gather(
        self, document: Document, texts: list[tuple[Document, str]], lists: list[list[Any]], depth: int
    ) -> None:
        """Add the texts of an object, each with the innermost object around it, and the lists with other things."""
        for value in document.values():
            if (text := _text(value)) is not None:
                self.requests += text.count(MARKER) if isinstance(value, (str, dict)) else 0
                texts.append((document, text))
            elif isinstance(value, dict) and depth:
                self._gather(value, texts, lists, depth - 1)
            elif isinstance(value, list):
                lists.append(value)


def _left_out(document: Any) -> Iterator[str]:
    """Yield a text where an answer of Elasticsearch has not all hits; those of a scroll are in other answers, too."""
    match document:
        case {"_scroll_id": _} | {"pit_id": _}:
            return
        case {"hits": {"hits": list(hits), "total": {"value": int(total), "relation": relation}}}:
            is_whole = total <= len(hits) and relation == "eq"
        case {"hits": {"hits": list(hits), "total": int(total)}}:
            is_whole = total <= len(hits)
        case _:
            return
    if not is_whole:
        yield f"{OF_SEARCH} {len(hits)} of {total} hits or more"


def _different(requests: list[tuple[Document, str]]) -> list[tuple[Document, str]]:
    """Return the longest text of each request: shippers add the line as it was, or a short one."""
    by_head: dict[str, tuple[Document, str]] = {}
    for one in sorted(requests, key=lambda request: len(request[1]), reverse=True):
        by_head.setdefault(_head(one[1]), one)
    short = {head for head, following in pairwise(sorted(by_head)) if following.startswith(head)}
    return [one for head, one in by_head.items() if head not in short]


def _head(text: str) -> str:
    """Return by what the texts of a document that have one request are known: the id of its connection is in it."""
    begin = text.find(MARKER)
    return text[begin : begin + _SPELLED].replace("\\", "")[:_COMPARED]


def _is_among(heads: list[str], text: str) -> bool:
    """Return whether a text has one of these requests, of which none begins as another one: two may be it, in order."""
    at = bisect_left(heads, head := _head(text))
    return any(head.startswith(one) or one.startswith(head) for one in heads[max(at - 1, 0) : at + 1])


def _event(document: Document, text: str, outer: Unwrapped) -> Unwrapped:
    return _with_text(text, document, _within(document, outer))


def _within(document: Document, outer: Unwrapped) -> Unwrapped:
    return outer._replace(time=_time(document, outer.layout) or outer.time, level=_level(document) or outer.level)


def _with_text(text: str, document: Document, around: Unwrapped) -> Unwrapped:
    found = around._replace(text=text)
    return _of_runtime(found, document) if isinstance(document.get("stream"), str) else found


def _of_runtime(found: Unwrapped, document: Document) -> Unwrapped:
    """Return a line of a container with the stream in which it may go on."""
    text, tag = found.text, document.get("logtag")
    ends = tag == "F" if tag in ("P", "F") else (text.endswith("\n") or None)
    return found._replace(text=text.removesuffix("\n").removesuffix("\r"), stream=document["stream"], ends=ends)


def _message(document: Document) -> str | None:
    texts = (_text(each.get(name)) for each in _objects(document, _DEPTH - 1) for name in _TEXTS)
    return next((text for text in texts if text is not None), None)


def _with_reason(message: str, document: Document) -> str:
    """Return a message with the reason of an error behind it, where that is in another text."""
    if any(announced in message for announced in _ANNOUNCES) and not _REASON.search(message):
        return "\n".join([message, *_reasons(list(_strings(document, _DEPTH)))])
    return message


def _has_fields(message: str | None, text: str) -> bool:
    """Return whether a document without a request has one in fields. The message may be a part of a line."""
    return AS_FIELDS in text and MARKER not in text and AS_FIELDS not in (message or "")


def _says_something(text: str) -> bool:
    return any(one in text for one in (MARKER, AS_FIELDS, *_ANNOUNCES)) or bool(_REASON.search(text))


def _text(value: Any) -> str | None:
    if isinstance(value, list):  # journald, of a text with characters that cannot be printed
        try:
            return bytes(value).decode("utf-8", "replace") if value else None
        except (TypeError, ValueError):
            return None
    if isinstance(value, dict) and len(value) == 1:
        value = value.get(_OF_OTLP)
    return value if isinstance(value, str) else None


def _strings(value: Any, depth: int) -> Iterator[str]:
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


def _time(document: Document, layout: Layout | None, *, into_lists: bool = True) -> LineTime | None:
    objects = _objects(document, _DEPTH, into_lists=into_lists)
    named = list(islice(((name.lower(), value) for each in objects for name, value in each.items()), _LOOKED_AT))
    values = dict(reversed(named))  # the outermost one of each name
    known = [values.get(name) for name in _TIMES]
    others = [value for name, value in named if "time" in name and name not in _TIMES]
    times = (_time_of(value, layout) for value in (*known, *others))
    return next((time for time in times if time is not None), None)


def _objects(document: Document, depth: int, *, into_lists: bool = False) -> Iterator[Document]:
    """Yield an object and those in it, to some depth; an outer one comes before those in it."""
    yield document
    for value in document.values() if depth else ():
        for inner in value if isinstance(value, list) and into_lists else (value,):
            if isinstance(inner, dict):
                yield from _objects(inner, depth - 1, into_lists=into_lists)


def _time_of(value: Any, layout: Layout | None) -> LineTime | None:
    if isinstance(value, dict) and _INSTANT[0] in value:
        second, nanos = (value.get(part, 0) for part in _INSTANT)
        value = f"{second}.{nanos:09}" if isinstance(second, int) and isinstance(nanos, int) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = f"{value:.6f}" if isinstance(value, float) else str(value)
    return (epoch_time(value) or time_in(value, layout)) if isinstance(value, str) else None


def _level(document: Document) -> str | None:
    nested = document.get("log")
    values = [document.get(name) for name in _LEVELS] + ([nested.get("level")] if isinstance(nested, dict) else [])
    return next((level for value in values if isinstance(value, str) and (level := last_level(value))), None)
