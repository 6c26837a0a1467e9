"""A client is judged by all that its software calls, and not by the calls of a steady hour alone."""

from typing import Any

import pytest
from fleet_evidence import TO_4_2, UPGRADED, usage, view
from fleet_evidence import assessed as report

from featuregate.catalog import captured
from featuregate.catalog.clients import rows_without_a_name
from featuregate.clients.declared import client as declared
from featuregate.clients.fit import fit_of
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.evidence import Usage
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Move, ToRelease
from featuregate_fleet.readiness.rows import Row, Verdict

PRODUCE, FETCH, HEARTBEAT, COMMIT, METADATA, API_VERSIONS, CREATE_TOPICS, LIST_OFFSETS = 0, 1, 12, 8, 3, 18, 19, 2


def steady(version: str, *keys: int, name: str = "confluent-kafka-python", **changed: Any) -> list[Usage]:
    """Return steady requests of a client, each of a version that every broker serves."""
    versions = {
        PRODUCE: 7, FETCH: 11, HEARTBEAT: 3, COMMIT: 7, METADATA: 4, API_VERSIONS: 3, CREATE_TOPICS: 4, LIST_OFFSETS: 5,
    }  # fmt: skip
    said = {"software_name": name, "software_version": version, "principal": "User:ANONYMOUS", **changed}
    return [usage(key, versions[key], **said) for key in keys or (FETCH, HEARTBEAT, COMMIT, METADATA)]


def of_software(*used: Usage, move: Move = TO_4_2, now: View = UPGRADED) -> list[Row]:
    return [row for row in report(*used, move=move, view=now).rows if row.check == "client-software"]


def of_fetch(*used: Usage) -> list[Verdict]:
    return [row.verdict for row in report(*used).rows if (row.check, row.api) == ("api-versions", "Fetch")]


def test_a_release_that_was_not_measured_is_what_its_neighbours_are_and_says_so():
    """librdkafka 1.5.2 is between two that cannot look up offsets; nothing is known beyond the newest."""
    (row,) = of_software(*steady("1.5.2-rdkafka-1.5.2"))
    assert row.verdict is Verdict.BLOCK
    assert "(as measured of librdkafka 1.5.0 and librdkafka " in row.why


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("confluent-kafka-go", "1.4.2-librdkafka-1.4.2"),
        ("confluent-kafka-go", "1.4.2-dirty"),
        ("librdkafka", "1.3.0"),
        ("confluent-kafka-dotnet", "1.4.4"),
        ("karafka", "v2.0.0-rdkafka-ruby-v0.12.0-librdkafka-v1.5.0"),
        ("confluent-kafka-javascript", "1.0.0-librdkafka-1.5.0"),
        ("anything", "7-rdkafka-1.5.0"),
    ],
)
def test_librdkafka_counts_in_whatever_brings_it(name: str, version: str):
    """Bindings report its version with their own. Seen: it consumed 0 of 60 records after a partition was added."""
    assert report(*steady(version, name=name)).verdict is Verdict.BLOCK


def test_a_producer_does_not_need_what_consumers_call():
    """It was seen to produce on 4.2."""
    assert report(*steady("1.5.0-rdkafka-1.5.0", PRODUCE, METADATA)).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("version", "principal", "verdict"),
    [
        ("2.6.0-rdkafka-2.6.0", "User:app", Verdict.WARN),
        ("2.6.0-rdkafka-2.6.0", "User:ANONYMOUS", Verdict.OK),
        ("2.6.0-rdkafka-2.6.0", "User:CN=app,O=Example", Verdict.OK),
        ("2.6.1-rdkafka-2.6.1", "User:app", Verdict.OK),
    ],
)
def test_scram_of_an_old_librdkafka_is_a_warning_for_a_client_that_logs_in(
    version: str, principal: str, verdict: Verdict
):
    """The log does not say which mechanism a client uses."""
    found = report(*steady(version, principal=principal))
    assert found.verdict is verdict
    rows = [row.verdict for row in found.rows if row.check == "client-software"]
    assert rows == ([Verdict.WARN] if verdict is Verdict.WARN else [])


