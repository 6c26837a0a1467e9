"""From pages to evidence: counters since a start, two exporters on one node, and what a page covers."""

from datetime import timedelta

from metrics_pages import NOW, OLD, PAGES, REQUESTS, STARTED, USUAL, page, read

from featuregate_fleet.metrics.evidence import oldest_release
from featuregate_fleet.metrics.pages import evidence_of, started_at, whole

WEEK_AGO = NOW - timedelta(days=7)


def counts(*pages: bytes) -> dict[tuple[str, str, int], int]:
    evidence = evidence_of([read(text, str(number)) for number, text in enumerate(pages)], WEEK_AGO, NOW)
    return {(one.broker, one.api, one.version): one.count for one in evidence.requests}


def test_a_counter_counts_since_the_start_of_its_broker() -> None:
    """No sample before is needed: the value is what was answered since."""
    found = evidence_of([read(page(OLD))], WEEK_AGO, NOW).requests
    assert [(one.api, one.version, one.count, one.after, one.until) for one in found] == [("Fetch", 3, 7, STARTED, NOW)]


def test_a_fetch_is_counted_once_and_those_of_followers_not_at_all() -> None:
    """A broker counts each as Fetch, and again as a part of it."""
    assert counts(page(USUAL | {("FetchFollower", 16): 5}))["0", "Fetch", 16] == 4
    assert counts(page({("Fetch", 17): 5, ("FetchFollower", 17): 5})) == {("0", "FetchFollower", 17): 5}
    assert counts(page({("Fetch", 3): 5})) == {("0", "Fetch", 3): 5}
    assert counts(page({("FetchConsumer", 3): 5})) == {("0", "Fetch", 3): 5}


def test_two_exporters_on_one_broker_are_one_broker() -> None:
    """They show one start, to the millisecond; its requests count once."""
    assert counts(page(OLD), page(OLD | {("Produce", 1): 2})) == {("0", "Fetch", 3): 7, ("0", "Produce", 1): 2}
    java = f"java_lang_runtime_starttime {STARTED.timestamp() * 1000}"
    assert counts(page(OLD), page(OLD, started=None, more=java)) == {("0", "Fetch", 3): 7}
    app = f"kafka_server_app_info_starttimems {STARTED.timestamp() * 1000 + 4000}"
    exporters = [page(OLD, started=None, more=more) for more in (java, app, f"{java}\n{app}")]
    assert counts(*exporters) == {("0", "Fetch", 3): 7}
    other = page(OLD, started=STARTED + timedelta(milliseconds=1))
    assert len(evidence_of([read(page(OLD)), read(other, "2")], WEEK_AGO, NOW).brokers) == 2


def test_two_pages_of_one_name_are_one_broker() -> None:
    """The operator says so."""
    pages = [read(page(OLD, started=None), "1"), read(page(OLD, started=None), "1")]
    assert [one.count for one in evidence_of(pages, WEEK_AGO, NOW).requests] == [7]


def test_a_broker_is_called_by_the_id_that_its_metrics_have() -> None:
    """Where the operator gives it no name."""
    text = page(OLD, more='kafka_server_app_info_StartTimeMs{id="12"} 1.79594531671E12')
    for is_named, name in ((False, "12"), (True, "b1:9404")):
        assert evidence_of([read(text, "b1:9404", is_named=is_named)], WEEK_AGO, NOW).brokers[0].broker == name


def test_a_page_covers_the_time_since_the_start() -> None:
    """All hours, if the broker runs for longer than was asked; otherwise fewer, and never all."""
    for started, at, hours in (
        (STARTED, NOW, 168),
        (NOW - timedelta(hours=5), NOW, 5),
        (WEEK_AGO + timedelta(minutes=20), NOW, 167),
        (STARTED, NOW - timedelta(minutes=59), 168),
        (STARTED, NOW - timedelta(days=2), 120),
        (STARTED, NOW - timedelta(days=9), 0),
        (None, NOW, 0),
    ):
        broker = evidence_of([read(page(USUAL, started=started), at=at)], WEEK_AGO, NOW).brokers[0]
        assert (broker.hours, broker.of_hours, broker.started) == (hours, 168, started)


def test_the_best_source_of_a_start_is_the_broker_itself() -> None:
    """An exporter may run beside the broker, and have started at another time."""
    starts = {"processstarttimeseconds": 1.7e9 + 3, "javalangruntimestarttime": 1.7e12 + 2000}
    assert str(started_at(starts)) == "2023-11-14 22:13:22+00:00"
    assert str(started_at(starts | {"kafkaserverappinfostarttimems": 1.7e12 + 1000})) == "2023-11-14 22:13:21+00:00"
    assert started_at({"processstarttimeseconds": 1e300}) is None
    assert started_at({"processstarttimeseconds": 0.0}) is None
    assert started_at({"processstarttimeseconds": 1.79}) is None


def test_what_no_counter_is_counts_as_unread() -> None:
    """Not a number, endless, below zero, and above what a float counts."""
    for value in ("NaN", "+Inf", "-1.0", "1e300", "0.007"):
        evidence = evidence_of([read(page(more=f'{REQUESTS}{{request="Fetch",version="1"}} {value}'))], WEEK_AGO, NOW)
        assert (evidence.requests, evidence.brokers[0].unread) == ((), 1)
    assert whole(2.0**53) is None


def test_a_controller_and_a_broker_with_a_few_metrics_are_not_taken_for_a_broker() -> None:
    """A controller answers no Metadata; rules that name a few APIs hide the others."""
    for requests, is_broker in (
        (USUAL, True),
        ({("Fetch", 17): 3, ("FetchFollower", 17): 3, ("BrokerHeartbeat", 1): 9}, False),
        ({("Metadata", 12): 1, ("Produce", 9): 1, ("Fetch", 16): 3, ("FetchConsumer", 16): 3}, False),
    ):
        assert evidence_of([read(page(requests))], WEEK_AGO, NOW).brokers[0].is_broker is is_broker


def test_the_connections_of_all_network_threads_are_added_up() -> None:
    """And a thread with as many pairs as it counts may hide others."""
    software = 'kafka_server_socketservermetrics_connections{{client_software_name="{}",client_software_version="1",\
listener="CLIENT",network_processor="{}"}} 2'
    few = page(USUAL, more="\n".join(software.format("a", thread) for thread in "01"))
    evidence = evidence_of([read(few)], WEEK_AGO, NOW)
    assert [(one.text, one.connections) for one in evidence.software] == [("a 1", 4)]
    assert evidence.brokers[0].full_listeners == ()
    many = page(USUAL, more="\n".join(software.format(f"a{number}", 0) for number in range(100)))
    assert evidence_of([read(many)], WEEK_AGO, NOW).brokers[0].full_listeners == ("CLIENT",)


def test_a_page_that_cannot_be_read_is_a_broker_that_is_not_known() -> None:
    """It is named with the reason."""
    evidence = evidence_of([read(page(USUAL))], WEEK_AGO, NOW, [("2", "refused")])
    assert [(one.broker, one.problem, one.is_broker) for one in evidence.brokers] == [
        ("1", "", True),
        ("2", "refused", False),
    ]


def test_the_release_of_a_broker_is_at_least_what_it_answers() -> None:
    """The versions that it answered, also to other nodes; without any, 2.0, which has the metric first."""
    real = evidence_of([read((PAGES / "3.9.2-norules-1.0.1.txt").read_bytes())], WEEK_AGO, NOW).requests
    assert oldest_release(frozenset((one.api, one.version) for one in real)) == "3.1"
    assert oldest_release(frozenset()) == "2.0"
