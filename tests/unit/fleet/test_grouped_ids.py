"""Client ids that are generated: one finding for all of them, after each has its verdict."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from fleet_evidence import usage
from fleet_report import NOW, TARGET, WEEK, fleet

from featuregate_fleet.readiness.evidence import Usage
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Row, Verdict, group_ids, pattern_of


def uuid(number: int) -> str:
    return str(UUID(int=number * 7919**8 % 2**128))


def judged(used: list[Usage]) -> Report:
    return assess(replace(fleet(0).evidence, usage=tuple(used)), ToRelease(TARGET), NOW, WEEK)


def api_versions(report: Report) -> list[Row]:
    return [row for row in report.rows if row.check == "api-versions"]


@pytest.mark.parametrize(
    "client_id",
    [
        "orders-{uuid}-StreamThread-1-consumer",
        "spark-kafka-source-{uuid}-1871439711-executor-3-{n}",
        "consumer-billing-{n}",
        "ip-10-0-{n}-17.ec2.internal",
        "billing-{n:010x}",
        "{uuid}",
    ],
)
def test_each_id_of_one_app_has_one_pattern(client_id: str):
    """Those of Kafka Streams, Spark and Java, of hosts, of hashes, and UUIDs."""
    found = {pattern_of(client_id.format(uuid=uuid(n), n=n + 100)) for n in range(200)}
    assert len(found) == 1
    assert "*" in found.pop()


def test_the_end_of_the_name_of_a_pod_is_generated():
    """A Deployment adds two parts, and each word before them stays."""
    pods = {
        pattern_of(f"billing-{template}-{end}") for template in ("7d9f8c6b5", "bcdf24567") for end in ("x2x4z", "bbbbb")
    }
    assert pods == {"billing-*"}
    assert pattern_of("billing-consumer-main") == "billing-consumer-main"


@pytest.mark.parametrize("ids", [2_000, pytest.param(22_000, marks=[pytest.mark.proof("fleet"), pytest.mark.slow])])
def test_thousands_of_ids_of_one_app_are_one_finding(ids: int):
    """With their number, an example and one advice; the document is small."""
    used = [
        usage(0, 0, client_id=f"orders-{uuid(number)}-producer", principal="User:orders", count=2, last_seen=NOW)
        for number in range(ids)
    ]
    report = judged(used)
    (row,) = api_versions(report)
    assert (row.verdict, row.clients, row.count, row.versions) == (Verdict.BLOCK, ids, 2 * ids, (0,))
    assert row.subject.startswith(f"a group of {ids:,} clients (such as client 'orders-00")
    assert row.subject.endswith("-producer' of User:orders)")
    assert row.do == f"Upgrade {row.subject}, or stop it, before the brokers move to 4.2."
    assert (row.principal, row.client_id) == ("User:orders", min(each.client_id or "" for each in used))
    assert len(json.dumps(report.to_json(), indent=2)) < 100_000


def test_ids_of_several_apps_stay_apart():
    """By principal, software and versions: a group has no client of which another thing is true."""
    used = [
        usage(
            0,
            version,
            client_id=f"app-{number}-{team}-{version}-{release}",
            principal=f"User:{team}",
            software_name="sarama",
            software_version=release,
        )
        for number in range(30)
        for team, version, release in (("a", 0, "1"), ("b", 0, "1"), ("a", 1, "1"), ("a", 0, "2"))
    ]
    found = {(row.principal, row.versions, row.software): row.clients for row in api_versions(judged(used))}
    assert found == {
        ("User:a", (0,), "sarama 1"): 30,
        ("User:b", (0,), "sarama 1"): 30,
        ("User:a", (1,), "sarama 1"): 30,
        ("User:a", (0,), "sarama 2"): 30,
    }


def test_a_few_ids_keep_their_rows():
    """Twenty clients with a number may be twenty apps."""
    few = [usage(0, 0, client_id=f"app-{number}") for number in range(20)]
    assert {row.clients for row in api_versions(judged(few))} == {1}
    assert len(api_versions(judged([*few, usage(0, 0, client_id="app-20")]))) == 1


def test_a_client_that_negotiates_does_not_speak_for_others():
    """Verdicts come before groups: those of one pattern that block, block."""
    newest = TARGET.apis[1][1] + 1
    used = [
        usage(1, newest, client_id=f"app-{number}", software_name="sarama" if number % 2 else None)
        for number in range(60)
    ]
    assert {row.verdict: row.clients for row in api_versions(judged(used))} == {Verdict.BLOCK: 30, Verdict.WARN: 30}


def test_findings_that_still_are_too_many_are_grouped_more_and_no_block():
    """Names of words are no pattern: what is ok loses its names, and who must move keeps its own."""
    rows = [
        Row(
            check="api-versions",
            verdict=verdict,
            subject=f"client {name!r} of User:{name}",
            why="Because.",
            do=f"Upgrade client {name!r} of User:{name}.",
            client_id=name,
            principal=f"User:{name}",
            api="Fetch",
            first_seen=NOW - timedelta(hours=1),
            last_seen=NOW,
        )
        for verdict in (Verdict.OK, Verdict.BLOCK)
        for name in (f"{first}{second}{third}" for first in "aeiou" for second in "aeiou" for third in "aeiou")
    ]
    assert len(group_ids(rows)) == 250
    some = group_ids(rows, most_characters=80_000)
    assert [row.verdict for row in some].count(Verdict.BLOCK) == 125
    (ok,) = (row for row in some if row.verdict is Verdict.OK)
    assert (ok.clients, ok.subject) == (125, "a group of 125 clients")
    assert (ok.client_id, ok.principal) == (None, None), "no name of one of them stands for all"
    assert "User:" not in ok.do, "'forget' finds a row by its principal"
    assert group_ids(rows, most_characters=10) == some