def test_a_move_back_and_one_of_levels_are_not_blocked_by_what_newer_releases_lack():
    """3.9 serves what 1.5.0 calls; a move of levels and one of a single API change nothing of that."""
    moves = (DowngradeTo(captured()["3.9"], "3.9.2"), Deprecate("group.version", 0), DropApi(1, 4))
    assert not [row for move in moves for row in of_software(*steady("1.5.0-rdkafka-1.5.0"), move=move)]


DOWN_TO_4_0 = DowngradeTo(captured()["4.0"], "4.0.0")


@pytest.mark.parametrize("move", [DOWN_TO_4_0, ToRelease(captured()["4.4"])], ids=["down", "up"])
@pytest.mark.parametrize(
    ("version", "principal", "do"),
    [
        ("1.5.0-rdkafka-1.5.0", "User:ANONYMOUS", " or newer, whether the brokers move or not."),
        ("2.6.0-rdkafka-2.6.0", "User:app", "2.6.1 or newer, if it uses this, whether the brokers move or not."),
    ],
)
def test_what_a_client_cannot_do_on_the_present_brokers_is_not_put_on_the_move(
    move: Move, version: str, principal: str, do: str
):
    """4.0, 4.2 and 4.4 all lack ListOffsets 0, and all refuse the SCRAM of librdkafka 2.6.0."""
    rows = of_software(*steady(version, principal=principal), move=move, now=view("4.2"))
    assert rows
    assert all(row.do.endswith(do) for row in rows)
    assert all(" on Kafka 4.2 either, which the brokers run now." in row.why for row in rows)


@pytest.mark.parametrize("now", [view("4.2", missing=True), view("3.9")], ids=["a silent broker", "one where it works"])
def test_nothing_is_said_of_present_brokers_where_it_works_or_one_is_silent(now: View):
    """A broker that did not answer may run any release."""
    (row,) = of_software(*steady("1.5.0-rdkafka-1.5.0"), move=DOWN_TO_4_0, now=now)
    assert "which the brokers run now" not in row.why
    assert row.do.endswith(", before the brokers move to 4.0.")


ALL = (PRODUCE, FETCH, HEARTBEAT, COMMIT, METADATA, API_VERSIONS, LIST_OFFSETS)


@pytest.mark.parametrize(
    ("name", "version", "keys", "principal", "why"),
    [
        ("ClickHouse", "v24.8.1.1", (FETCH, METADATA), "ANONYMOUS", "the calls with which it starts."),
        ("brod", "3.16.3", (PRODUCE, METADATA), "ANONYMOUS", "the calls with which it starts."),
        ("brod", "3.16.3", ALL, "app", "the mechanism with which it logs in."),
        ("x", "1", (FETCH,), "app", "the mechanism with which it logs in and the calls with which it starts."),
        ("confluent-kafka-python", "99-rdkafka-99.0", (FETCH, METADATA), "ANONYMOUS", "measured are 0.11.6 to "),
        ("apache-kafka-java", "7.6.0-ccs", (FETCH, METADATA), "ANONYMOUS", "this was not measured: measured are "),
        ("brod", "3.16.3", ALL, "ANONYMOUS", None),
        ("brod", "3.16.3", (PRODUCE, METADATA, API_VERSIONS), "CN=app", None),
        ("featuregate", "0.1.0", (METADATA, API_VERSIONS), "app", None),
    ],
)
def test_software_that_was_not_measured_is_unknown_unless_its_requests_show_all_that_it_does(
    name: str, version: str, keys: tuple[int, ...], principal: str, why: str | None
):
    """A steady log is not enough: a client that the table does not have may stop at its next start."""
    found = report(*steady(version, *keys, name=name, principal=f"User:{principal}"))
    rows = [row for row in found.rows if row.check == "client-software"]
    assert found.verdict is (Verdict.UNKNOWN if why else Verdict.OK)
    assert [row.verdict for row in rows] == ([Verdict.UNKNOWN] if why else [])
    assert all(why and why in row.why and row.subject and row.do.startswith("Try client 'audit'") for row in rows)


def test_software_that_was_not_measured_works_on_what_the_brokers_run_already():
    """It is there."""
    used = steady("3.16.3", FETCH, name="brod")
    assert not of_software(*used, now=view("4.2"))
    assert of_software(*used, now=view("4.2", missing=True))


TRANSACTIONAL = {22, 24, 25, 26, 28}
WITHOUT_A_NAME = {(row.client, row.version): row for row, _ in rows_without_a_name()}


