"""Lines that hold several log events: each is a row, or in quarantine. None vanishes."""

import base64
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra
from fleet_rows import Rows, parsed_file  # noqa: E402 - likewise
from transcripts import named_lines  # noqa: E402 - likewise

from featuregate.cli import main  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.envelopes import events_in  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import MARKER, host_of  # noqa: E402 - likewise
from featuregate_fleet.files import pieces as pieces_module  # noqa: E402 - likewise

WHY = "Received request api key FETCH with version 99 which is not enabled"
Found = tuple[Counter[tuple[int, int]], Counter[str], int]
"""The requests by API and version, the reasons of the others, and the lines that were read."""
FETCH, PRODUCE = (1, 16), (0, 2)
SECONDS = ("2026-11-22 10:00:02", "2026-11-22 10:00:03")


def line(api: tuple[int, int], **changed: Any) -> str:
    return line_of(document(requestApiKey=api[0], requestApiVersion=api[1], **changed))


def bare(api: tuple[int, int]) -> str:
    return line(api)[line(api).index(MARKER) :]


def parsed(data: bytes, folder: Path, name: str = "a") -> Rows:
    path = folder / "1" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return parsed_file(path)


def read(data: str | bytes, folder: Path, name: str = "a") -> Found:
    tables = parsed(data.encode() if isinstance(data, str) else data, folder, name)
    usage, reasons = Counter[tuple[int, int]](), Counter[str]()
    for row in tables["usage"]:
        usage[row["api_key"], row["version"]] += row["count"]
    for row in tables["quarantine"]:
        reasons[row["reason"]] += row["lines"]
    counts = {name: sum(file[name] for file in tables["source"]) for name in ("read", "rows", "quarantined")}
    assert (counts["rows"], counts["quarantined"]) == (usage.total(), reasons.total())
    assert counts["read"] == counts["rows"] + counts["quarantined"]
    reasons.update(file["reason"] for file in tables["source"] if file["reason"])
    return usage, reasons, counts["read"]


SCENES = named_lines(__file__, "events.txt", {"FETCH": bare(FETCH), "PRODUCE": bare(PRODUCE)})
TWO = dict(SCENES["two requests"])
CLOUDWATCH, FLUENT_BIT = (json.loads(TWO[name]) for name in ("CloudWatch", "Fluent Bit"))
LOKI = json.loads(TWO["Loki's push"])["streams"][0]["values"]
OTLP = json.loads(TWO["OTLP"])["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
TWO |= {"JSON sequences": "".join(f"\x1e{json.dumps(one)}\t" for one in FLUENT_BIT)}


@pytest.mark.parametrize("text", TWO.values(), ids=TWO)
def test_each_event_is_a_line_with_its_own_time(text: str, tmp_path: Path):
    """Whatever a shipper puts around many: the second one does not vanish, and has not the time of the first."""
    tables = parsed(text.encode(), tmp_path)
    seen = {(row["api_key"], row["version"]): str(row["first_seen"])[:19] for row in tables["usage"]}
    assert seen == dict(zip((FETCH, PRODUCE), SECONDS, strict=True))
    assert tables["quarantine"] == []


@pytest.mark.parametrize("between", ["", "\n", "\r\n", " ", ","])
@pytest.mark.parametrize("text", TWO.values(), ids=TWO)
def test_documents_that_follow_each_other_are_read_one_after_the_other(text: str, between: str, tmp_path: Path):
    """As Firehose writes them, with nothing in between; also in a gzip of several parts."""
    assert read(between.join([text] * 3), tmp_path)[0] == {FETCH: 3, PRODUCE: 3}
    packed = gzip.compress(text.encode()) + gzip.compress((between + text).encode())
    assert read(packed, tmp_path, "a.gz")[0] == {FETCH: 2, PRODUCE: 2}


OF_RSYSLOG = (
    "Jan  9 09:18:07 b1 rsyslogd: imjournal: 84667 messages lost due to rate-limiting (20000 allowed)",
    "Jan  9 09:18:07 b1 rsyslogd: imuxsock[pid: 57]: begin to drop messages due to rate-limiting",
    "Jan  9 09:18:07 b1 rsyslogd: imuxsock lost 50 messages from pid 57 due to rate-limiting",
    "Jan  9 09:18:07 b1 systemd-journald[410]: Forwarding to syslog missed 14 messages.",
    "Jan  9 09:18:07 b1 kafka: Suppressed exceptions from 3 messages",
)
NOT_UNDERSTOOD = dict(SCENES["not understood"]) | {
    "half of one before": line(FETCH)[:200] + line(PRODUCE),
    "cut": json.dumps(CLOUDWATCH)[:-150],
    "too deep": json.dumps(FLUENT_BIT[1])[:-1] + ',"a":' + '{"a":' * 50 + json.dumps(line(FETCH)) + "}" * 51,
    "over lines": json.dumps(FLUENT_BIT, indent=1),
    "in base64": json.dumps(
        {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(CLOUDWATCH).encode())).decode()}}
    ),
    "text in base64": json.dumps(
        {"Records": [{"data": base64.b64encode(b"x" * shift + line(FETCH).encode()).decode()} for shift in range(3)]}
    ),
    "as fields": json.dumps([{"ts": 1795341602, **document()}, {"_source": document()}, {"message": "started"}]),
    "cut at the begin": line(FETCH)[line(FETCH).index("pleted") :],
    "dropped by journald": json.dumps({"MESSAGE": "Suppressed 7124 messages from kafka.service", "N_DROPPED": "7124"})
    + "\nJan  9 09:18:07 b1 systemd-journald[410]: Suppressed 12 messages from /system.slice/kafka.service",
    "dropped by rsyslog": "\n".join(OF_RSYSLOG),
    "searches": "\n".join(
        json.dumps({**more, "hits": {"total": total, "hits": [{"log": line(FETCH)}]}})
        for total in (1, 2, *({"value": value, "relation": said} for value, said in ((1, "eq"), (9, "eq"), (1, "gte"))))
        for more in ({}, {"_scroll_id": "a"}, {"pit_id": "a"})
    ),
}
READ = dict(SCENES["what is read of that"])


