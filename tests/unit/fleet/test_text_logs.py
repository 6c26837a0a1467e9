"""Requests that brokers before 2.8 logged as text, in which a client can write lines of another one."""

from dataclasses import replace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from fleet_evidence import NOW, UPGRADED, WEEK, usage  # noqa: E402 - after the check for the extra
from fleet_lines import document, line_of  # noqa: E402 - likewise

from featuregate.catalog import captured  # noqa: E402 - likewise
from featuregate_fleet.evidence.batches import parse_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import log_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.text import LINES  # noqa: E402 - likewise
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, Usage  # noqa: E402 - likewise
from featuregate_fleet.readiness.inter_broker import of_nodes  # noqa: E402 - likewise
from featuregate_fleet.readiness.moves import DropApi, ToRelease  # noqa: E402 - likewise
from featuregate_fleet.readiness.report import Report, assess  # noqa: E402 - likewise
from featuregate_fleet.readiness.rows import Row, Verdict  # noqa: E402 - likewise

FETCH, LIST_OFFSETS, API_VERSIONS, REGISTER = 1, 2, 18, 62
LOG = BrokerLog(hours=9, requests=1000, first_seen=NOW - WEEK / 2, last_seen=NOW)
MOVE = ToRelease(captured()["4.2"])


def report(*used: Usage, move: Any = MOVE, text_logs: tuple[str, ...] = ("1",), **evidence: Any) -> Report:
    """Assess requests of which some were logged as text."""
    both = Evidence(
        usage=used,
        brokers={"1": LOG, "2": LOG},
        rows=1000,
        text_logs=frozenset(text_logs),
        **({"view": UPGRADED} | evidence),
    )
    return assess(both, move, NOW, WEEK)


def rows(found: Report, check: str = "api-versions") -> list[Row]:
    """Return the rows of one check."""
    return [row for row in found.rows if row.check == check]


def in_text(used: Usage) -> Usage:
    """Return the same requests as a broker before 2.8 logs them."""
    return replace(used, text_log=True)


def refused(**changed: Any) -> Usage:
    """Return refused requests."""
    return usage(LIST_OFFSETS, 0, outcome="refused", principal=None, client_id=None, client_host="10.0.0.1", **changed)


def test_a_request_in_a_text_log_does_not_block():
    """Another client may have written it: that is unknown, and the row says why."""
    old = usage(LIST_OFFSETS, 0)
    (blocks,), (unknown,) = rows(report(old)), rows(report(in_text(old)))
    assert (blocks.verdict, unknown.verdict) == (Verdict.BLOCK, Verdict.UNKNOWN)
    assert "another client may have written it" in unknown.why
    assert unknown.do.startswith("Look whether client 'audit' of User:audit uses these versions.")
    assert {row.verdict for row in rows(report(old, in_text(old)))} == {Verdict.BLOCK, Verdict.UNKNOWN}


def test_a_cut_or_refused_request_in_a_text_log_does_not_block():
    """Each of them can be written, too."""
    cut = usage(LIST_OFFSETS, 0, outcome="cut", principal=None)
    assert {row.verdict for row in rows(report(cut=(cut,)))} == {Verdict.BLOCK}
    assert {row.verdict for row in rows(report(cut=(in_text(cut),)))} == {Verdict.UNKNOWN}
    assert [row.verdict for row in rows(report(refused()), "refused-requests")] == [Verdict.BLOCK]
    (row,) = rows(report(in_text(refused())), "refused-requests")
    assert (row.verdict, "another client may have written it" in row.why) == (Verdict.UNKNOWN, True)


def test_a_text_log_makes_no_move_ok():
    """A client can hide its own requests in it, whatever the others are."""
    found = report(in_text(usage()))
    (doubtful,) = [row for row in rows(found, "coverage") if row.subject == "log of broker 1"]
    assert (doubtful.verdict, found.verdict) == (Verdict.WARN, Verdict.WARN)
    assert report(usage(), text_logs=()).verdict is Verdict.OK


def test_a_text_log_does_not_say_that_a_client_negotiates():
    """That would make a block of lines in JSON a warning. For lines of text logs it does."""
    newer, negotiates = usage(FETCH, 99), usage(API_VERSIONS, 3)
    assert rows(report(newer, negotiates))[0].verdict is Verdict.WARN
    assert rows(report(newer, in_text(negotiates)))[0].verdict is Verdict.BLOCK
    assert {row.verdict for row in rows(report(in_text(newer), in_text(negotiates)))} == {Verdict.WARN}
    assert {row.verdict for row in rows(report(in_text(newer), negotiates))} == {Verdict.WARN, Verdict.OK}


def test_a_text_log_does_not_say_which_version_is_the_newest():
    """Otherwise a version that brokers may not surpass would block."""
    used, newest = usage(FETCH, 11), usage(FETCH, 12, client_id="other")
    drop = DropApi(FETCH, 12)
    assert rows(report(used, move=drop, view=None))[0].verdict is Verdict.UNKNOWN
    assert rows(report(used, newest, move=drop, view=None))[0].verdict is Verdict.BLOCK
    assert {row.client_id: row.verdict for row in rows(report(used, in_text(newest), move=drop, view=None))} == {
        "audit": Verdict.UNKNOWN,
        "other": Verdict.OK,
    }


def test_a_text_log_does_not_make_a_client_a_node():
    """The internal API of a line in a text log does not hide requests in JSON; those in text logs are of nodes then."""
    named, internal = (
        usage(FETCH, 2, client_id="broker-1-fetcher-0"),
        usage(REGISTER, 0, client_id="broker-1-fetcher-0"),
    )
    assert of_nodes([named, internal], {"1"}) == (named,)
    assert of_nodes([named, in_text(internal)], {"1"}) == ()
    assert of_nodes([in_text(named), in_text(internal)], {"1"}) == (in_text(named),)
    cut = usage(LIST_OFFSETS, 0, client_id="7", outcome="cut", principal=None)
    node = usage(FETCH, 16, client_id="7")
    assert rows(report(cut=(cut,), node_usage=(node,))) == []
    assert [row.verdict for row in rows(report(cut=(cut,), node_usage=(in_text(node),)))] == [Verdict.BLOCK]


@pytest.mark.parametrize(
    ("line", "is_text"),
    [
        (line_of(document()), False),
        (
            "[2026-11-22 21:08:39,958] DEBUG Completed request:RequestHeader(apiKey=FETCH, apiVersion=3, clientId=a",
            True,
        ),
        (
            ", correlationId=1) -- {} from connection 1:1-2:2-0;totalTime:1.0,securityProtocol:SSL,principal:User:a",
            True,
        ),
    ],
)
def test_a_file_says_whether_it_has_requests_as_text(line: str, is_text: bool):  # noqa: FBT001
    """The head or the tail of one is enough."""
    lines = pa.RecordBatch.from_pylist([{"value": line, "at": 0, "length": len(line)}], LINES)
    *_, counts = parse_file(log_file("/logs", "file:///logs/1/a.log", 5), [lines])
    assert counts["evidence_files"][0].as_py()["text_log"] is is_text
