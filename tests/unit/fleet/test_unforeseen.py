"""A net under all parsers: an error that nobody foresaw ends the reading of one line, record or file alone."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra
from fleet_rows import by_kind, parsed_text  # noqa: E402 - likewise

from featuregate.cli import main  # noqa: E402 - likewise
from featuregate.records import CONSUMER_OFFSETS  # noqa: E402 - likewise
from featuregate.usage.report import Reporter, UsageReport  # noqa: E402 - likewise
from featuregate_fleet.evidence import file_parser, reasons, topic_records  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines import documents, envelopes, one_line  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.fast_path import LINES  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import LogFile  # noqa: E402 - likewise
from featuregate_fleet.files import opening  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import parse_pieces  # noqa: E402 - likewise
from featuregate_fleet.files.pieces import Piece  # noqa: E402 - likewise

BEGIN = "[2026-11-22 21:08:02,254] DEBUG Completed request:"
TEXT = (
    f"{BEGIN}RequestHeader(apiKey=0FETCH, apiVersion=4, clientId=x, correlationId=1) -- {{}} from connection a:1-b:2-0;"
)
TAIL = "totalTime:1,requestQueueTime:1,securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,listener:PLAINTEXT"
REASON = (
    "org.apache.kafka.common.errors.InvalidRequestException: Received request api key FETCH with version 99 which is"
)
LINES_OF_EACH_KIND = {
    "JSON in JSON": json.dumps({"message": line_of(document())}),
    "cut": line_of(document())[:300],
    "a refusal": "[2026-11-22 21:08:02,254] ERROR Closing socket for a:1-b:2-0 because of error",
    "its reason": f"{REASON} not enabled",
    "a part": json.dumps({"log": line_of(document())[:200], "stream": "stdout"}),
    "two": json.dumps([{"log": line_of(document())}, {"log": line_of(document())[:300]}]),
}
PARSERS = [
    (envelopes, "documents_in"),
    (documents, "_time"),
    (documents, "_level"),
    (one_line, "is_as_text"),
    (one_line, "_request"),
    (one_line.request, "last_level"),
    (one_line, "time_in"),
    (one_line, "_reason"),
    (file_parser, "events_in"),
    (file_parser, "read_unwrapped"),
    (file_parser, "refusal_in"),
]


def failing(*_: object, **__: object) -> NoReturn:
    raise ZeroDivisionError


def counted(text: str) -> tuple[int, int, int]:
    rows = parsed_text(text)
    (counts,) = rows["source"]
    assert counts["read"] == counts["rows"] + counts["quarantined"]
    assert counts["quarantined"] == sum(row["lines"] for row in rows["quarantine"])
    return counts["read"], counts["rows"], counts["quarantined"]


@pytest.mark.parametrize(("module", "name"), PARSERS, ids=[name for _, name in PARSERS])
def test_no_line_ends_the_reading_of_the_others(module: Any, name: str, monkeypatch: pytest.MonkeyPatch):
    """Whichever step of the parser fails: the lines of the fast path are rows, and the others are counted."""
    monkeypatch.setattr(module, name, failing)
    around = [line_of(document())] * 3
    read, rows, quarantined = counted("\n".join([*around, *LINES_OF_EACH_KIND.values(), *around]) + "\n")
    assert rows >= 6
    assert read >= 6 + len(LINES_OF_EACH_KIND)
    assert quarantined


def test_the_lines_of_a_batch_at_which_the_fast_path_fails_are_read_by_the_full_parser(monkeypatch: pytest.MonkeyPatch):
    """It is slower, and the same."""
    monkeypatch.setattr("featuregate_fleet.evidence.batches.read_lines", failing)
    assert counted(f"{line_of(document())}\n") == (1, 1, 0)


def test_what_no_table_can_keep_is_in_quarantine(monkeypatch: pytest.MonkeyPatch):
    """A number that is too large for its column, whoever let it pass."""
    monkeypatch.setattr(one_line.request, "ANSWERED", range(2**70))
    line = json.dumps({"message": line_of(document(requestApiVersion=2**65))})
    assert counted("\n".join([line_of(document()), line])) == (2, 1, 1)


def test_a_line_that_any_client_can_write_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """In the log of a broker before 2.8."""
    log = tmp_path / "log"
    log.write_text(f"{TEXT}{TAIL}\n{line_of(document())}\n")
    assert main(["fleet", "peek", str(log), "--to", "4.2"]) == 3  # the second line may be of the same client
    assert "2 text-log" in capsys.readouterr().out


TOKENS = (
    BEGIN, "Completed request:", '{"', '"', "}", "{", "[", "]", ":", ",", "\\", "\\n", "\n", "\x1e",
    "RequestHeader(apiKey=", "{api_key=", "Name: ", "Request; Version: ", ", apiVersion=4, clientId=",
    ", correlationId=1) -- ", "0FETCH", "\u0661", "9" * 30, ",listener:P", "\ud800", TEXT + TAIL,
    " from connection a:1-b:2-0;totalTime:1,securityProtocol:A,principal:", "H4sIAAAAAAAAA6tWSs5JLS1S",
    "2026-13-45 99:99:99", *LINES_OF_EACH_KIND.values(),
)  # fmt: skip
WORDS = st.lists(st.sampled_from(TOKENS), max_size=12).map("".join)


@given(texts=st.lists(WORDS, max_size=4))
def test_whatever_the_text_is_its_lines_are_counted(texts: list[str]):
    """Half of each kind, joined in any way, between two that are read unless one as text may have forged them."""
    text = "\n".join([line_of(document()), *texts, line_of(document())])
    text = text.encode(errors="replace").decode()
    read, rows, _ = counted(text)
    assert rows >= 2 or reasons.TEXT_LOG in {row["reason"] for row in parsed_text(text)["quarantine"]}
    assert read >= 2


# ---------------------------------------------------------------- files and records


def test_a_file_that_fails_in_a_way_that_nobody_foresaw_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The other files of its task are read."""
    (tmp_path / "1").mkdir()
    pieces = []
    for name in ("a", "b.gz", "c"):
        path = tmp_path / "1" / name
        path.write_text(f"{line_of(document())}\n")
        pieces.append(Piece(LogFile(path.as_uri(), f"1/{name}", "1", path.stat().st_size)))
    monkeypatch.setattr(opening, "_members", failing)
    rows = by_kind(parse_pieces(pieces))
    assert [row["reason"] for row in rows["source"]] == [None, "unreadable", None]
    assert sum(row["count"] for row in rows["usage"]) == 2


