"""Requests of clients and of nodes: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, WEEK, usage, view
from told_rows import told

from featuregate.catalog import captured
from featuregate.view.answers import ApiRange
from featuregate_fleet.readiness.api_ranges import ReleaseApis, WithoutOldVersions
from featuregate_fleet.readiness.checks.api_checks import (
    api_versions,
    inter_broker,
    newer_brokers,
    refused_requests,
    transactions,
)
from featuregate_fleet.readiness.checks.cut_checks import cut_requests
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
    assert (
        told(api_versions(seen(*used), OF_4_2))
        == """
ok api-versions, a client without an id: The client uses only versions that Kafka 4.2 serves. -> (nothing)
    [count=5, first_seen=22.10:00, last_seen=22.12:00]
block api-versions, client 'audit' of User:audit: Kafka 4.2 serves Fetch 4-18, and the client uses 1, 3: it
    needs Fetch 4 or newer; releases from 4.0 on do not serve version 1. -> Upgrade client 'audit' of
    User:audit, or stop it, before the brokers move to 4.2. [client_id=audit, principal=User:audit, software=x
    1, api=Fetch, versions=1/3, stop_serving_release=4.0, count=5, first_seen=15.12:00, last_seen=22.12:00,
    hosts=h1, host_count=1]
warn api-versions, client 'new' of User:audit: Kafka 4.2 serves Fetch 4-18, and the client uses 99. -> Try
    client 'new' of User:audit with Kafka 4.2: it negotiates, and may have older versions, too.
    [client_id=new, principal=User:audit, software=y, api=Fetch, versions=99, count=5, first_seen=22.10:00,
    last_seen=22.12:00]
block api-versions, client 'steady' of User:audit: Kafka 4.2 serves Fetch 4-18, and the client uses 99. ->
    Upgrade client 'steady' of User:audit, or stop it, before the brokers move to 4.2. [client_id=steady,
    principal=User:audit, api=Fetch, versions=99, count=5, first_seen=22.10:00, last_seen=22.12:00]
"""
    )
    admin = usage(DESCRIBE_CLUSTER, 0), usage(API_VERSIONS, 3, last_seen=NOW - timedelta(minutes=1))
    assert (
        told(api_versions(seen(*admin), OF_2_7))
        == """
warn api-versions, client 'audit' of User:audit: Kafka 2.7 has no DescribeCluster, and the client uses 0. ->
    Try client 'audit' of User:audit with Kafka 2.7: it negotiates, and may use Metadata instead.
    [client_id=audit, principal=User:audit, api=DescribeCluster, versions=0, count=5, first_seen=22.10:00,
    last_seen=22.12:00]
"""
    )


def test_versions_that_brokers_drop_are_told() -> None:
    """Of nodes, too; where brokers serve nothing newer it is not known what a client has."""
    view_3_9 = view("3.9", metadata_version=21)
    newest = view_3_9.brokers[0].api_ranges[FETCH].max
    dropped = WithoutOldVersions(FETCH, newest + 1)
    evidence = replace(
        seen(usage(FETCH, newest), usage(METADATA, 0)), node_usage=(usage(FETCH, newest, client_id="n"),)
    )
    for known in (evidence, replace(evidence, view=None)):
        assert (
            told(api_versions(known, dropped))
            == """
unknown api-versions, client 'audit' of User:audit: The client uses Fetch 17. Brokers may serve nothing newer,
    so that it may have newer versions, too. -> Let brokers serve newer versions of Fetch, and log requests
    again, with --bootstrap-server. [client_id=audit, principal=User:audit, api=Fetch, versions=17, count=5,
    first_seen=22.10:00, last_seen=22.12:00]
block api-versions, client 'n' of User:audit: The client uses Fetch 17. -> Upgrade client 'n' of User:audit,
    or stop it, before the brokers drop Fetch below 18. [client_id=n, principal=User:audit, api=Fetch,
    versions=17, count=5, first_seen=22.10:00, last_seen=22.12:00]
