"""Verdicts: each check has evidence on which it blocks, and evidence on which it passes."""

from dataclasses import replace
from typing import Any

import pytest
from fleet_evidence import assessed as report
from fleet_evidence import usage, view

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.evidence import Usage
from featuregate_fleet.readiness.moves import DowngradeTo, Move, ToRelease
from featuregate_fleet.readiness.report import Report
from featuregate_fleet.readiness.rows import Row, Verdict, worst

FETCH, LIST_OFFSETS, PRODUCE, METADATA, API_VERSIONS, LEADER_AND_ISR = 1, 2, 0, 3, 18, 4
END_TXN = 26
TO_3_9 = ToRelease(captured()["3.9"])


def only(found: Report, check: str) -> Row:
    (row,) = [row for row in found.rows if row.check == check]
    return row


@pytest.mark.parametrize(
    ("runs", "move", "named"),
    [
        ("3.9", ToRelease(captured()["4.2"]), ["audit"]),
        ("4.1", ToRelease(captured()["4.2"]), ["audit"]),
        ("4.2", DowngradeTo(captured()["3.9"], "3.9.2"), ["audit"]),
        ("3.9", ToRelease(captured()["4.3"]), []),
        ("4.3", DowngradeTo(captured()["4.1"], "4.1.1"), []),
        ("4.3", DowngradeTo(captured()["4.2"], "4.2.0"), []),
        ("4.2", ToRelease(captured()["4.3"]), []),
        ("3.9", ToRelease(captured()["4.1"]), []),
    ],
)
def test_transactions_stay_open_while_4_2_0_and_older_brokers_run_together(runs: str, move: Move, named: list[str]):
    """A client that ends transactions is warned, and one that does not is not (KAFKA-20322; seen: 3.9.2 and 4.2.0)."""
    found = report(usage(END_TXN, 3), usage(FETCH, 12, client_id="reader"), move=move, view=view(runs))
    rows = [row for row in found.rows if row.check == "transactions"]
    assert [(row.client_id, row.verdict) for row in rows] == [(client, Verdict.WARN) for client in named]


@pytest.mark.parametrize(("key", "version"), [(LIST_OFFSETS, 0), (FETCH, 3), (PRODUCE, 2)])
def test_a_version_that_the_target_dropped_blocks(key: int, version: int):
    """Also Produce 0 to 2, which brokers from 4.0 on advertise and refuse."""
    found = report(usage(key, version), usage(METADATA, 1))
    assert (found.verdict, only(found, "api-versions").versions) == (Verdict.BLOCK, (version,))
    assert report(usage(key, version), move=TO_3_9).verdict is Verdict.OK


@pytest.mark.parametrize(("key", "older"), [(60, "Metadata"), (69, "DescribeGroups"), (75, "Metadata")])
def test_an_api_that_replaced_another_one_is_a_warning_for_a_client_that_negotiates(key: int, older: str):
    """Admin clients ask for the older one where a broker does not have it; what never asked uses one API and breaks."""
    row = only(
        report(usage(key, 0), usage(API_VERSIONS, 3), move=DowngradeTo(captured()["2.7"], "2.7.0")), "api-versions"
    )
    assert (row.verdict, f"and may use {older} instead" in row.do) == (Verdict.WARN, True)
    assert report(usage(key, 0), move=DowngradeTo(captured()["2.7"], "2.7.0")).verdict is Verdict.BLOCK


def test_clients_without_a_name_are_told_apart_by_their_software():
    """A command removed the names. That one of the clients negotiates does not help another one."""
    newest = captured()["4.2"].apis[FETCH][1]
    forgotten = usage(FETCH, newest, principal=None, client_id=None)
    negotiates = replace(forgotten, software_name="librdkafka", software_version="2.16.0")
    asked = replace(forgotten, api_key=API_VERSIONS, version=0)
    assert report(forgotten, negotiates, asked, move=TO_3_9).verdict is Verdict.BLOCK
    found = report(negotiates, asked, move=TO_3_9)
    assert [row.verdict for row in found.rows if row.api == "Fetch" and row.software] == [Verdict.WARN]


def test_a_drop_looks_at_refused_requests_of_its_api_alone():
    """A broker that refuses a version already is one more reason to look for the client."""
    found = report(refused(0), usage(), move=DropApi(LIST_OFFSETS, 1))
    assert only(found, "refused-requests").verdict is Verdict.BLOCK
    assert report(refused(0), usage(), move=DropApi(FETCH, 4)).verdict is Verdict.OK


def test_an_api_between_brokers_may_be_dropped():
    """The operator names it; clients of it are the brokers."""
    assert report(usage(LEADER_AND_ISR, 5), move=DropApi(LEADER_AND_ISR, 6)).verdict is Verdict.BLOCK


def refused(version: int, **changed: Any) -> Usage:
    unknown = {"outcome": "refused", "forwarded": None, "principal": None, "client_id": None, "client_host": "10.0.0.7"}
    return usage(METADATA if version > 13 else LIST_OFFSETS, version, **(unknown | changed))


# ---------------------------------------------------------------- without evidence no verdict is ok


def test_the_worst_verdict_counts():
    """A report without any verdict is unknown."""
    assert worst([Verdict.OK, Verdict.BLOCK, Verdict.UNKNOWN]) is Verdict.BLOCK
    assert worst([Verdict.OK, Verdict.STALE, Verdict.WARN]) is Verdict.STALE
    assert worst([]) is Verdict.UNKNOWN


def test_a_client_that_uses_the_newest_version_of_the_brokers_may_have_newer_ones():
    """Brokers of 2.4 serve Fetch 0 to 11: a client that uses 11 is unknown, and one that uses 10 has nothing newer."""
    drop, of_2_4 = DropApi(FETCH, 12), view("2.4")
    assert only(report(usage(FETCH, 11), move=drop, view=of_2_4), "api-versions").verdict is Verdict.UNKNOWN
    assert only(report(usage(FETCH, 10), move=drop, view=of_2_4), "api-versions").verdict is Verdict.BLOCK
    assert only(report(usage(FETCH, 2), view=view("0.10.0")), "api-versions").verdict is Verdict.UNKNOWN


def test_without_an_answer_of_the_brokers_releases_say_what_may_be_the_newest_version():
    """No release serves Fetch up to 4, some serve it up to 11; a client that used 12 shows that these serve more."""
    drop = DropApi(FETCH, 12)
    assert only(report(usage(FETCH, 4), move=drop, view=None), "api-versions").verdict is Verdict.BLOCK
    assert only(report(usage(FETCH, 11), move=drop, view=None), "api-versions").verdict is Verdict.UNKNOWN
    both = report(usage(FETCH, 11), usage(FETCH, 12, client_id="new"), move=drop, view=None)
    assert {row.client_id: row.verdict for row in both.rows if row.check == "api-versions"} == {
        "audit": Verdict.BLOCK,
        "new": Verdict.OK,
    }
