"""Layouts and envelopes of request logs: each request is read, whatever a pattern or a shipper puts around it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of, read_line  # noqa: E402 - after the check for the extra
from fleet_rows import parsed_file, parsed_text, read_fast  # noqa: E402 - likewise
from transcripts import named_lines  # noqa: E402 - likewise

from featuregate_fleet.evidence import reasons  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.envelopes import unwrap  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import LoggedRequest  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.times import Layout, layouts_for, reads_as_kafka  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import LogFile, LogTimes  # noqa: E402 - likewise
from featuregate_fleet.files import pieces as pieces_module  # noqa: E402 - likewise

REQUEST = "Completed request:" + json.dumps(document(), separators=(",", ":"))
KAFKA = f"[2026-11-22 21:08:02,254] DEBUG {REQUEST} (kafka.request.logger)"
HANDLER = "[data-plane-kafka-request-handler-3]"
CRI_TIME = "2026-11-22T21:08:02.254123456Z"
TIME = "2026-11-22T21:08:02.254Z"
SECOND = datetime(2026, 11, 22, 21, 8, 2, tzinfo=UTC)
WRITTEN = datetime(2026, 11, 23, tzinfo=UTC)
EPOCH_MILLIS = 1795381682254

LINES = named_lines(
    __file__, "layouts.txt", {"KAFKA": KAFKA, "REQUEST": REQUEST, "ESC": "\x1b", "BOM": "\N{ZERO WIDTH NO-BREAK SPACE}"}
)
IN_THE_ZONE_OF_THE_BROKER = dict(LINES["in the zone of the broker"])
IN_UTC = dict(LINES["in UTC"]) | {
    "journald's bytes": json.dumps({"__REALTIME_TIMESTAMP": f"{EPOCH_MILLIS}000", "MESSAGE": list(REQUEST.encode())}),
    "CSV": f'{TIME},DEBUG,"' + REQUEST.replace('"', '""') + '",x',
}


def tables_of(text: str, zone: str = "UTC", layout: str = "") -> dict[str, list[dict[str, Any]]]:
    return parsed_text(text, LogFile("file:/l/1/a", "1/a", "1", 9, LogTimes(zone, layout), not_after=WRITTEN))


@pytest.mark.parametrize("line", IN_THE_ZONE_OF_THE_BROKER.values(), ids=IN_THE_ZONE_OF_THE_BROKER)
def test_a_time_without_a_zone_is_of_the_zone_of_the_broker(line: str):
    """The time that is nearest to the request counts, as the broker wrote it, and not that of a shipper."""
    for zone, hour in {"UTC": 21, "Europe/Berlin": 20}.items():
        tables = tables_of(f"{line}\n", zone)
        assert [(row["client_id"], row["api_key"], row["version"]) for row in tables["usage"]] == [("audit", 1, 16)]
        assert [(row["level"], row["hour"].hour) for row in tables["hour"]] == [("DEBUG", hour)]
        assert tables["usage"][0]["last_seen"].replace(microsecond=0) == SECOND.replace(hour=hour)
        assert tables["quarantine"] == []


@pytest.mark.parametrize("line", IN_UTC.values(), ids=IN_UTC)
def test_a_time_with_a_zone_is_in_utc_whatever_the_zone_of_the_broker(line: str):
    """An offset, a Z, the name of a zone, and a count since 1970 say it."""
    tables = tables_of(f"{line}\n", "Europe/Berlin")
    (row,), (hour,) = tables["usage"], tables["hour"]
    assert (row["client_id"], row["api_key"], row["version"], hour["level"]) == ("audit", 1, 16, "DEBUG")
    assert row["last_seen"].replace(microsecond=0) == SECOND
    assert hour["hour"] == SECOND.replace(minute=0, second=0)


@pytest.mark.parametrize("name", ["Kafka", "Strimzi up to 0.45", "Strimzi from 0.46 on", "CRI", "Cloudera"])
def test_the_most_frequent_layouts_are_read_by_the_fast_path(name: str):
    """Also where lines of one container begin with other lines of it."""
    line = IN_THE_ZONE_OF_THE_BROKER[name]
    assert read_fast(line, line) == [read_line(line)] * 2


NOT_UNDERSTOOD = [
    *LINES["not understood"],
    ("unknown-layout", f"{TIME} DEBUG {REQUEST}".replace('"', "&quot;")),
    ("cut", json.dumps({"log": f"{KAFKA}\n", "stream": "stdout"})[:400]),
    ("no-request", '{"a": ' + "9" * 9999 + "}"),
    ("empty", f"{CRI_TIME} stdout F "),
]


@pytest.mark.parametrize(("reason", "line"), NOT_UNDERSTOOD)
def test_a_line_that_is_not_understood_has_a_reason(reason: str, line: str):
    """A time without a year, or with a day that may be the month, is none: its hour would be a guess."""
    assert read_line(line) == reason
    assert [row["reason"] for row in tables_of(f"{line}\n")["quarantine"]] == [reason]


# ---------------------------------------------------------------- layouts that the operator names

WITH_A_LAYOUT = {
    "the day first": ("%d/%m/%Y %H:%M:%S", f"05/11/2026 21:08:02,254 DEBUG {REQUEST}", "2026-11-05T21:08:02Z"),
    "the month first": ("%m/%d/%Y %H:%M:%S", f"05/11/2026 21:08:02 DEBUG {REQUEST}", "2026-05-11T21:08:02Z"),
    "dots are of a month": ("%m.%d.%Y %H:%M:%S", f"05.11.2026 21:08:02 DEBUG {REQUEST}", "2026-05-11T21:08:02Z"),
    "two digits": ("%y/%m/%d %H:%M:%S", f"26/11/05 21:08:02 DEBUG {REQUEST}", "2026-11-05T21:08:02Z"),
    "no year": ("%b %d %H:%M:%S", f"Nov  5 21:08:02 host kafka: DEBUG {REQUEST}", "2026-11-05T21:08:02Z"),
    "last year": ("%d-%m %H:%M:%S", f"[24-11 21:08:02] DEBUG {REQUEST}", "2025-11-24T21:08:02Z"),
    "a leap day": ("%d %b %H:%M:%S", f"29 FEB 21:08:02 DEBUG {REQUEST}", "2024-02-29T21:08:02Z"),
    "the day of the year": ("%Y.%j-%H%M%S", f"2026.309-210802 DEBUG {REQUEST}", "2026-11-05T21:08:02Z"),
    "twelve hours": ("%d/%m/%y %I:%M:%S %p", f"05/11/26 9:08:02 PM DEBUG {REQUEST}", "2026-11-05T21:08:02Z"),
    "a fraction": ("%d/%m/%Y %H:%M:%S:%f", f"05/11/2026 21:08:02:254 DEBUG {REQUEST}", "2026-11-05T21:08:02Z"),
    "text": ("at %d/%m, %H:%M 100%%", f"at 05/11, 21:08 100% DEBUG {REQUEST}", "2026-11-05T21:08:00Z"),
    "Kafka's, the day second": ("%Y-%d-%m %H:%M:%S", KAFKA.replace("11-22", "05-11"), "2026-11-05T21:08:02Z"),
    "in JSON": ("%d/%m %H:%M:%S", json.dumps({"ts": "05/11 21:08:02", "msg": REQUEST}), "2026-11-05T21:08:02Z"),
    "a line that needs none": ("%d/%m/%Y %H:%M:%S", KAFKA, "2026-11-22T21:08:02Z"),
}


@pytest.mark.parametrize(("layout", "line", "time"), WITH_A_LAYOUT.values(), ids=WITH_A_LAYOUT)
def test_a_layout_says_what_a_time_means(layout: str, line: str, time: str):
    """In the zone of the broker. A time without a year is of the last year before the file was written."""
    for zone, ahead in {"UTC": 0, "Etc/GMT-1": 1}.items():
        tables = tables_of(f"{line}\n", zone, layout=layout)
        assert tables["quarantine"] == []
        (row,) = tables["usage"]
        assert row["last_seen"].replace(microsecond=0) == datetime.fromisoformat(time) - timedelta(hours=ahead)


def test_a_zone_behind_a_layout_counts():
    """The layout need not name it."""
    for layout in ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S %z"):
        line = f"05/11/2026 22:08:02 +0100 DEBUG {REQUEST}\n"
        (row,) = tables_of(line, "America/New_York", layout=layout)["usage"]
        assert row["last_seen"] == SECOND.replace(day=5)


def test_a_clock_may_lack_seconds_where_it_has_a_colon():
    """With a dot it is a number."""
    (row,) = tables_of(f"2026-11-22 21:08 DEBUG {REQUEST}\n")["usage"]
    assert row["last_seen"] == SECOND.replace(second=0)
    assert read_line(f"2026-11-22 21.08 DEBUG {REQUEST}") == reasons.UNKNOWN_LAYOUT


def test_a_layout_does_not_take_a_part_of_another_time():
    """Nor a day that does not exist, and no time without a year where it is not known when the file was written."""
    assert Layout("%d/%m/%Y %H:%M").last_time("05/11/2026 21:08:02") is None
    assert Layout("%m-%d %H:%M:%S", WRITTEN).last_time("2026-11-05 21:08:02") is None
    assert Layout("%d-%m %H:%M:%S").last_time("05-11 21:08:02") is None
    assert Layout("%Y-%j %H:%M").last_time("2026-366 21:08") == (None, False)
    assert Layout("%d-%m %H:%M", WRITTEN).last_time("31-02 21:08") == (None, False)


def test_the_fast_path_reads_what_means_the_same_with_the_layout():
    """A layout for the lines of an older log leaves the others as fast as they were."""
    assert reads_as_kafka(None)
    assert reads_as_kafka(Layout("%d/%m/%Y %H:%M:%S"))
    assert reads_as_kafka(Layout("%Y-%m-%d %H:%M:%S"))
    assert not reads_as_kafka(Layout("%Y-%d-%m %H:%M:%S"))


def test_a_refusal_is_read_with_a_layout():
    """Its time stands in the line before its reason."""
    (row,) = tables_of("\n".join(lines_of_error("05/11 21:08:02 ERROR ")[:2]), layout="%d/%m %H:%M:%S")["usage"]
    assert (row["outcome"], row["last_seen"]) == ("refused", SECOND.replace(day=5))


def test_parts_of_a_line_are_joined_with_a_layout():
    """In CRI, whose own time would be taken without one; and the head of a cut line is read."""
    line = LONG.replace("[2026-11-22 21:08:02,254]", "05/11 21:08:02")
    tables = tables_of("\n".join(in_cri(line, 16_384)), layout="%d/%m %H:%M:%S")
    assert [row["last_seen"] for row in tables["usage"]] == [SECOND.replace(day=5)]
    (cut,) = tables_of(line[:9000], layout="%d/%m %H:%M:%S")["quarantine"]
    assert (cut["reason"], cut["seen_at"], cut["client_id"]) == ("cut", SECOND.replace(day=5), "long")


@pytest.mark.parametrize(
    ("head", "layouts"),
    [
        ("05/11/2026 21:08:02", ["%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S"]),
        ("[05-11-2026T21:08:02,254]", ["%d-%m-%YT%H:%M:%S", "%m-%d-%YT%H:%M:%S"]),
        ("Nov 22 21:08:19 host kafka[1]:", ["%b %d %H:%M:%S"]),
        ("26.11.22 21:08:02", ["%y.%m.%d %H:%M:%S", "%d.%m.%y %H:%M:%S"]),
        ("5/6/26, 9:08:02 PM", ["%d/%m/%y, %I:%M:%S %p", "%m/%d/%y, %I:%M:%S %p"]),
        ("22-NOV-26 09.08.02.254 PM", ["%d-%b-%y %I.%M.%S %p"]),
        ("22 Okt 2026 21:08:02", []),
        ("[21:08:02,254]", []),
    ],
)
def test_a_line_that_needs_a_layout_shows_which(head: str, layouts: list[str]):
    """Two where day and month are unclear; none for a line without a date."""
    line = f"{head} DEBUG {REQUEST}"
    assert layouts_for(line) == layouts
    assert all(not tables_of(line, layout=layout)["quarantine"] for layout in layouts)


DEPRECATED = ',"requestApiVersionDeprecated":true'


@pytest.mark.parametrize(("deprecated", "level"), [(DEPRECATED, "INFO"), ("", "DEBUG")])
def test_a_line_without_a_level_is_of_debug_unless_its_version_is_deprecated(deprecated: str, level: str):
    """At INFO brokers log deprecated requests alone, so that such a line does not show that all are logged."""
    line = line_of(document(), head="[2026-11-22 21:08:02,254]")
    header = '"requestApiKeyName":"FETCH"'
    found = read_line(line.replace(header, header + deprecated))
    assert isinstance(found, LoggedRequest)
    assert found.level == level


# ---------------------------------------------------------------- lines that a runtime has split


def in_cri(text: str, size: int, stream: str = "stdout") -> list[str]:
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return [f"{CRI_TIME} {stream} {'F' if part is parts[-1] else 'P'} {part}" for part in parts]


def in_docker(text: str, size: int) -> list[str]:
    parts = [text[at : at + size] for at in range(0, len(text) + 1, size)]
    return [
        json.dumps({"log": part + ("\n" if part is parts[-1] else ""), "stream": "stdout", "time": TIME})
        for part in parts
    ]


LONG = line_of(document(clientId="long", request={"topics": "x" * 40_000}), head="[2026-11-22 21:08:02,254] DEBUG")


@pytest.mark.parametrize("split", [in_cri, in_docker])
def test_the_parts_of_a_line_are_one_request(split: Any):
    """Each part counts as a line that was understood. Lines of another stream, and other requests, are around them."""
    lines = [*split(KAFKA, 16_384), *split(LONG, 16_384), *split(KAFKA, 16_384)]
    lines.insert(2, f"{CRI_TIME} stderr F a warning of the JVM")
    tables = tables_of("\n".join([*lines, ""]))
    assert sorted((row["client_id"], row["count"]) for row in tables["usage"]) == [("audit", 2), ("long", 1)]
    assert [row["reason"] for row in tables["quarantine"]] == ["no-request"]
    assert tables["source"][0]["rows"] == len(lines) - 1


def test_a_line_of_docker_may_have_lost_its_line_break():
    """Shippers strip it, and the next line is another one."""
    lines = [json.dumps({"log": text, "stream": "stdout"}) for text in (KAFKA, "started", KAFKA)]
    tables = tables_of("\n".join([*lines, ""]))
    assert [(row["client_id"], row["count"]) for row in tables["usage"]] == [("audit", 2)]
    assert [row["reason"] for row in tables["quarantine"]] == ["no-request"]


@pytest.mark.parametrize("split", [in_cri, in_docker])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_line_without_its_end_is_cut_and_hides_no_other_one(split: Any, lost: int):
    """The first part has the reason, and says which client used which version."""
    parts = split(LONG, 16_384)
    tables = tables_of("\n".join([*parts[:-lost], *split(KAFKA, 16_384)]))
    assert [(row["client_id"], row["count"]) for row in tables["usage"]] == [("audit", 1)]
    assert [row["reason"] for row in tables["quarantine"]] == ["cut", *["part"] * (len(parts) - lost - 1)]
    head = tables["quarantine"][0]
    assert (head["client_id"], head["api_key"], head["version"]) == ("long", 1, 16)
    assert head["seen_at"].replace(microsecond=0) == SECOND
    files = tables["source"][0]
    assert files["read"] == files["rows"] + files["quarantined"] == len(parts) - lost + 1


@pytest.mark.parametrize("split", [in_cri, in_docker])
def test_parts_that_do_not_belong_together_make_no_request(split: Any):
    """The head of one request and the end of another."""
    other = split(LONG.replace('"long"', '"other"').replace("x", '","'), 16_384)
    tables = tables_of("\n".join([split(LONG, 16_384)[0], other[-1], ""]))
    assert tables["usage"] == []
    assert [row["reason"] for row in tables["quarantine"]] == ["cut", "part"]


@pytest.mark.parametrize("at", [-1, 0, 1, 20_000, 40_000])
def test_parts_are_joined_across_the_pieces_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int):
    """Each piece is a task of its own: the second one reads what the first one has begun."""
    before, parts = in_cri(KAFKA, 16_384) * 3, in_cri(LONG, 16_384)
    monkeypatch.setattr(pieces_module, "_PIECE", len("\n".join(before)) + 1 + at)
    log = tmp_path / "1" / "log"
    log.parent.mkdir()
    log.write_text("\n".join([*before, *parts, *before, ""]))
    tables = parsed_file(log)
    assert len(tables["source"]) > 1
    assert tables["quarantine"] == []
    assert sorted((row["client_id"], row["count"]) for row in tables["usage"]) == [("audit", 6), ("long", 1)]


# ---------------------------------------------------------------- refused requests

CLOSED = "Closing socket for 1.2.3.4:9092-10.0.0.7:48912-8 because of error"
FAILED = "Exception while processing request from 1.2.3.4:9092-10.0.0.7:48912-8"
WHY = "Received request for api with key 3 (Metadata) and unsupported version 99"
EXCEPTION = "org.apache.kafka.common.errors.UnsupportedVersionException"


def lines_of_error(begin: str, *, logger: str = " (kafka.network.Processor)", prefix: str = "") -> list[str]:
    texts = [f"{begin}{CLOSED}{logger}", f"{EXCEPTION}: {WHY}", f"{begin}{FAILED}{logger}", f"{EXCEPTION}: {WHY}"]
    return [f"{prefix}{text}" for text in texts]


def in_json(**names: Any) -> list[str]:
    return [json.dumps({"@timestamp": TIME, "level": "ERROR", "message": text, **names}) for text in (CLOSED, FAILED)]


STACK = f"{EXCEPTION}: {WHY}\n\tat kafka.network.Processor.parse(SocketServer.scala)"
REFUSED = {
    "Kafka": lines_of_error("[2026-11-22 21:08:02,254] ERROR "),
    "Strimzi": lines_of_error(f"2026-11-22 21:08:02 ERROR {HANDLER} Processor:1 - ", logger=""),
    "CRI": lines_of_error("[2026-11-22 21:08:02,254] ERROR ", prefix=f"{CRI_TIME} stdout F "),
    "Compose": lines_of_error("[2026-11-22 21:08:02,254] ERROR ", prefix="kafka-1  | "),
    "syslog": lines_of_error("[2026-11-22 21:08:02,254] ERROR ", prefix="Nov 22 21:08:19 host kafka[1]: "),
    "kubectl": lines_of_error("[2026-11-22 21:08:02,254] ERROR ", prefix="[pod/kafka-0/kafka] "),
    "no level": lines_of_error("[2026-11-22 21:08:02,254] "),
    "Docker": [
        json.dumps({"log": f"{line}\n", "stream": "stdout", "time": TIME})
        for line in lines_of_error("[2026-11-22 21:08:02,254] ERROR ")
    ],
    "a stack in JSON": in_json(stack_trace=STACK),
    "an ECS error": in_json(error={"type": EXCEPTION, "message": WHY}),
    "JsonLayout": in_json(thrown={"name": EXCEPTION, "message": WHY}),
    "one text": [json.dumps({"@timestamp": TIME, "message": f"{text}\n{STACK}"}) for text in (CLOSED, FAILED)],
    "rsyslog": [
        f"2026-11-22 21:08:02,254 ERROR {text} (kafka.network.Processor)#012{EXCEPTION}: {WHY}"
        for text in (CLOSED, FAILED)
    ],
}


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED)
def test_a_refused_request_counts_once_in_each_layout(lines: list[str]):
    """The broker logs it twice, with the reason behind."""
    tables = tables_of("\n".join([*lines, ""]))
    (row,) = tables["usage"]
    assert (row["outcome"], row["client_host"], row["api_key"], row["version"], row["count"]) == (
        "refused", "10.0.0.7", 3, 99, 1,
    )  # fmt: skip
    assert row["last_seen"].replace(microsecond=0) == SECOND
    assert tables["quarantine"] == []


def test_a_refusal_without_a_time_has_an_unknown_layout():
    """Its hour is not known."""
    tables = tables_of("\n".join(lines_of_error("ERROR ")[:2]))
    assert tables["usage"] == []
    assert [row["reason"] for row in tables["quarantine"]] == ["unknown-layout"]


def test_half_a_surrogate_pair_in_an_envelope_is_replaced():
    """JSON can spell it, and no table can keep it."""
    assert unwrap('{"message": "a\\ud800b"}').text == "a?b"
    assert unwrap('{"message": "a\\ud83d\\ude00b"}').text == "a\U0001f600b"
