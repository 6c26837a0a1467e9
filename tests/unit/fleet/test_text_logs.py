"""Requests that brokers before 2.8 logged as text: any client can write such lines, so that none is evidence."""

import pytest

pytest.importorskip("pyarrow")

from fleet_evidence import NOW, UPGRADED, WEEK
from fleet_lines import TEXT, document, line_of
from fleet_rows import OF_BROKER_1, by_kind, lines_of, parsed_text

from featuregate.catalog import captured
from featuregate_fleet.evidence.batches import parse_files
from featuregate_fleet.evidence.file_parser import FileText
from featuregate_fleet.evidence.paths import log_file
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.readiness.rows import Verdict

LOG = BrokerLog(hours=9, requests=1000, first_seen=NOW - WEEK / 2, last_seen=NOW)


@pytest.mark.parametrize("real_lines", ["0.10.0.1", "0.11.0.3", "2.4.1", "2.7.2"], indirect=True)
def test_no_request_of_an_old_broker_counts(real_lines: list[str]):
    """Each of them is in quarantine; refused requests, which are lines of another logger, count."""
    rows = parsed_text("\n".join(real_lines))
    assert {row["outcome"] for row in rows["usage"]} == {"refused"}
    assert rows["hour"] == []
    lost = [row for row in rows["quarantine"] if row["reason"] == "text-log"]
    assert len(lost) == sum("Completed request:" in line for line in real_lines)
    assert {row["seen_at"] for row in lost} == {None}


def test_a_line_break_in_a_text_of_a_client_makes_no_request():
    """The head and the tail are two lines of the log, and both are of a request as text."""
    rows = parsed_text(TEXT.replace("clientId=a", "clientId=a\nb"))
    assert [row["reason"] for row in rows["quarantine"]] == ["text-log", "text-log"]


@pytest.mark.parametrize("end", [",", ";x"], ids=["the tail of the request", "a tail of its own"])
@pytest.mark.parametrize("changed", [{}, {"clientId": 'a"b'}], ids=["fast", "full"])
def test_a_client_cannot_forge_a_line_of_a_newer_broker(end: str, changed: dict[str, str]):
    """Behind a line break in its id any line may stand, also behind one that looks like the end of its request."""
    forged = line_of(document(**changed))
    head, _, tail = TEXT.partition("clientId=a,")
    text = f"{head}clientId=a{end if end == ',' else TEXT.partition('clientId=a')[2]}\n{forged}\nb,{tail}"
    rows = parsed_text(text)
    assert (rows["usage"], rows["hour"]) == ([], [])
    assert {row["reason"] for row in rows["quarantine"]} == {"text-log"}
    (counts,) = rows["source"]
    assert (counts["read"], counts["rows"], counts["quarantined"]) == (3, 0, 3)


def test_what_stands_before_a_request_as_text_counts():
    """A broker may be rolled back within a file."""
    rows = parsed_text(f"{line_of(document())}\n{TEXT}")
    assert [row["count"] for row in rows["usage"]] == [1]
    assert [row["reason"] for row in rows["quarantine"]] == ["text-log"]


def test_a_forged_line_is_known_by_the_lines_before_its_piece():
    """Executors read the pieces of a file, and a run goes on where the last one has ended."""
    text = TEXT.partition("clientId=a")[0] + "clientId=a\n"
    parts = lines_of(f"{text}{line_of(document())}\n".encode())
    rows = by_kind(parse_files([FileText(OF_BROKER_1, parts, start=len(text))]))
    assert (rows["usage"], [row["reason"] for row in rows["quarantine"]]) == ([], ["text-log"])


def test_a_request_as_text_of_an_unknown_broker_has_no_broker():
    """What to do about it is the same as for others: its folder needs the node id as its name."""
    rows = parsed_text(TEXT, log_file("file:///logs", "file:///logs/old/a", 5))
    assert [(row["reason"], row["broker"]) for row in rows["quarantine"]] == [("unknown-broker", None)]


def test_a_request_that_quotes_one_as_text_is_no_text():
    """A client id may hold anything: JSON has it in quotes."""
    (row,) = parsed_text(line_of(document(clientId=TEXT)))["usage"]
    assert row["client_id"] == TEXT


@pytest.mark.parametrize("has_others", [True, False])
def test_invariant_11_a_text_log_makes_no_move_ok(*, has_others: bool):
    """A client that wrote its requests as text may be in no other line. One row says it, and what to do."""
    move = ToRelease(captured()["4.2"])
    logs = {"1": LOG} if has_others else {}
    evidence = Evidence(brokers=logs, rows=1000, expected=frozenset({"1"}), view=UPGRADED)
    known = Evidence(
        brokers=logs, rows=1000, expected=frozenset({"1"}), view=UPGRADED, quarantined={("1", "text-log"): 5}
    )
    assert (assess(evidence, move, NOW, WEEK).verdict is Verdict.OK) == has_others
    found = assess(known, move, NOW, WEEK)
    (row,) = [row for row in found.rows if row.verdict is not Verdict.OK]
    assert (found.verdict, row.subject, row.count) == (Verdict.UNKNOWN, "log of broker 1", 5)
    assert row.do.startswith("Upgrade the broker to 2.8 or newer")