def without_a_name(client: str, version: str, *without: int, principal: str = "User:ANONYMOUS") -> list[Usage]:
    """Return the requests that a measured client sends to 3.9, which reports no software; none of transactions."""
    sent = WITHOUT_A_NAME[client, version].brokers["3.9.2"].sends
    keys = {*sent} - {*without} - TRANSACTIONAL
    return [usage(key, one, principal=principal) for key in keys for one in sent[key]]


@pytest.mark.parametrize(
    ("client", "version", "without", "principal", "verdict", "about"),
    [
        (
            "confluent-kafka",
            "1.3.0",
            (LIST_OFFSETS,),
            "ANONYMOUS",
            Verdict.UNKNOWN,
            "consume without a committed offset",
        ),
        ("sarama", "1.43.3", (), "app", Verdict.WARN, "sarama 1.43.3: SASL GSSAPI"),
        ("sarama", "1.43.3", (), "ANONYMOUS", Verdict.OK, ""),
        ("kafka-clients", "2.0.1", (LIST_OFFSETS,), "app", Verdict.OK, ""),
        ("aiokafka", "0.14.0", (LIST_OFFSETS,), "app", Verdict.OK, ""),
    ],
)
def test_a_client_that_reports_no_software_is_what_measured_ones_without_a_name_are(
    client: str, version: str, without: tuple[int, ...], principal: str, verdict: Verdict, about: str
):
    """Kafka 4.2 serves all that it sends, but for what a steady client does not."""
    found = report(*without_a_name(client, version, *without, principal=f"User:{principal}"))
    rows = [row for row in found.rows if row.check == "client-software"]
    assert (found.verdict, [row.verdict for row in rows]) == (verdict, [verdict] if about else [])
    assert all(about in row.why and row.do.startswith("Look which software client 'audit'") for row in rows)


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.3", "4.4"])
@pytest.mark.parametrize("software", [("sarama", "1.43.3"), ("kgo", "1.15.0"), None], ids=str)
def test_a_login_that_was_not_tried_on_the_release_and_fails_on_another_is_unknown(
    software: tuple[str, str] | None, release: str
):
    """Tried by GSSAPI were 3.9, where it works, and 4.2. One that does not log in needs nothing of it."""
    move = ToRelease(captured()[release])

    def used(principal: str) -> list[Usage]:
        if software is None:
            return without_a_name("sarama", "1.43.3", principal=principal)
        return steady(software[1], name=software[0], principal=principal)

    (row,) = of_software(*used("User:app"), move=move)
    assert row.verdict is Verdict.UNKNOWN
    assert "SASL GSSAPI" in row.why
    assert not of_software(*used("User:ANONYMOUS"), move=move)


@pytest.mark.parametrize(("client", "version"), WITHOUT_A_NAME)
def test_none_that_breaks_is_ok_for_want_of_a_name(client: str, version: str):
    """Not by what it sends steadily, either: what starts it and what looks up offsets may be missing from a log."""
    fit = fit_of(declared(client, version), "4.2")
    fails = {each.step for each in fit.findings if each.fate == "fails" and each.step not in {"admin", "tls"}}
    for without in ((), (LIST_OFFSETS,), (LIST_OFFSETS, API_VERSIONS)):
        found = report(*without_a_name(client, version, *without, principal="User:app"))
        assert found.verdict is not Verdict.OK or not fails, (without, fails)


@pytest.mark.parametrize(("client", "version"), [("kafka-clients", "0.10.2.2"), ("kafka-node", "5.0.0")])
@pytest.mark.parametrize("shown", [{METADATA}, {METADATA, API_VERSIONS}], ids=["idle", "new"])
def test_a_producer_without_a_name_that_sends_nothing_is_not_ok(client: str, version: str, shown: set[int]):
    """It breaks with its first record. One of its connections may say what it is."""
    idle = [each for each in without_a_name(client, version) if each.api_key in shown]
    (row,) = of_software(*idle)
    assert row.verdict is Verdict.UNKNOWN
    assert f"{client} {version}: produce" in row.why
    assert not of_software(*idle, *steady("2.16.1-rdkafka-2.16.0", principal="User:ANONYMOUS"))


