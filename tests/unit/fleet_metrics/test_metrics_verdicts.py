"""Rows and verdicts by metrics: as strong as the evidence, and never ok where something is not known."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from metrics_pages import NOW, PAGES, REQUESTS, SOFTWARE, STARTED, USUAL, page, read
from told_rows import said, told

from featuregate.catalog import captured
from featuregate_fleet.metrics.evidence import MetricsEvidence
from featuregate_fleet.metrics.listeners import BrokerListener
from featuregate_fleet.metrics.pages import Page
from featuregate_fleet.metrics.targets import Target, evidence_of
from featuregate_fleet.metrics.verdicts import BLIND_SPOTS, MetricsReport, judge
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.rows import Row, Verdict

WEEK_AGO = NOW - timedelta(days=7)
NEW = ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
LISTENERS = {"CLIENT": BrokerListener(mechanisms=frozenset({"SCRAM-SHA-256"}))}
OTHER = STARTED - timedelta(days=1)
TWO_IDS = "\n".join(f'kafka_server_app_info_StartTimeMs{{id="{each}"}} 1.79e12' for each in (7, 8))
JAVA = f"java_lang_runtime_starttime {STARTED.timestamp() * 1000}"
DEPRECATED = "kafka_network_requestmetrics_deprecatedrequestspersec_count"


def whole(requests: Mapping[tuple[str, int], int] = USUAL, more: str = "") -> bytes:
    return page(requests, {("CLIENT", *NEW): 2}, more=more)


def evidence(*pages: Page) -> MetricsEvidence:
    return evidence_of(pages or [read(whole())], WEEK_AGO, NOW)


def judged(
    found: MetricsEvidence,
    to: str = "4.2",
    listeners: Mapping[str, BrokerListener] = LISTENERS,
    brokers: Mapping[str, str] | int | None = 1,
) -> MetricsReport:
    return judge(found, ReleaseApis(captured()[to]), listeners, brokers)


def blocking(found: MetricsEvidence, to: str = "4.2") -> list[Row]:
    return [row for row in judged(found, to).rows if row.verdict is Verdict.BLOCK]


def with_old(requests: Mapping[tuple[str, int], int], more: str = "") -> MetricsEvidence:
    return evidence(read(whole({**USUAL, **requests}, more)))


# ---------------------------------------------------------------- ok, and what takes it back


def test_invariant_11_nothing_is_ok_unless_all_is_known() -> None:
    """All hours of all brokers, measured software, and logins that can be judged; then the blind spots are said."""
    report = judged(evidence())
    assert {row.verdict for row in report.rows} == {Verdict.OK}
    assert (report.verdict, report.blind_spots) == (Verdict.OK, BLIND_SPOTS)


@pytest.mark.parametrize(
    ("pages", "brokers"),
    [
        ([read(whole(), at=NOW - timedelta(hours=2))], 1),
        ([read(page(USUAL, {("CLIENT", *NEW): 2}, started=NOW - timedelta(hours=1)))], 1),
        ([read(page(USUAL, {("CLIENT", *NEW): 2}, started=None))], 1),
        ([read(page(USUAL))], 1),
        ([read(whole(more="kafka_network_requestmetrics_requests_total{"))], 1),
        ([read(whole(more='kafka_network_requestmetrics_requests_total{request="Fetch"} 1'))], 1),
        ([read(whole({("Metadata", 12): 1, ("Fetch", 16): 3, ("FetchConsumer", 16): 3}))], 1),
        ([read(page({}, {("CLIENT", *NEW): 2}))], 1),
        ([read((PAGES / "spelled-without-version.txt").read_bytes())], 1),
        ([read((PAGES / "spelled-datadog.txt").read_bytes())], 1),
        ([read(whole({**USUAL, ("BrandNew", 0): 1}))], 1),
        ([read(whole())], None),
        ([read(whole())], 2),
        ([read(whole()), read(page(USUAL, {}, started=WEEK_AGO), "2")], 1),
        ([read(whole())], {"1": "b1", "2": "b2"}),
        ([read(whole(), "broker-1:9404")], {"1": "localhost"}),
        ([read(whole(), at=NOW + timedelta(days=300))], 1),
        ([read(whole(more=f'{REQUESTS}{{request="Fetch"}} NaN'))], 1),
        ([read(whole(more=f'{REQUESTS}{{version="3"}} 1'))], 1),
        ([read(whole(more=f'{SOFTWARE}{{clientSoftwareVersion="1",listener="CLIENT",networkProcessor="0"}} 1'))], 1),
        ([read(whole({("Metadata", 12): 4, ("FindCoordinator", 4): 2, ("Fetch", 16): 9}))], 1),
        ([read(whole(more=f"process_start_time_seconds {NOW.timestamp()}"))], 1),
        ([read(f"process_start_time_seconds {NOW.timestamp()}\n".encode() + whole())], 1),
        ([read(whole() + b'kafka_other{a="b')], 1),
        ([read(page(USUAL, {("CLIENT", *NEW): 2}, started=None) + b"process_start_time_seconds 1.79")], 1),
        ([read(page(USUAL, {("CLIENT", *NEW): 2}, started=None, more="process_start_time_seconds 100"))], 1),
        ([read(whole()), read(page(USUAL, {("CLIENT", *NEW): 2}, started=None, more=JAVA), "2")], 2),
        ([read(whole(more='kafka_server_app_info_StartTimeMs{id="7"} 1.79e12'))], {"1": "b1"}),
        ([read(whole(more=TWO_IDS), "b1:9404", is_named=False)], 1),
        ([read(whole()), read(page(USUAL, {("CLIENT", *NEW): 2}, started=OTHER), "b9:9404")], {"1": "b1"}),
        ([read(whole()), read(page(USUAL, {("CLIENT", *NEW): 2}, started=OTHER), "b1:9404")], {"1": "b1"}),
    ],
)
def test_invariant_11_what_is_missing_is_unknown(pages: list[Page], brokers: Mapping[str, str] | int | None) -> None:
    """Old pages, short ones, without a start, software, version or most APIs; an API or a broker that is not known.

    Pages from the future, cut ones, with labels that are missing, with two starts or one of 1970; one broker by two
    exporters of which each has another start of it, one that was named for another, two on one page, and brokers of
    another cluster.
    """
    assert judged(evidence(*pages), brokers=brokers).verdict is Verdict.UNKNOWN


def test_a_broker_whose_page_cannot_be_read_is_named() -> None:
    pages = [read(whole({**USUAL, ("Fetch", 3): 1})), Target(broker="2", problem="refused")]
    report = judged(evidence_of(pages, WEEK_AGO, NOW), brokers=2)
    assert report.verdict is Verdict.BLOCK
    assert "Its metrics cannot be used: refused." in {row.why for row in report.rows}


def test_a_page_without_these_metrics_says_what_to_add() -> None:
    rows = judged(evidence(read((PAGES / "spelled-datadog.txt").read_bytes()))).rows
    (row,) = [row for row in rows if row.subject == "broker 1" and row.check == "coverage"]
    assert "name=RequestsPerSec,*" in row.do
    assert row.do.count("\n") == 6


def test_an_id_that_no_target_has_is_a_broker_without_metrics() -> None:
    rows = judged(evidence(), brokers={"1": "b1", "7": "b7"}).rows
    (row,) = [row for row in rows if row.subject == "the cluster"]
    assert row.why == "No metrics are known to be of broker 7; the targets are 1."


@pytest.mark.parametrize(
    ("name", "brokers", "verdict"),
    [
        ("broker-1:9404", {"1": "broker-1"}, Verdict.OK),
        ("kafka-0.kafka.svc:9404", {"1": "KAFKA-0.brokers.example"}, Verdict.OK),
        ("10.0.0.1:9404", {"1": "10.0.0.1"}, Verdict.OK),
        ("10.0.0.1:9404", {"1": "10.0.0.2"}, Verdict.UNKNOWN),
        ("localhost:9404", {"1": "localhost", "2": "localhost"}, Verdict.UNKNOWN),
    ],
)
def test_a_broker_is_found_again_by_its_host(name: str, brokers: Mapping[str, str], verdict: Verdict) -> None:
    """By the whole name or its first part, where one broker alone has it."""
    assert judged(evidence(read(whole(), name)), brokers=brokers).verdict is verdict


def test_restarts_are_a_blind_spot() -> None:
    found = evidence()
    broker = replace(found.brokers[0], restarts=3, interval=15.0)
    report = judged(replace(found, brokers=(broker,)))
    assert report.blind_spots[-1] == "of these there were 3 in this time: up to 15 s before each are lost"


# ---------------------------------------------------------------- requests


def deprecated(*pairs: tuple[str, int], name: str = "librdkafka") -> str:
    software = 'api_name="{}",api_version="{}",client_software_name="{}",client_software_version="1.9.2"'
    return "\n".join(f"{DEPRECATED}{{{software.format(*pair, name)}}} 4" for pair in pairs)


FETCH_3 = {("Fetch", 3): 4, ("FetchConsumer", 3): 4}
CONVERTED = 'kafka_server_brokertopicmetrics_fetchmessageconversions_total{topic="t-old"} 7'


@pytest.mark.parametrize(
    ("requests", "more", "to", "verdict", "rows"),
    [
        ({("ListOffsets", 0): 3}, "", "4.2", Verdict.BLOCK, "requests 1"),
        (
            {**FETCH_3, ("Metadata", 0): 4},
            deprecated(("FetchConsumer", 3), ("Metadata", 0)),
            "4.2",
            Verdict.BLOCK,
            "requests 2",
        ),
        ({}, deprecated(("Produce", 2)), "4.2", Verdict.UNKNOWN, "requests 3"),
        ({("FetchFollower", 3): 1}, deprecated(("Fetch", 3)), "4.2", Verdict.UNKNOWN, "requests 4"),
        ({}, deprecated(("Produce", 2), name="unknown"), "4.2", Verdict.UNKNOWN, "requests 5"),
        ({("JoinGroup", 0): 1}, "", "4.0", Verdict.BLOCK, "requests 6"),
        ({("JoinGroup", 0): 1}, "", "4.2", Verdict.OK, "requests 7"),
        ({("CreateTopics", 1): 5}, "", "4.2", Verdict.BLOCK, "requests 8"),
        ({("ShareFetch", 0): 9}, "", "4.2", Verdict.UNKNOWN, "requests 9"),
        ({("ShareFetch", 0): 9, ("ShareFetch", 1): 9}, "", "4.2", Verdict.BLOCK, "requests 10"),
        ({}, "", "3.0", Verdict.UNKNOWN, "requests 11"),
        (FETCH_3, CONVERTED, "4.2", Verdict.BLOCK, "requests 12"),
    ],
)
def test_requests_are_judged_by_what_the_target_serves(
    requests: Mapping[tuple[str, int], int], more: str, to: str, verdict: Verdict, rows: str
) -> None:
    report = judged(with_old(requests, more), to)
    of_requests = [row for row in report.rows if row.check in {"api-versions", "newer-brokers"}]
    assert (report.verdict, told(of_requests)) == (verdict, said(rows))


@pytest.mark.parametrize(
    "pair",
    [
        ("ApiVersions", 99),
        ("WriteTxnMarkers", 0),
        ("AlterPartition", 0),
        ("FetchFollower", 1),
        ("Fetch", 4),
        ("PushTelemetry", 0),
    ],
)
def test_what_is_of_nodes_or_of_anybody_does_not_block(pair: tuple[str, int]) -> None:
    """Anyone makes a version of ApiVersions; nodes use what the other node has."""
    assert judged(with_old({pair: 1})).verdict is Verdict.OK


@pytest.mark.parametrize("name", sorted(path.name for path in PAGES.glob("3.9.2-*.txt")))
def test_real_pages_block_whatever_rules_wrote_them(name: str) -> None:
    """Fetch 3 by librdkafka, Fetch 1 and Produce 1 by a client without a name, and a ListOffsets that is served."""
    rows = [row for row in blocking(evidence(read((PAGES / name).read_bytes()))) if row.check == "api-versions"]
    assert {(row.api, row.versions, row.subject) for row in rows} == {
        ("Fetch", (1, 3), "librdkafka 1.9.2 and clients without a name"),
        ("Produce", (1,), "clients without a name"),
    }