"""
        )
    assert told(inter_broker(evidence, dropped)) == told([])


def test_requests_of_nodes_are_told_by_listener() -> None:
    """With their client ids and principals."""
    nodes = (
        usage(client_id="broker-2-fetcher-0", listener="B", principal="User:b"),
        usage(client_id="broker-1-fetcher-0", listener="B", principal="User:a"),
        usage(client_id="raft-client-1", listener=None, principal=None),
    )
    assert (
        told(inter_broker(Evidence(node_usage=nodes), OF_4_2))
        == """
ok inter-broker, nodes: Brokers and controllers sent requests with the client id 'raft-client-1': they use
    what the other node has. -> (nothing) [client_id=raft-client-1, count=5, first_seen=22.10:00,
    last_seen=22.12:00]
ok inter-broker, nodes on listener 'B': Brokers and controllers sent requests with 2 client ids, such as
    'broker-1-fetcher-0': they use what the other node has. -> (nothing) [client_id=broker-1-fetcher-0,
    broker-2-fetcher-0, principal=User:a or User:b, count=10, first_seen=22.10:00, last_seen=22.12:00]
"""
    )


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
    assert (
        told(refused_requests(evidence, OF_4_2))
        == """
warn refused-requests, a client: A broker refused Fetch 99, and Kafka 4.2 refuses the version, too. -> Find
    the client at the address in the log: the log of refused requests has no client id. [api=Fetch,
    versions=99, count=5, first_seen=22.10:00, last_seen=22.12:00]
block refused-requests, a client at h: A broker refused Fetch 0, and Kafka 4.2 refuses the version, too. ->
    Find the client at h: the log of refused requests has no client id. [api=Fetch, versions=0,
    stop_serving_release=4.0, count=5, first_seen=22.10:00, last_seen=22.12:00, hosts=h, host_count=1]
block refused-requests, a client at h: A broker refused Fetch 2, and Kafka 4.2 refuses the version, too. ->
    Find the client at h: the log of refused requests has no client id. [principal=User:p, api=Fetch,
    versions=2, stop_serving_release=4.0, count=5, first_seen=22.10:00, last_seen=22.12:00, hosts=h,
    host_count=1]
block refused-requests, client 'a' of User:a or client 'b' at h: A broker refused Fetch 3, and Kafka 4.2
    refuses the version, too. -> Upgrade client 'a' of User:a or client 'b' at h: it sent other requests on
    the connection that the broker closed. [client_id=a or b, principal=User:a, software=s 1, api=Fetch,
    versions=3, stop_serving_release=4.0, count=5, first_seen=22.10:00, last_seen=22.12:00, hosts=h,
    host_count=1]
warn refused-requests, a client at i: A broker refused Fetch 12, and Kafka 4.2 serves it. -> Find the client
    at i: the log of refused requests has no client id. [api=Fetch, versions=12, count=5, first_seen=22.10:00,
    last_seen=22.12:00, hosts=i, host_count=1]
"""
    )


def test_brokers_that_are_newer_than_the_target_are_told() -> None:
    """By a request, or else by what they answered."""
    used = usage(FETCH, 18, count=3), usage(FETCH, 18, client_id="b", first_seen=NOW - WEEK), usage(API_VERSIONS, 9)
    evidence = Evidence(usage=used[:1], node_usage=used[1:], view=view("4.2"))
    of_3_9 = ReleaseApis(captured()["3.9"])
    assert (
        told(newer_brokers(evidence, of_3_9))
        == """
unknown newer-brokers, the cluster: The brokers serve Fetch 18, and are newer than Kafka 3.9. -> Ask
    --downgrade-to, which looks at finalized levels and at the records of coordinators, too. [api=Fetch,
    versions=18, count=8, first_seen=15.12:00, last_seen=22.12:00]
"""
    )
    assert (
        told(newer_brokers(replace(evidence, usage=(), node_usage=()), of_3_9))
        == """
unknown newer-brokers, the cluster: The brokers serve Produce 13, and are newer than Kafka 3.9. -> Ask
    --downgrade-to, which looks at finalized levels and at the records of coordinators, too. [api=Produce,
    versions=13]