@pytest.mark.parametrize("name", sorted(NOT_UNDERSTOOD.keys() | READ))
def test_what_is_not_understood_is_in_quarantine_for_each_event(name: str, tmp_path: Path):
    """A second request in what is left is never understood."""
    usage, reasons, _ = read(NOT_UNDERSTOOD[name], tmp_path)
    names = {FETCH: "Fetch", PRODUCE: "Produce"}
    found = [f"{count} {names[api]}" for api, count in sorted(usage.items())]
    found += [f"{count} {reason}" for reason, count in sorted(reasons.items())]
    assert ", ".join(found) == READ[name]


def test_what_a_client_puts_into_its_id_is_no_event(tmp_path: Path):
    """Nor what it puts into a body, also where the line is cut: it would be the request of another client."""
    inner = line(PRODUCE)
    assert read(line(FETCH, clientId=inner), tmp_path) == ({FETCH: 1}, {}, 1)
    assert read(json.dumps({"message": line(FETCH, request={"data": [{"message": inner}]})}), tmp_path)[0] == {FETCH: 1}
    body = f'{{"a":1 {line(FETCH, request={"a": {"message": inner}})}'
    assert not read(body, tmp_path)[0][PRODUCE]


def test_a_refusal_is_read_from_two_events(tmp_path: Path):
    """Its header and its reason are events of one line, or of two."""
    said = (
        "[2026-11-22 21:08:02,254] ERROR Closing socket for 10.0.0.1:9092-10.0.0.7:48912-8 because of error",
        f"org.apache.kafka.common.errors.InvalidRequestException: {WHY}",
    )
    events = [{"timestamp": 1795341602000, "message": text} for text in said]
    for text in (json.dumps(events), "\n".join(json.dumps([event]) for event in events)):
        (row,) = parsed(text.encode(), tmp_path)["usage"]
        assert (row["outcome"], row["api_key"], row["version"], row["client_host"]) == ("refused", 1, 99, "10.0.0.7")


# ---------------------------------------------------------------- any envelope

EVENTS = st.lists(st.sampled_from([FETCH, PRODUCE, (3, 12), None]), min_size=1, max_size=5)
Wrap = Callable[[list[Any]], Any]
NAMES = st.sampled_from(["message", "log", "event", "x"])


