"""Requests of clients and of nodes: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta
from time import process_time

from fleet_evidence import NOW, WEEK, usage, view
from told_rows import said, told

from featuregate.catalog import captured
from featuregate.view.answers import ApiRange
from featuregate_fleet.readiness.api_ranges import DropApi, ReleaseApis
from featuregate_fleet.readiness.checks.api_checks import (
    api_versions,
    cut_requests,
    inter_broker,
    newer_brokers,
    refused_requests,
    transactions,
)
from featuregate_fleet.readiness.checks.software_checks import client_software
from featuregate_fleet.readiness.evidence import Evidence, RefusedClient, RefusedVersion, Usage

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, DESCRIBE_CLUSTER, END_TXN = 1, 2, 3, 18, 60, 26
OF_4_2, OF_2_7 = ReleaseApis(captured()["4.2"]), ReleaseApis(captured()["2.7"])


def seen(*used: Usage) -> Evidence:
    return Evidence(usage=used, view=view("3.9", metadata_version=21))


def test_versions_of_clients_are_told_by_client_and_api() -> None:
    """Too old, too new, and without the API."""
    old = usage(FETCH, 3, client_host="h1", software_name="x", software_version="1")
    used = (
        old,
        replace(old, version=1, client_host="h2", first_seen=NOW - WEEK, forwarded=True),
        usage(FETCH, 99, client_id="new", software_name="y"),
        usage(FETCH, 99, client_id="steady"),
        usage(FETCH, 17, client_id=None, principal=None),
        usage(4, 0, client_id="node"),
        usage(FETCH, 0, client_id="refused", outcome="refused"),
    )
    assert told(api_versions(seen(*used), OF_4_2)) == said("client 1")
    admin = usage(DESCRIBE_CLUSTER, 0), usage(API_VERSIONS, 3, last_seen=NOW - timedelta(minutes=1))
    assert told(api_versions(seen(*admin), OF_2_7)) == said("client 2")


def test_versions_that_brokers_drop_are_told() -> None:
    """Nodes count, too; where brokers serve nothing newer, it is not known what a client has."""
    view_3_9 = view("3.9", metadata_version=21)
    newest = view_3_9.brokers[0].api_ranges[FETCH].max
    dropped = DropApi(FETCH, newest + 1)
    evidence = replace(
        seen(usage(FETCH, newest), usage(METADATA, 0)), node_usage=(usage(FETCH, newest, client_id="n"),)
    )
    for known in (evidence, replace(evidence, view=None)):
        assert told(api_versions(known, dropped)) == said("client 3")
    assert told(inter_broker(evidence, dropped)) == told([])


def test_requests_of_nodes_are_told_by_listener() -> None:
    """With their client ids and principals."""
    nodes = (
        usage(client_id="broker-2-fetcher-0", listener="B", principal="User:b"),
        usage(client_id="broker-1-fetcher-0", listener="B", principal="User:a"),
        usage(client_id="raft-client-1", listener=None, principal=None),
    )
    assert told(inter_broker(Evidence(node_usage=nodes), OF_4_2)) == said("client 4")


def test_requests_that_brokers_refuse_are_told_by_host() -> None:
    """With the clients that sent others on the same connection."""
    refused = usage(FETCH, 3, outcome="refused", client_id=None, principal=None, client_host="h")
    used = (
        refused,
        replace(refused, version=99, client_host=None),
        replace(refused, version=12, client_host="i"),
        replace(refused, version=2, principal="User:p"),
        replace(refused, version=0),
    )
    known = frozenset({RefusedClient("b", None, "s 1"), RefusedClient("a", "User:a", None)})
    evidence = replace(seen(*used), refused_clients={RefusedVersion("h", FETCH, 3): known})
    assert told(refused_requests(evidence, OF_4_2)) == said("client 5")


def test_brokers_that_are_newer_than_the_target_are_told() -> None:
    """By a request, or else by what they answered."""
    used = usage(FETCH, 18, count=3), usage(FETCH, 18, client_id="b", first_seen=NOW - WEEK), usage(API_VERSIONS, 9)
    evidence = Evidence(usage=used[:1], node_usage=used[1:], view=view("4.2"))
    of_3_9 = ReleaseApis(captured()["3.9"])
    assert told(newer_brokers(evidence, of_3_9)) == said("client 6")
    assert told(newer_brokers(replace(evidence, usage=(), node_usage=()), of_3_9)) == said("client 7")
    assert list(newer_brokers(evidence, OF_4_2)) == []
    assert list(newer_brokers(Evidence(), of_3_9)) == []


def test_transactions_that_may_stay_open_are_told() -> None:
    """Where brokers of 4.2.0 run beside older ones."""
    ends = usage(END_TXN, 4, client_id="t"), usage(END_TXN, 3, client_id="t", count=1), usage(client_id="reader")
    evidence, older = seen(*ends, replace(ends[0], outcome="refused", client_id="r")), view("3.9")
    assert told(transactions(evidence, older, captured()["4.2"])) == said("client 8")
    assert list(transactions(evidence, older, captured()["4.1"])) == []
    assert list(transactions(evidence, view("4.2"), captured()["4.2"])) == []
    broker = older.brokers[0]
    asked = replace(older, brokers=(replace(broker, api_ranges={**broker.api_ranges, 27: ApiRange(1, 2)}),))
    assert list(transactions(evidence, asked, captured()["4.2"])) == []


def test_lines_that_were_cut_are_told_by_client_id() -> None:
    """What their heads say may block; one line in a hundred is too many."""
    cut = usage(FETCH, 3, outcome="cut", principal=None, listener=None, count=1)
    whole = usage(FETCH, 16, count=99, software_name="x", software_version="1")
    evidence = replace(
        seen(whole, usage(client_id="n")),
        cut=(
            cut,
            replace(cut, version=99),
            replace(cut, client_id=None, version=99),
            replace(cut, client_id="n", version=16),
            replace(cut, client_id="past", last_seen=NOW - WEEK),
            replace(cut, client_id="late", api_key=4),
        ),
        node_usage=(usage(client_id="n"),),
        since=NOW - timedelta(days=1),
    )
    assert told(cut_requests(evidence, OF_4_2)) == said("client 9")
    one = replace(evidence, cut=(replace(cut, version=16),))
    assert [row.verdict for row in cut_requests(one, OF_4_2)] == ["warn"]
    assert [row.subject for row in cut_requests(evidence, DropApi(FETCH, 2))] == [
        "a client without an id",
        "client 'audit'",
        "client 'n'",
    ]


def test_lines_that_were_cut_of_many_client_ids_do_not_take_the_square_of_them() -> None:
    """Apps make ids: ten thousand in a log are not compared each with each."""

    def seconds(ids: int) -> float:
        whole = tuple(usage(FETCH, 16, client_id=f"app-{number}") for number in range(ids))
        evidence = replace(seen(*whole), cut=tuple(replace(one, outcome="cut") for one in whole))
        begin = process_time()
        assert len(list(cut_requests(evidence, OF_4_2))) == ids
        return process_time() - begin

    assert any(seconds(8_000) < 8 * seconds(2_000) for _ in range(3))  # the square would be 16


def test_software_that_cannot_do_what_its_client_does_is_told() -> None:
    """On the target, or on the present brokers as well."""
    librdkafka = {"software_name": "librdkafka", "software_version": "1.5.0", "principal": "User:ANONYMOUS"}
    of_client = [usage(key, 0, **librdkafka) for key in (0, 1, 2, 20, 26)]
    evidence = seen(*of_client)
    assert told(client_software(evidence, OF_4_2)) == said("client 10")
    assert told(client_software(replace(evidence, view=view("4.2")), OF_4_2)) == said("client 11")
    sasl = usage(software_name="confluent-kafka-python", software_version="2.6.0", principal="User:me")
    java = usage(software_name="apache-kafka-java", software_version="99.0.0", client_id="j")
    assert told(client_software(seen(sasl, java, replace(sasl, outcome="cut")), OF_4_2)) == said("client 12")
