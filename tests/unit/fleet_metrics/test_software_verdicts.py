"""What connected software does on another release: all measured clients, and what is not known."""

from collections.abc import Mapping

import pytest
from metrics_pages import NOW, USUAL, page, read
from told_rows import said, told

from featuregate.catalog import captured
from featuregate.catalog.apis import API_NAMES
from featuregate.catalog.clients import client_rows, measured_clients
from featuregate.clients.declared import client
from featuregate.clients.fit import fit_of
from featuregate_fleet.metrics.listeners import MECHANISMS, BrokerListener
from featuregate_fleet.metrics.targets import evidence_of
from featuregate_fleet.metrics.verdicts import MetricsReport, judge
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.rows import Row, Verdict

OF_4_2 = ReleaseApis(captured()["4.2"])
SCRAM = BrokerListener(mechanisms=frozenset({"SCRAM-SHA-256"}))
OLD, NEW = ("confluent-kafka-python", "2.4.0-rdkafka-2.4.0"), ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
ROWS = [row for name in measured_clients() for row in client_rows(name) if row.brokers]


def judged(
    software: Mapping[tuple[str, str, str], int],
    listeners: Mapping[str, BrokerListener],
    requests: Mapping[tuple[str, int], int] = USUAL,
) -> MetricsReport:
    evidence = evidence_of([read(page(requests, software))], NOW, NOW)
    return judge(evidence, OF_4_2, listeners, 1)


def about(report: MetricsReport, *checks: str) -> list[Row]:
    return [row for row in report.rows if row.check in (checks or ("client-software", "logins"))]


@pytest.fixture(scope="module")
def reports() -> dict[tuple[str, str, str], MetricsReport]:
    """Judge what each release of a client leaves in the metrics of a broker 3.9.2, with each mechanism alone."""
    found = {}
    for row in ROWS:
        name, version = row.software[0] if row.software else ("unknown", "unknown")
        sent = {(API_NAMES[key], one): 1 for key, ones in row.brokers["3.9.2"].sends.items() for one in ones}
        for mechanism in MECHANISMS:
            listeners = {"CLIENT": BrokerListener(mechanisms=frozenset({mechanism}))}
            report = judged({("CLIENT", name, version): 1}, listeners, USUAL | sent)
            found[row.client, row.version, mechanism] = report
    return found


@pytest.mark.slow
def test_of_113_measured_clients_37_of_the_41_that_break_are_found_and_none_of_the_others(
    reports: Mapping[tuple[str, str, str], MetricsReport],
) -> None:
    """Those that are not found have no name, and fail at login alone: sarama 1.41 to 1.45 with GSSAPI."""
    found, breaking, wrong = set(), {}, set()
    for name, version in ((row.client, row.version) for row in ROWS):
        findings = fit_of(client(name, version), "4.2").findings
        fails = {each.step for each in findings if each.fate == "fails"}
        blocked = {one for one in MECHANISMS if reports[name, version, one].verdict is Verdict.BLOCK}
        by_login = {one for one in MECHANISMS if f"sasl-{one}" in fails} or set(MECHANISMS)
        if fails:
            breaking[name, version] = fails
            found |= {(name, version)} if blocked >= by_login else set()
        elif blocked:
            wrong.add((name, version))
    assert (len(ROWS), len(breaking), len(found), wrong) == (113, 41, 37, set())
    missed = breaking.keys() - found
    assert {name for name, _ in missed} == {"sarama"}
    assert {step for one in missed for step in breaking[one]} == {"sasl-GSSAPI"}


@pytest.mark.slow
def test_no_client_that_breaks_is_ok(reports: Mapping[tuple[str, str, str], MetricsReport]) -> None:
    for (name, version, mechanism), report in reports.items():
        if fit_of(client(name, version), "4.2", sasl=mechanism).verdict != "works":
            verdicts = {row.verdict for row in about(report, "client-software", "logins", "api-versions")}
            assert verdicts & {Verdict.BLOCK, Verdict.UNKNOWN}, (name, version, mechanism)


ANCIENT = ("confluent-kafka-python", "1.5.0-rdkafka-1.5.0")
NODES = BrokerListener(mechanisms=frozenset(), of_nodes=True)
ANY_LOGIN, NO_SASL = BrokerListener(), BrokerListener(mechanisms=frozenset())
PLAIN, AWS = (BrokerListener(mechanisms=frozenset({one})) for one in ("PLAIN", "AWS_MSK_IAM"))
SEVERAL = BrokerListener(mechanisms=frozenset({"PLAIN", "SCRAM-SHA-256"}))
OK, UNKNOWN, BLOCK = Verdict.OK, Verdict.UNKNOWN, Verdict.BLOCK