"""
    )
    assert list(newer_brokers(evidence, OF_4_2)) == []
    assert list(newer_brokers(Evidence(), of_3_9)) == []


def test_transactions_that_may_stay_open_are_told() -> None:
    """Where brokers of 4.2.0 run beside older ones."""
    ends = usage(END_TXN, 4, client_id="t"), usage(END_TXN, 3, client_id="t", count=1), usage(client_id="reader")
    evidence, older = seen(*ends, replace(ends[0], outcome="refused", client_id="r")), view("3.9")
    assert (
        told(transactions(evidence, older, captured()["4.2"]))
        == """
warn transactions, client 't' of User:audit: Its transactions may stay open while brokers of 4.2.0 and older
    ones run together, because the older ones refuse WriteTxnMarkers 2 (KAFKA-20322). -> Use 4.2.1 in place of
    4.2.0, or roll the brokers without a pause, at a time of low load. [client_id=t, principal=User:audit,
    api=EndTxn, versions=3/4, count=6, first_seen=22.10:00, last_seen=22.12:00]
"""
    )
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
    assert (
        told(cut_requests(evidence, OF_4_2))
        == """
block api-versions, a client without an id: Kafka 4.2 serves Fetch 4-18, and the client uses 99. -> Upgrade a
    client without an id, or stop it, before the brokers move to 4.2. [api=Fetch, versions=99, count=1,
    first_seen=22.10:00, last_seen=22.12:00]
unknown cut-requests, a client without an id: 1 of 1 lines of this client id were cut: only their heads are
    known. -> Collect whole lines: container runtimes split them at 16 kB, and 'featuregate fleet run' joins
    the parts if it has all of them. [count=1, first_seen=22.10:00, last_seen=22.12:00]
block api-versions, client 'audit': Kafka 4.2 serves Fetch 4-18, and the client uses 3: it needs Fetch 4 or
    newer; releases from 4.0 on do not serve version 3. -> Upgrade client 'audit', or stop it, before the
    brokers move to 4.2. [client_id=audit, software=x 1, api=Fetch, versions=3, stop_serving_release=4.0,
    count=1, first_seen=22.10:00, last_seen=22.12:00]
warn api-versions, client 'audit': Kafka 4.2 serves Fetch 4-18, and the client uses 99. -> Try client 'audit'
    with Kafka 4.2: it negotiates, and may have older versions, too. [client_id=audit, software=x 1,
    api=Fetch, versions=99, count=1, first_seen=22.10:00, last_seen=22.12:00]
unknown cut-requests, client 'audit': 2 of 101 lines of this client id were cut: only their heads are known.
    -> Collect whole lines: container runtimes split them at 16 kB, and 'featuregate fleet run' joins the
    parts if it has all of them. [client_id=audit, count=2, first_seen=22.10:00, last_seen=22.12:00]
"""
    )
    one = replace(evidence, cut=(replace(cut, version=16),))
    assert [row.verdict for row in cut_requests(one, OF_4_2)] == ["warn"]
    assert [row.subject for row in cut_requests(evidence, WithoutOldVersions(FETCH, 2))] == [
        "a client without an id",
        "client 'audit'",
        "client 'n'",
    ]


def test_software_that_cannot_do_what_its_client_does_is_told() -> None:
    """On the target, or on the present brokers as well."""
    librdkafka = {"software_name": "librdkafka", "software_version": "1.5.0", "principal": "User:ANONYMOUS"}
    of_client = [usage(key, 0, **librdkafka) for key in (0, 1, 2, 20, 26)]
    evidence = seen(*of_client)
    assert (
        told(client_software(evidence, OF_4_2))
        == """
block client-software, client 'audit' of User:ANONYMOUS: librdkafka 1.5.0 cannot do this on Kafka 4.2: consume
    without a committed offset: it sends ListOffsets 0, and Kafka 4.2 serves 1-11; look up offsets: it sends
    ListOffsets 0, and Kafka 4.2 serves 1-11. The log of a client that runs steadily does not show it. ->
    Upgrade client 'audit' of User:ANONYMOUS to librdkafka 1.8.2 or newer, before the brokers move to 4.2.
    [client_id=audit, principal=User:ANONYMOUS, software=librdkafka 1.5.0, api=ListOffsets, versions=0,
    count=25, first_seen=22.10:00, last_seen=22.12:00]