@pytest.mark.parametrize(("client", "version"), [("kafka-clients", "2.0.1"), ("aiokafka", "0.14.0")])
def test_a_release_on_which_no_client_was_measured_is_unknown(client: str, version: str):
    """The oldest one is 2.8."""
    used = [each for each in without_a_name(client, version, principal="User:app") if each.api_key == METADATA]
    found = report(*used, move=DowngradeTo(captured()["2.7"], "2.7.2"))
    (row,) = [row for row in found.rows if row.check == "client-software"]
    assert row.verdict is Verdict.UNKNOWN
    assert row.why.startswith("software without a name: this software was not measured.")


def test_requests_without_a_name_that_no_measured_client_sends_are_not_measured():
    """Unless another connection of the client reports its software: franz-go does not on each."""
    unnamed = usage(METADATA, 12, principal="User:app")
    assert report(unnamed).verdict is Verdict.UNKNOWN
    assert report(unnamed, *steady("2.16.1-rdkafka-2.16.0", principal="User:app")).verdict is Verdict.OK


def test_a_bounded_number_of_softwares_is_judged(monkeypatch: pytest.MonkeyPatch):
    """Those with the most requests, and no less is known of the others: clients say any version that they like."""
    monkeypatch.setattr("featuregate_fleet.readiness.checks.software_checks.MOST_SOFTWARES", 2)
    made = [one for number in range(9) for one in steady(f"2.16.{number}-rdkafka-2.16.{number}", LIST_OFFSETS)]
    rows = of_software(*made, *steady("1.5.0-rdkafka-1.5.0", FETCH, count=99), *steady("", FETCH, name="", count=99))
    assert [row.verdict for row in rows if row.software == "confluent-kafka-python 1.5.0-rdkafka-1.5.0"] == ["block"]
    (more,) = (row for row in rows if row.subject == "other software")
    assert (more.verdict, more.why.split()[0], more.count) == (Verdict.UNKNOWN, "8", 8 * usage(LIST_OFFSETS).count)


def test_apps_that_share_a_client_id_are_told_apart_by_their_software():
    """A row names the software of its own requests, and only that software negotiates."""
    modern = steady("2.16.1-rdkafka-2.16.0", FETCH, API_VERSIONS)
    pinned = usage(PRODUCE, 1, principal="User:ANONYMOUS")
    (row,) = [row for row in report(*modern, pinned).rows if row.verdict is Verdict.BLOCK]
    assert (row.api, row.software) == ("Produce", None)
    assert report(*modern, usage(FETCH, 99, principal="User:ANONYMOUS")).verdict is Verdict.BLOCK


def test_a_row_names_five_of_the_hosts_that_its_requests_came_from():
    """Those of another app with the same client id are not among them."""
    old = [usage(PRODUCE, 1, client_host=f"10.0.0.{number}") for number in range(7)]
    found = report(*old, usage(PRODUCE, 7, client_host="10.0.1.1", software_name="x", software_version="1"))
    (row,) = [row for row in found.rows if row.verdict is Verdict.BLOCK]
    assert row.hosts == tuple(f"10.0.0.{number}" for number in range(5))
    assert row.host_count == len(old)
    assert row.said.endswith(" Seen from 10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 and 2 more.")


@pytest.mark.parametrize(
    ("asked_from", "used_from", "verdict"),
    [
        ("10.0.0.1", "10.0.0.1", Verdict.WARN),
        ("10.0.0.1", "10.0.0.2", Verdict.BLOCK),
        (None, "10.0.0.2", Verdict.WARN),
        ("10.0.0.1", None, Verdict.WARN),
    ],
)
def test_a_client_negotiates_if_the_same_software_asks_on_its_host(
    asked_from: str | None, used_from: str | None, verdict: Verdict
):
    """Rows of older releases name no host: they say it of the software everywhere, and are judged by it anywhere."""
    asks = usage(API_VERSIONS, 2, client_host=asked_from)
    assert of_fetch(asks, usage(FETCH, 99, client_host=used_from)) == [verdict]


def test_a_forwarded_request_is_judged_by_its_names():
    """Its line has the connection of the broker that forwarded it, and no software."""
    asks = steady("2.16.1-rdkafka-2.16.0", API_VERSIONS, client_host="10.0.0.1")
    forwarded = usage(FETCH, 99, forwarded=True, principal="User:ANONYMOUS", listener="CONTROLLER")
    assert of_fetch(*asks, forwarded) == [Verdict.WARN]