def texts_of(apis: list[tuple[int, int] | None]) -> list[str]:
    return [line(api) if api else "[2026-11-22 21:08:02,254] INFO started" for api in apis]


def objects(name: str) -> Wrap:
    return lambda events: [{name: event, "tags": ["a", "b"], "n": {"id": 1}} for event in events]


LISTS: list[Wrap] = [
    lambda events: events,
    lambda events: {"records": events, "count": len(events)},
    lambda events: {"a": {"b": [{"c": events}]}},
    lambda events: [{"values": [["1795341602000000000", event] for event in events]}],
    lambda events: {
        "hits": {"hits": [{"_source": event if isinstance(event, dict) else {"log": event}} for event in events]}
    },
]
SPELLED: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, separators=(",", ":")),
    lambda value: json.dumps(value, indent=2),
    lambda value: "".join(map(json.dumps, value)) if isinstance(value, list) else json.dumps(value),
    lambda value: "\n".join(map(json.dumps, value)) if isinstance(value, list) else json.dumps(value),
    lambda value: json.dumps({"log": json.dumps(value)}),
    lambda value: f"2026-11-22T21:08:02.254Z stdout F {json.dumps(value)}",
    lambda value: f"<165>1 2026-11-22T21:08:02Z host kafka - - - {json.dumps(value)}",
]


@given(
    apis=EVENTS,
    name=NAMES,
    wrap=st.lists(st.sampled_from(LISTS), max_size=3),
    spell=st.sampled_from(SPELLED),
    cut=st.one_of(st.none(), st.integers(1, 400)),
    packed=st.booleans(),
)
def test_for_any_envelope_no_request_vanishes_and_none_is_made_up(
    tmp_path_factory: pytest.TempPathFactory,
    apis: list[tuple[int, int] | None],
    name: str,
    wrap: list[Wrap],
    spell: Callable[[Any], str],
    cut: int | None,
    packed: bool,  # noqa: FBT001 - hypothesis draws it
):
    """Requests in = requests in rows + lines in quarantine that miss them, also where the end of the text is cut."""
    value: Any = objects(name)(texts_of(apis))
    for each in wrap:
        value = each(value if isinstance(value, list) else [value])
    text = spell(value)[: -cut if cut else None]
    folder = tmp_path_factory.mktemp("logs")
    found = read(gzip.compress(text.encode()) if packed else text, folder, "a.gz" if packed else "a")
    usage, reasons, _ = found
    sent = Counter(api for api in apis if api)
    assert usage <= sent
    missing = sum(count for reason, count in reasons.items() if reason not in {"no-request", "empty", "part"})
    assert usage.total() + missing >= text.count(MARKER)
    if cut is None:
        assert usage == sent
        assert missing == 0


# ---------------------------------------------------------------- lines without an end

GIANT = {
    "a list": json.dumps(FLUENT_BIT * 50),
    "a list without spaces": json.dumps(FLUENT_BIT * 50, separators=(",", ":")),
    "documents": "".join(json.dumps(CLOUDWATCH) for _ in range(50)),
    "one document": json.dumps({"messageType": "x", "logEvents": FLUENT_BIT * 50}),
    "OTLP": json.dumps({"resourceLogs": [{"resource": {"a": 1}, "scopeLogs": [{"logRecords": OTLP * 50}]}]}),
    "Loki": json.dumps({"streams": [{"stream": {}, "values": LOKI * 50}]}),
}