warn client-software, client 'audit' of User:ANONYMOUS: librdkafka 1.5.0 does not do this on Kafka 4.2:
    transactions: Failed to query logical offset BEGINNING: Local: Required feature not supported by broker.
    -> Upgrade client 'audit' of User:ANONYMOUS to librdkafka 1.8.2 or newer, if it uses this, before the
    brokers move to 4.2. [client_id=audit, principal=User:ANONYMOUS, software=librdkafka 1.5.0, count=25,
    first_seen=22.10:00, last_seen=22.12:00]
warn client-software, client 'audit' of User:ANONYMOUS: librdkafka 1.5.0 does not do this on Kafka 4.2: admin
    calls: Broker: Unknown topic or partition. It does not do this on Kafka 3.9 either, which the brokers run
    now. -> Upgrade client 'audit' of User:ANONYMOUS to librdkafka 1.6.1 or newer, if it uses this, whether
    the brokers move or not. [client_id=audit, principal=User:ANONYMOUS, software=librdkafka 1.5.0, count=25,
    first_seen=22.10:00, last_seen=22.12:00]
"""
    )
    assert (
        told(client_software(replace(evidence, view=view("4.2")), OF_4_2))
        == """
block client-software, client 'audit' of User:ANONYMOUS: librdkafka 1.5.0 cannot do this on Kafka 4.2: consume
    without a committed offset: it sends ListOffsets 0, and Kafka 4.2 serves 1-11; look up offsets: it sends
    ListOffsets 0, and Kafka 4.2 serves 1-11. The log of a client that runs steadily does not show it. It does
    not do this on Kafka 4.2 either, which the brokers run now. -> Upgrade client 'audit' of User:ANONYMOUS to
    librdkafka 1.8.2 or newer, whether the brokers move or not. [client_id=audit, principal=User:ANONYMOUS,
    software=librdkafka 1.5.0, api=ListOffsets, versions=0, count=25, first_seen=22.10:00, last_seen=22.12:00]
warn client-software, client 'audit' of User:ANONYMOUS: librdkafka 1.5.0 does not do this on Kafka 4.2: admin
    calls: Broker: Unknown topic or partition; transactions: Failed to query logical offset BEGINNING: Local:
    Required feature not supported by broker. It does not do this on Kafka 4.2 either, which the brokers run
    now. -> Upgrade client 'audit' of User:ANONYMOUS to librdkafka 1.8.2 or newer, if it uses this, whether
    the brokers move or not. [client_id=audit, principal=User:ANONYMOUS, software=librdkafka 1.5.0, count=25,
    first_seen=22.10:00, last_seen=22.12:00]
"""
    )
    sasl = usage(software_name="confluent-kafka-python", software_version="2.6.0", principal="User:me")
    java = usage(software_name="apache-kafka-java", software_version="99.0.0", client_id="j")
    assert (
        told(client_software(seen(sasl, java, replace(sasl, outcome="cut")), OF_4_2))
        == """
unknown client-software, client 'j' of User:audit: apache-kafka-java 99.0.0: this was not measured: measured
    are 0.10.0.1 to 4.4.0 on Kafka 2.8.2 to 4.4.0. The log does not show the mechanism with which it logs in
    and the calls with which it starts. -> Try client 'j' of User:audit with Kafka 4.2. [client_id=j,
    principal=User:audit, software=apache-kafka-java 99.0.0, count=5, first_seen=22.10:00, last_seen=22.12:00]
warn client-software, client 'audit' of User:me: confluent-kafka 2.6.0 does not do this on Kafka 4.2: SASL
    SCRAM-SHA-256: sasl_plaintext://BROKER: SASL authentication error: Authentication failed during
    authentication due…; SASL SCRAM-SHA-512: sasl_plaintext://BROKER: SASL authentication error:
    Authentication failed during authentication due…. -> Upgrade client 'audit' of User:me to confluent-kafka
    2.6.1 or newer, if it uses this, before the brokers move to 4.2. [client_id=audit, principal=User:me,
    software=confluent-kafka-python 2.6.0, count=5, first_seen=22.10:00, last_seen=22.12:00]
"""
    )
