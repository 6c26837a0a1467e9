"""Verdicts: each check has evidence on which it blocks, and evidence on which it passes."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fleet_evidence import NOW, UPGRADED, WEEK, usage, view

from featuregate.catalog import captured
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, RefusedClient, RefusedVersion, Usage
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Row, Verdict, worst

FETCH, LIST_OFFSETS, PRODUCE, METADATA, API_VERSIONS, LEADER_AND_ISR, SHARE_FETCH = 1, 2, 0, 3, 18, 4, 78
END_TXN = 26
LOG = BrokerLog(hours=3, requests=9, first_seen=NOW - WEEK / 2, last_seen=NOW)


def report(*used: Usage, to: str = "4.2", move: Move | None = None, **evidence: Any) -> Report:
    """Assess usage that one broker logged, for a move to a release or another one."""
    known = {"brokers": {"1": LOG}, "expected": frozenset({"1"}), "rows": 1000, "read": 1000, "view": UPGRADED}
    whole = known | evidence
    lines = {"usage": tuple(one for one in used if one.outcome != "cut")}
    lines["cut"] = tuple(one for one in used if one.outcome == "cut")
    return assess(Evidence(**lines, **whole), move or ToRelease(captured()[to]), NOW, WEEK)


def only(found: Report, check: str) -> Row:
    """Return the single row of one check."""
    (row,) = [row for row in found.rows if row.check == check]
    return row


def test_a_client_within_the_ranges_of_the_target_is_ok():
    """The report says so of each client, with its evidence."""
    found = report(usage(), usage(LIST_OFFSETS, 7))
    assert found.verdict is Verdict.OK
    row = only(found, "api-versions")
    assert (row.client_id, row.principal, row.count, row.versions) == ("audit", "User:audit", 10, ())


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


@pytest.mark.parametrize(
    ("key", "version", "served"),
    [(LIST_OFFSETS, 0, "1-11"), (FETCH, 3, "4-18"), (PRODUCE, 2, "3-13")],
)
def test_a_version_that_the_target_dropped_blocks(key: int, version: int, served: str):
    """Also Produce 0 to 2, which brokers from 4.0 on advertise and refuse."""
    found = report(usage(key, version, software_name="sarama", software_version="1.20"), usage(METADATA, 1))
    assert found.verdict is Verdict.BLOCK
    row = only(found, "api-versions")
    assert (row.subject, row.versions, row.count) == ("client 'audit' of User:audit", (version,), 5)
    assert row.software == "sarama 1.20"
    needed = served.rpartition(" ")[2].partition("-")[0]
    assert f"{served}, and the client uses {version}: it needs {row.api} {needed} or newer; releases from" in row.why
    assert report(usage(key, version), to="3.9").verdict is Verdict.OK


@pytest.mark.parametrize(
    ("used", "move", "release"),
    [
        (usage(LIST_OFFSETS, 0), ToRelease(captured()["4.2"]), "4.0"),
        (usage(PRODUCE, 2), ToRelease(captured()["4.4"]), "4.0"),
        (usage(SHARE_FETCH, 1), ToRelease(captured()["3.9"]), None),  # releases before 4.0 do not have it yet
        (usage(FETCH, 3), DropApi(FETCH, 4), None),
    ],
)
def test_a_row_names_the_release_that_stops_serving_the_oldest_version(used: Usage, move: Move, release: str | None):
    """The client need not be upgraded before that release."""
    row = only(report(used, move=move), "api-versions")
    assert (row.verdict, row.stop_serving_release) == (Verdict.BLOCK, release)


def test_the_versions_of_one_api_are_one_row():
    """An operator upgrades a client once."""
    row = only(report(usage(FETCH, 3), usage(FETCH, 1), usage(FETCH, 16)), "api-versions")
    assert (row.api, row.versions, row.count) == ("Fetch", (1, 3), 10)


def test_an_api_that_the_target_does_not_have_blocks():
    """A share consumer cannot move to a release before share groups."""
    row = only(report(usage(SHARE_FETCH, 1), to="3.9"), "api-versions")
    assert row.verdict is Verdict.BLOCK
    assert row.why == "Kafka 3.9 has no ShareFetch, and the client uses 1."


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
    assert report(forgotten, negotiates, asked, to="3.9").verdict is Verdict.BLOCK
    found = report(negotiates, asked, to="3.9")
    assert [row.verdict for row in found.rows if row.api == "Fetch" and row.software] == [Verdict.WARN]


def test_a_newer_version_than_the_target_serves_is_a_warning_for_a_client_that_negotiates():
    """It may have older versions, too; a client that never asked uses one version and breaks."""
    newest = captured()["4.2"].apis[FETCH][1]
    assert report(usage(FETCH, newest), to="3.9").verdict is Verdict.BLOCK
    for asked in (
        report(usage(FETCH, newest), usage(API_VERSIONS, 3), to="3.9"),
        report(usage(FETCH, newest, software_name="librdkafka"), to="3.9"),
    ):
        assert only(asked, "api-versions").verdict is Verdict.WARN


def test_a_move_to_older_brokers_is_unknown_without_levels_and_records():
    """A broker may not start with the finalized levels (KIP-778), or not read what coordinators wrote (KIP-915)."""
    newest = captured()["4.2"].apis[FETCH][1]
    found = report(usage(FETCH, newest, software_name="librdkafka"), usage(API_VERSIONS, 3), to="3.9")
    row = only(found, "newer-brokers")
    assert (row.verdict, row.versions, found.verdict) == (Verdict.UNKNOWN, (newest,), Verdict.UNKNOWN)
    assert not [
        row for row in report(usage(FETCH, newest), usage(LEADER_AND_ISR, 5)).rows if row.check == "newer-brokers"
    ]


def test_brokers_that_answered_with_newer_versions_show_a_downgrade():
    """Also where neither clients nor brokers used these, and the levels are those of the target."""
    seen = view("3.9", metadata_version=20, group_version=0, transaction_version=0)
    found = report(usage(), to="3.8", view=seen)
    row = only(found, "newer-brokers")
    assert (row.verdict, row.count, found.verdict) == (Verdict.UNKNOWN, 0, Verdict.UNKNOWN)
    for release in ("3.9", "4.2"):
        assert report(usage(), to=release, view=seen).verdict is Verdict.OK


def test_versions_below_the_one_that_is_kept_are_dropped():
    """A client that uses them has no newer ones. A client of other APIs is not concerned."""
    drop = DropApi(FETCH, 12)
    old, new = usage(FETCH, 11), usage(FETCH, 12, client_id="new")
    found = report(old, new, usage(LIST_OFFSETS, 0, client_id="other"), move=drop)
    assert [(row.client_id, row.verdict, row.versions) for row in found.rows if row.check == "api-versions"] == [
        ("audit", Verdict.BLOCK, (11,)),
        ("new", Verdict.OK, ()),
    ]
    assert only(report(old, move=drop), "api-versions").why == "The client uses Fetch 11."
    assert report(new, move=drop).verdict is Verdict.OK
    assert report(new, move=drop, expected=frozenset({"1", "2"})).verdict is Verdict.UNKNOWN


def test_a_drop_looks_at_refused_requests_of_its_api_alone():
    """A broker that refuses a version already is one more reason to look for the client."""
    found = report(refused(0), usage(), move=DropApi(LIST_OFFSETS, 1))
    assert only(found, "refused-requests").verdict is Verdict.BLOCK
    assert report(refused(0), usage(), move=DropApi(FETCH, 4)).verdict is Verdict.OK


def test_an_api_between_brokers_may_be_dropped():
    """The operator names it; clients of it are the brokers."""
    assert report(usage(LEADER_AND_ISR, 5), move=DropApi(LEADER_AND_ISR, 6)).verdict is Verdict.BLOCK


@pytest.mark.parametrize(
    "move", [Finalize("transaction.version", 2), Deprecate("group.version", 0), DowngradeTo(captured()["3.9"], "3.9.2")]
)
def test_without_levels_a_move_of_features_is_unknown(move: Move):
    """Request logs do not show them."""
    assert report(usage(), move=move, view=None).verdict is Verdict.UNKNOWN


def test_any_version_of_api_versions_is_ok():
    """That is how a client learns the ranges (KIP-511)."""
    assert report(usage(API_VERSIONS, 99)).verdict is Verdict.OK


def test_apis_between_brokers_are_not_held_against_a_client():
    """Brokers of 3.9 with ZooKeeper send LeaderAndIsr, which 4.2 does not have."""
    assert report(usage(LEADER_AND_ISR, 5), usage()).verdict is Verdict.OK


def test_a_forwarded_request_counts_once():
    """The broker that forwards logs it, and so does the controller; the one that was forwarded still has a version."""
    both = only(report(usage(), usage(forwarded=True)), "api-versions")
    assert both.count == 5
    assert report(usage(LIST_OFFSETS, 0, forwarded=True)).verdict is Verdict.BLOCK


def refused(version: int, **changed: Any) -> Usage:
    """Return a request that a broker refused."""
    unknown = {"outcome": "refused", "forwarded": None, "principal": None, "client_id": None, "client_host": "10.0.0.7"}
    return usage(METADATA if version > 13 else LIST_OFFSETS, version, **(unknown | changed))


def test_a_refused_request_blocks_where_the_target_dropped_the_version_too():
    """The host is all that is known of the client."""
    row = only(report(refused(0)), "refused-requests")
    assert (row.verdict, row.subject, row.api, row.versions, row.stop_serving_release) == (
        Verdict.BLOCK,
        "a client at 10.0.0.7",
        "ListOffsets",
        (0,),
        "4.0",
    )


def test_a_refused_request_is_of_those_who_sent_others_on_its_connection():
    """Two apps behind one address are both named, because the log does not say which of them it was."""
    billing, audit = RefusedClient("billing", "User:b", "librdkafka 1"), RefusedClient("audit", "User:a", None)
    place = RefusedVersion("10.0.0.7", LIST_OFFSETS, 0)
    row = only(report(refused(0), refused_clients={place: frozenset({billing})}), "refused-requests")
    assert (row.subject, row.client_id) == ("client 'billing' of User:b at 10.0.0.7", "billing")
    assert (row.principal, row.software) == ("User:b", "librdkafka 1")
    row = only(report(refused(0), refused_clients={place: frozenset({billing, audit})}), "refused-requests")
    assert row.subject == "client 'audit' of User:a or client 'billing' of User:b at 10.0.0.7"
    row = only(report(refused(0), refused_clients={place._replace(version=1): frozenset({audit})}), "refused-requests")
    assert (row.subject, row.client_id) == ("a client at 10.0.0.7", None)


@pytest.mark.parametrize("version", [1, 99])
def test_a_refused_request_that_the_move_does_not_concern_is_a_warning(version: int):
    """The target serves it, or the client asks for what no release has yet."""
    assert report(refused(version)).verdict is Verdict.WARN


# ---------------------------------------------------------------- without evidence no verdict is ok


def test_no_evidence_is_unknown():
    """Neither an empty folder nor a name that no evidence has makes a move safe."""
    found = report(brokers={}, expected=frozenset())
    assert found.verdict is Verdict.UNKNOWN
    assert only(found, "coverage").subject == "the cluster"


def test_a_broker_without_evidence_is_unknown():
    """A client may have talked to that broker alone."""
    found = report(usage(), expected=frozenset({"1", "2"}))
    assert found.verdict is Verdict.UNKNOWN
    assert found.to_json()["coverage"]["without_evidence"] == ["2"]
    assert report(usage(LIST_OFFSETS, 0), expected=frozenset({"1", "2"})).verdict is Verdict.BLOCK


def test_evidence_of_deprecated_requests_alone_is_unknown():
    """At INFO a broker without a line may have logged nothing, or had nothing to log."""
    assert report(usage(), brokers={}).verdict is Verdict.UNKNOWN


def test_old_evidence_is_stale():
    """The fleet may have changed since."""
    found = report(usage(), brokers={"1": replace(LOG, last_seen=NOW - 2 * WEEK)})
    assert found.verdict is Verdict.STALE
    assert "left the cluster" in only(found, "coverage").do


def test_an_old_block_is_stale():
    """The evidence does not say whether that client still runs."""
    found = report(usage(LIST_OFFSETS, 0, last_seen=NOW - 2 * WEEK))
    assert found.verdict is Verdict.STALE
    assert "too long ago" in only(found, "api-versions").why


@pytest.mark.parametrize(
    ("quarantined", "verdict"),
    [
        ({("1", "no-request"): 10**6}, Verdict.OK),
        ({("1", "cut"): 10, ("1", "no-request"): 10**6}, Verdict.WARN),
        ({("1", "cut"): 6, ("1", "wrong-fields"): 6}, Verdict.UNKNOWN),
        ({("1", "cut"): 6, ("2", "cut"): 6}, Verdict.WARN),
        ({("1", "vanished"): 1}, Verdict.UNKNOWN),
        ({("2", "unreadable"): 1}, Verdict.UNKNOWN),
        ({("2", "a-reason-of-another-release"): 50}, Verdict.UNKNOWN),
        ({("2", "empty"): 50, (None, "malformed-report"): 50}, Verdict.OK),
        ({(None, "cut"): 10}, Verdict.WARN),
        ({(None, "unknown-broker"): 1}, Verdict.UNKNOWN),
    ],
)
def test_requests_in_quarantine_are_missing_evidence(quarantined: dict[tuple[str | None, str], int], verdict: Verdict):
    """A few lines are a warning. More than one in a hundred of one broker, a file, or a whole log may hide a client."""
    logs = {broker: replace(LOG, requests=1000) for broker in ("1", "2")}
    found = report(usage(), brokers=logs, rows=2000, quarantined=quarantined)
    assert found.verdict is verdict
    assert {row.verdict for row in found.rows if row.check == "quarantine"} == {verdict} - {Verdict.OK}


def test_the_worst_verdict_counts():
    """A report without any verdict is unknown."""
    assert worst([Verdict.OK, Verdict.BLOCK, Verdict.UNKNOWN]) is Verdict.BLOCK
    assert worst([Verdict.OK, Verdict.STALE, Verdict.WARN]) is Verdict.STALE
    assert worst([]) is Verdict.UNKNOWN


def test_the_report_as_json_has_the_documented_fields():
    """Pipelines read the JSON."""
    printed = json.loads(json.dumps(report(usage(LIST_OFFSETS, 0), lines_quarantined=2).to_json()))
    assert {"verdict", "rows", "coverage", "lines"} <= printed.keys()
    assert printed["lines"] == {"read": 1000, "rows": 1000, "quarantined": 2}
    first = printed["rows"][0]
    assert {"check", "verdict", "subject", "client_id", "principal", "software", "api", "versions", "count"} <= set(
        first
    )
    assert (first["verdict"], first["api"], first["versions"]) == ("block", "ListOffsets", [0])
    assert (first["last_seen"], bool(first["why"]), bool(first["do"])) == ("2026-11-22T12:00:00+00:00", True, True)
    assert printed["coverage"]["brokers"]["1"]["hours"] == 3
    assert printed["move"] == {"kind": "to", "target": "4.2"}


def test_a_client_that_uses_the_newest_version_of_the_brokers_may_have_newer_ones():
    """Brokers of 2.4 serve Fetch 0 to 11: a client that uses 11 is unknown, and one that uses 10 has nothing newer."""
    drop, of_2_4 = DropApi(FETCH, 12), view("2.4")
    assert only(report(usage(FETCH, 11), move=drop, view=of_2_4), "api-versions").verdict is Verdict.UNKNOWN
    assert only(report(usage(FETCH, 10), move=drop, view=of_2_4), "api-versions").verdict is Verdict.BLOCK
    found = only(report(usage(FETCH, 11), move=drop, view=of_2_4), "api-versions")
    assert (
        found.why
        == "The client uses Fetch 11. Brokers may serve nothing newer, so that it may have newer versions, too."
    )
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


def cut(api_key: int = FETCH, version: int = 16, **changed: Any) -> Usage:
    """Return five requests whose lines were cut."""
    unknown = {"outcome": "cut", "principal": None, "listener": None}
    return usage(api_key, version, **(unknown | changed))


def test_a_client_whose_lines_are_all_cut_is_no_ok():
    """The 1 % counts by client: that others have many lines says nothing of this one."""
    found = report(usage(count=10_000), cut(client_id="long"))
    row = only(found, "cut-requests")
    assert (row.verdict, row.client_id, row.count) == (Verdict.UNKNOWN, "long", 5)
    assert row.why == "5 of 5 lines of this client id were cut: only their heads are known."
    assert found.verdict is Verdict.UNKNOWN
    few = report(usage(count=10_000), cut())
    assert only(few, "cut-requests").verdict is few.verdict is Verdict.WARN
    assert report(usage(), cut(LEADER_AND_ISR)).verdict is Verdict.OK  # of nodes alone
    assert report(usage(), cut(client_id=None)).verdict is Verdict.UNKNOWN


def test_the_head_of_a_cut_line_blocks():
    """It says the version. Requests from before --since do not count, nor those under the client ids of nodes."""
    old = cut(FETCH, 3, client_id="long")
    found = report(usage(), old)
    assert found.verdict is Verdict.BLOCK
    row = only_of(found, "long")
    assert (row.verdict, row.api, row.versions, row.principal) == (Verdict.BLOCK, "Fetch", (3,), None)
    assert report(usage(), old, move=DropApi(FETCH, 4)).verdict is Verdict.BLOCK
    assert report(usage(), old, since=NOW + WEEK).verdict is Verdict.OK
    node = usage(FETCH, 16, client_id="broker-1-fetcher-0")
    assert report(usage(), cut(FETCH, 3, client_id="broker-1-fetcher-0"), node_usage=(node,)).verdict is Verdict.OK


def only_of(found: Report, client_id: str) -> Row:
    """Return the single row of API versions of one client."""
    (row,) = [row for row in found.rows if (row.check, row.client_id) == ("api-versions", client_id)]
    return row
