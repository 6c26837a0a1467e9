"""What connected software does on another release: all measured clients, and what is not known."""

from collections.abc import Mapping

import pytest
from metrics_pages import NOW, USUAL, page, read

from featuregate.catalog import captured
from featuregate.catalog.api_names import API_NAMES
from featuregate.catalog.clients import client_rows, measured_clients
from featuregate.clients.declared import client
from featuregate.clients.fit import fit_of
from featuregate_fleet.metrics.listeners import MECHANISMS, BrokerListener
from featuregate_fleet.metrics.pages import evidence_of
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
    """Where it has no name, that is unknown."""
    for (name, version, mechanism), report in reports.items():
        if fit_of(client(name, version), "4.2", sasl=mechanism).verdict != "works":
            verdicts = {row.verdict for row in about(report, "client-software", "logins", "api-versions")}
            assert verdicts & {Verdict.BLOCK, Verdict.UNKNOWN}, (name, version, mechanism)


def test_a_client_that_cannot_log_in_blocks_where_its_listener_allows_one_mechanism() -> None:
    """confluent-kafka 2.4.0 is connected by SCRAM, and no request shows that its login fails on 4.2."""
    report = judged({("CLIENT", *OLD): 3, ("CLIENT", *NEW): 2}, {"CLIENT": SCRAM})
    (row,) = about(report)
    assert (report.verdict, row.check, row.verdict) == (Verdict.BLOCK, "logins", Verdict.BLOCK)
    assert row.subject == "confluent-kafka-python 2.4.0-rdkafka-2.4.0"
    assert row.why.startswith("librdkafka 2.4.0 cannot do this on Kafka 4.2, as was measured: SASL SCRAM-SHA-256: ")
    assert row.why.endswith("It is connected to listener CLIENT of broker 1, with up to 3 connections.")
    assert row.do == f"Upgrade {' '.join(OLD)} to librdkafka 2.6.1 or newer, before the brokers move to 4.2."


def test_where_a_listener_allows_several_mechanisms_a_login_may_break() -> None:
    """No metric has the one that is used: unknown, and never ok."""
    (row,) = about(
        judged({("CLIENT", *OLD): 3}, {"CLIENT": BrokerListener(mechanisms=frozenset({"PLAIN", "SCRAM-SHA-256"}))})
    )
    assert (row.check, row.verdict) == ("logins", Verdict.UNKNOWN)
    assert "may break on Kafka 4.2: SASL SCRAM-SHA-256" in row.why
    assert "The listener allows PLAIN, SCRAM-SHA-256." in row.why


def test_without_sasl_no_login_can_break() -> None:
    """The same client works on a listener without SASL, or with a mechanism that it can."""
    for mechanisms in (frozenset[str](), frozenset({"PLAIN"})):
        (row,) = about(judged({("CLIENT", *OLD): 3}, {"CLIENT": BrokerListener(mechanisms=mechanisms)}))
        assert (row.verdict, row.subject) == (Verdict.OK, "listener CLIENT")
    assert row.why.startswith("All software that was seen works on Kafka 4.2, also log in by PLAIN: ")


def test_mechanisms_that_are_not_known_leave_logins_unknown() -> None:
    """Also where all that is connected can log in by each mechanism that was measured."""
    (row,) = about(judged({("CLIENT", *NEW): 3}, {}))
    assert (row.check, row.verdict, row.subject) == ("logins", Verdict.UNKNOWN, "listener CLIENT")
    assert {one.verdict for one in about(judged({("CLIENT", *OLD): 3}, {}))} == {Verdict.UNKNOWN}


def test_a_login_that_was_not_measured_is_unknown() -> None:
    """No release of kgo was tried with a mechanism that Kafka does not have."""
    report = judged(
        {("CLIENT", "kgo", "v1.22.3"): 1}, {"CLIENT": BrokerListener(mechanisms=frozenset({"AWS_MSK_IAM"}))}
    )
    (row,) = about(report)
    assert (row.check, row.verdict) == ("logins", Verdict.UNKNOWN)
    assert "was not measured on Kafka 4.2" in row.why


def test_a_software_that_was_measured_to_break_blocks_without_a_request() -> None:
    """confluent-kafka 1.5.0 calls ListOffsets 0 without a committed offset alone, which may not have come up yet."""
    (row,) = about(
        judged(
            {("CLIENT", "confluent-kafka-python", "1.5.0-rdkafka-1.5.0"): 1},
            {"CLIENT": BrokerListener(mechanisms=frozenset())},
        )
    )
    assert (row.check, row.verdict) == ("client-software", Verdict.BLOCK)
    assert "consume without a committed offset: it sends ListOffsets 0" in row.why


def test_what_was_connected_and_is_not_any_more_may_have_been_replaced() -> None:
    """A series stays at 0 until the broker starts again: no block, and no ok."""
    (row,) = about(judged({("CLIENT", *OLD): 0}, {"CLIENT": SCRAM}))
    assert row.verdict is Verdict.UNKNOWN
    assert row.why.endswith("It was connected to listener CLIENT of broker 1 since that started, and at no sample.")
    (row,) = about(judged({("CLIENT", *NEW): 0}, {"CLIENT": SCRAM}))
    assert row.verdict is Verdict.OK


@pytest.mark.parametrize(
    "software", [("unknown", "unknown"), ("other", "1.0"), ("kgo", "v99.0.0"), ("apache-kafka-java", "7.5.1-ccs")]
)
def test_software_that_is_not_in_the_table_is_unknown(software: tuple[str, str]) -> None:
    """Without a name, with another one, and a release that is newer than all that were measured."""
    (row,) = about(judged({("CLIENT", *software): 1}, {"CLIENT": BrokerListener(mechanisms=frozenset())}))
    assert row.verdict is Verdict.UNKNOWN


def test_software_without_a_name_is_no_finding_where_nodes_alone_connect() -> None:
    """Brokers have no name on their own listener; one that another software uses, too, is unknown."""
    nodes = {"INTERNAL": BrokerListener(mechanisms=frozenset(), of_nodes=True)}
    alone = {("INTERNAL", "unknown", "unknown"): 2, ("INTERNAL", "apache-kafka-java", "3.9.2"): 1}
    assert about(judged(alone, nodes)) == []
    shared = judged(alone | {("INTERNAL", *NEW): 1}, nodes)
    assert [row.verdict for row in about(shared)] == [Verdict.UNKNOWN]


def test_our_own_software_is_not_judged() -> None:
    """featuregate itself asks brokers for what they serve."""
    assert about(judged({("CLIENT", "featuregate", "0.1.0"): 1}, {})) == []


def test_hidden_software_is_unknown() -> None:
    """A broker without the metric, and a thread that counts no more pairs."""
    (row,) = about(judged({}, {}))
    assert (row.verdict, row.subject) == (Verdict.UNKNOWN, "software of broker 1")
    many = {("CLIENT", NEW[0], f"2.16.1-rdkafka-2.16.{number}"): 0 for number in range(100)}
    rows = about(judged(many, {"CLIENT": SCRAM}))
    assert "software on listener CLIENT" in {row.subject for row in rows if row.verdict is Verdict.UNKNOWN}