def of_reports(monkeypatch: pytest.MonkeyPatch, *, at_table: bool) -> list[Any]:
    read = topic_records._rows

    def rows(report: UsageReport, seen_at: Any) -> Any:
        if report.epoch == 1:
            return [{"epoch": 2**70}] if at_table else failing()
        return read(report, seen_at)

    monkeypatch.setattr(topic_records, "_rows", rows)
    reporter = Reporter("orders", "orders-1", "featuregate", "0.1.0")
    records = [
        {
            "topic": "t",
            "partition": 0,
            "offset": number,
            "timestamp": datetime(2026, 11, 22, tzinfo=UTC),
            "value": UsageReport(
                reporter=reporter, reported_at=1.0, cluster_id=None, epoch=number, age_seconds=0.0, gates=()
            )
            .to_json()
            .encode(),
        }
        for number in range(3)
    ]
    batch = pa.RecordBatch.from_pylist(records, topic_records.RECORDS)
    found = pa.Table.from_batches(topic_records.parse_reports([batch], topic_id="", cluster_id=None))
    (app,), (lost,) = (found[kind].drop_null().to_pylist() for kind in ("app", "quarantine"))
    assert lost["at"] == 1
    return [*(None for _ in range(app["count"])), lost["reason"]]


def of_coordinators(monkeypatch: pytest.MonkeyPatch, *, at_table: bool) -> list[Any]:
    read = topic_records._fields

    def fields(topic: str, key: bytes, value: bytes) -> Any:
        if key == b"1":
            return {"reason": 2**70} if at_table else failing()
        return read(topic, key, value)

    monkeypatch.setattr(topic_records, "_fields", fields)
    records = [{"topic": CONSUMER_OFFSETS.topic, "key": b"%d" % number, "value": b""} for number in range(3)]
    batch = pa.RecordBatch.from_pylist(records, topic_records.RECORDS)
    (found,) = topic_records.decode_batches([batch])
    return [row["reason"] for row in found.column("record").to_pylist()]


@pytest.mark.parametrize("at_table", [False, True])
@pytest.mark.parametrize("read", [of_reports, of_coordinators])
def test_no_record_ends_the_reading_of_the_others(
    read: Callable[..., list[Any]], *, at_table: bool, monkeypatch: pytest.MonkeyPatch
):
    """Whether its reader fails or the table into which it goes."""
    assert len(read(monkeypatch, at_table=at_table)) == 3


def test_a_line_before_a_piece_that_fails_hides_nothing(monkeypatch: pytest.MonkeyPatch):
    """It belongs to the piece before, which has it in quarantine."""
    parser = file_parser.FileParser(LogFile("file:/l/1/a", "1/a", "1", 9))
    monkeypatch.setattr(file_parser, "events_in", failing)
    parser.follow(pa.RecordBatch.from_pydict({"value": ["x"], "at": [0], "length": [1]}, LINES))
    assert parser.previous == "x"