@pytest.mark.parametrize(
    ("software", "connections", "listener", "verdict", "rows"),
    [
        (OLD, 3, SCRAM, BLOCK, "software 1"),
        (OLD, 3, SEVERAL, UNKNOWN, "software 2"),
        (OLD, 3, NO_SASL, OK, "software 3"),
        (OLD, 3, PLAIN, OK, "software 4"),
        (NEW, 3, ANY_LOGIN, UNKNOWN, "software 5"),
        (OLD, 3, ANY_LOGIN, UNKNOWN, "software 6"),
        (("kgo", "v1.22.3"), 1, AWS, UNKNOWN, "software 7"),
        (ANCIENT, 1, NO_SASL, BLOCK, "software 8"),
        (OLD, 0, SCRAM, UNKNOWN, "software 9"),
        (NEW, 0, SCRAM, OK, "software 10"),
        (("unknown", "unknown"), 0, SCRAM, UNKNOWN, "software 11"),
        (("unknown", "unknown"), 1, NO_SASL, UNKNOWN, "software 12"),
        (("other", "1.0"), 1, NO_SASL, UNKNOWN, "software 13"),
    ],
)
def test_what_is_connected_is_judged_by_the_table_and_by_what_its_listener_allows(
    software: tuple[str, str], connections: int, listener: BrokerListener, verdict: Verdict, rows: str
) -> None:
    """A login that fails is in no request; where several mechanisms are allowed, no metric has the one that is used."""
    report = judged({("CLIENT", *software): connections}, {"CLIENT": listener})
    assert (report.verdict, told(about(report))) == (verdict, said(rows))


@pytest.mark.parametrize("software", [("kgo", "v99.0.0"), ("apache-kafka-java", "7.5.1-ccs")])
def test_a_release_that_was_not_measured_is_unknown(software: tuple[str, str]) -> None:
    """One is newer than all that were measured, and one of another vendor."""
    (row,) = about(judged({("CLIENT", *software): 1}, {"CLIENT": NO_SASL}))
    assert (row.check, row.verdict, row.subject) == ("client-software", UNKNOWN, " ".join(software))


def test_software_that_says_its_name_alone_is_told_apart() -> None:
    """It has a name to look for, and no version to judge it by."""
    seen = [("kgo", "unknown"), ("sarama", "unknown"), ("unknown", "1.0"), ("unknown", "unknown")]
    evidence = evidence_of([read(page(USUAL, {("CLIENT", *one): 1 for one in seen}))], NOW, NOW)
    nameless = ["software without a name 1.0", "software without a name"]
    said = ["kgo without a version", "sarama without a version", *nameless]
    assert [one.text for one in evidence.software_in_use] == said
    rows = about(judge(evidence, OF_4_2, {"CLIENT": NO_SASL}, 1))
    assert {row.verdict for row in rows} == {UNKNOWN}
    assert {row.subject for row in rows} == {*said[:2], *(f"{one} on listener CLIENT" for one in nameless)}
    why = "kgo without a version is connected to listener CLIENT, and was not measured."
    assert why in {row.why for row in rows}
    assert sum("do not say what they are" in row.why for row in rows) == 2


def test_software_that_works_does_not_hide_one_that_does_not() -> None:
    assert told(about(judged({("CLIENT", *OLD): 3, ("CLIENT", *NEW): 2}, {"CLIENT": SCRAM}))) == said("software 1")


def test_software_without_a_name_is_no_finding_where_nodes_alone_connect() -> None:
    """Brokers have no name on their own listener; one that another software uses, too, is unknown."""
    alone = {("INTERNAL", "unknown", "unknown"): 2, ("INTERNAL", "apache-kafka-java", "3.9.2"): 1}
    assert about(judged(alone, {"INTERNAL": NODES})) == []
    shared = judged(alone | {("INTERNAL", *NEW): 1}, {"INTERNAL": NODES})
    assert [row.verdict for row in about(shared)] == [Verdict.UNKNOWN]


def test_our_own_software_is_not_judged() -> None:
    assert about(judged({("CLIENT", "featuregate", "0.1.0"): 1}, {})) == []


def test_a_bounded_number_of_softwares_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with the most connections; a page with thousands took half a minute, and no broker counts so many."""
    monkeypatch.setattr("featuregate_fleet.metrics.software_verdicts.MOST_SOFTWARES", 3)
    seen = {("A", NEW[0], f"2.16.1-rdkafka-2.16.{number}"): 1 for number in range(9)} | {("A", *ANCIENT): 2}
    rows = about(judged(seen | {("B", *ANCIENT): 1}, {"A": NO_SASL, "B": NO_SASL}))
    assert [row.subject for row in rows if row.verdict is BLOCK] == [" ".join(ANCIENT)]
    more = {row.subject: row.why for row in rows if "more softwares" in row.why}
    assert {subject: why.split()[0] for subject, why in more.items()} == {
        "software on listener A": "7",
        "software on listener B": "1",
    }
    assert all(row.verdict is UNKNOWN for row in rows if row.subject in more)


def test_hidden_software_is_unknown() -> None:
    """A broker without the metric, and a thread that counts no more pairs."""
    (row,) = about(judged({}, {}))
    assert (row.verdict, row.subject) == (Verdict.UNKNOWN, "software of broker 1")
    many = {("CLIENT", NEW[0], f"2.16.1-rdkafka-2.16.{number}"): 0 for number in range(100)}
    rows = about(judged(many, {"CLIENT": SCRAM}))
    assert "software on listener CLIENT" in {row.subject for row in rows if row.verdict is Verdict.UNKNOWN}