@pytest.mark.parametrize("piece", [10**9, 30_000, 7_001])
@pytest.mark.parametrize("text", GIANT.values(), ids=GIANT)
def test_json_that_is_too_long_for_a_line_is_cut_between_its_objects(
    text: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With lines around it, in one piece of a file or in many; memory has no more of it than of the longest line."""
    for name, size in {"LONGEST": 20_000, "_PIECE": piece, "_HEADER": 3_000}.items():
        monkeypatch.setattr(pieces_module, name, size)
    monkeypatch.setattr("featuregate_fleet.files.opening._BLOCK", 8_000)
    monkeypatch.setattr("featuregate_fleet.evidence.file_parser.LONGEST", 20_000)
    around = [line((3, 12)), text, line((3, 12)), text, text, line((3, 12))]
    for end in ("", "\n"):
        usage, reasons, _ = read("\n".join(around) + end, tmp_path)
        assert usage[3, 12] == 3
        assert usage[FETCH] + usage[PRODUCE] + reasons["cut"] == 300
        assert reasons["cut"] <= 3 * len(text) / 20_000  # at most one where a list in an event is cut
        assert reasons.keys() <= {"cut"}


def test_a_giant_text_that_is_no_json_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is one line in quarantine."""
    monkeypatch.setattr(pieces_module, "LONGEST", 2_000)
    monkeypatch.setattr("featuregate_fleet.evidence.file_parser.LONGEST", 2_000)
    text = line((3, 12), request="x" * 5_000)
    assert read("\n".join([line(FETCH), text, line(FETCH)]), tmp_path) == ({FETCH: 2}, {"too-long": 1}, 3)


def test_a_gzip_within_a_gzip_is_named(tmp_path: Path):
    """As text, it would be garbage without a request."""
    packed = gzip.compress(gzip.compress(json.dumps(CLOUDWATCH).encode()))
    assert read(packed, tmp_path, "a.gz")[:2] == ({}, {"unreadable": 1})


# ---------------------------------------------------------------- peek


def peek(text: str, folder: Path, capsys: pytest.CaptureFixture[str], *move: str) -> tuple[int, str]:
    (folder / "log").write_text(text)
    return main(["fleet", "peek", str(folder / "log"), *move]), capsys.readouterr().out


@pytest.mark.parametrize(("move", "expected"), [(("--to", "4.2"), 1), (("--drop-api", "Produce<3"), 3)])
@pytest.mark.parametrize("name", ["CloudWatch", "Fluent Bit", "Loki's push", "OTLP"])
def test_peek_names_who_breaks_in_any_event(
    name: str, move: tuple[str, str], expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The first event of each line has the requests that do not."""
    code, said = peek(TWO[name] * 40, tmp_path, capsys, *move)
    assert code == expected
    assert "Produce" in said


PACKED = zlib.compress("\n".join(line(PRODUCE, correlationId=number) for number in range(100)).encode())
CODES = {
    "no time": bare(PRODUCE),
    "a gzip": json.dumps({"data": "H4sIAAAAAAAAA6tWSs5JLS1SslJQ"}),
    "deflate in base64": json.dumps({"data": base64.b64encode(PACKED).decode()}),
    "base64 of URLs": base64.urlsafe_b64encode(PACKED).decode(),
    "hexadecimal digits": PACKED.hex(),
    "a URL": quote(line(PRODUCE)),
    "characters as numbers": "".join(f"\\u{ord(character):04x}" for character in line(PRODUCE)),
    "UTF-16": line(PRODUCE).encode("utf-16-le").decode(),
    "UTF-32": line(PRODUCE).encode("utf-32-be").decode(),
    "bytes": PACKED.decode(errors="replace"),
    "as fields": "\n".join([json.dumps(document(requestApiKey=0, requestApiVersion=2))] * 10),
}


@pytest.mark.parametrize("lost", CODES.values(), ids=CODES)
def test_peek_is_no_ok_where_requests_were_not_read(lost: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Those that were read say too little."""
    code, said = peek("\n".join([line(FETCH)] * 50 + [lost]), tmp_path, capsys, "--to", "3.9")
    assert code == 3
    assert "nobody in it breaks" not in said
    assert "too many requests were not read" in said


def test_the_address_of_the_broker_may_be_hidden(tmp_path: Path):
    """As in the logs of Amazon MSK; the fast path and the full parser say the same."""
    connection = "INTERNAL_IP-10.1.2.3:1-9"
    assert host_of(connection) == "10.1.2.3"
    lines = [line(FETCH, connection=connection), json.dumps({"message": line(FETCH, connection=connection)})]
    (row,) = parsed("\n".join(lines).encode(), tmp_path)["usage"]
    assert (row["client_host"], row["count"]) == ("10.1.2.3", 2)


def test_a_million_events_of_one_line_have_few_rows():
    """The rows of the quarantine are bounded, whatever a line holds."""
    assert len(events_in("[" + ",".join(['{"log":"x"}'] * 5_000) + "]")) == 5_000
