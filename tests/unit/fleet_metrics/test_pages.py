"""From the text of pages to evidence: what is damaged, two exporters on one broker, and what a page covers."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_pages import NOW, OLD, PAGES, REQUESTS, SOFTWARE, STARTED, USUAL, page, read

from featuregate.catalog import captured
from featuregate_fleet.metrics import pages
from featuregate_fleet.metrics.evidence import MetricsEvidence, oldest_release
from featuregate_fleet.metrics.pages import MOST_SAMPLES, Page
from featuregate_fleet.metrics.spellings import Requests
from featuregate_fleet.metrics.targets import evidence_of
from featuregate_fleet.metrics.verdicts import judge
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.rows import Verdict

WEEK_AGO = NOW - timedelta(days=7)
FETCH = Requests("Fetch", 3)


def line(api: str, value: str = "1.0") -> str:
    return f'{REQUESTS}{{request="{api}",version="3"}} {value}'


def evidence(*found: Page) -> MetricsEvidence:
    return evidence_of(found, WEEK_AGO, NOW)


def counts(*texts: bytes) -> dict[tuple[str, str, int], int]:
    found = evidence(*(read(text, str(number)) for number, text in enumerate(texts)))
    return {(one.broker, one.api, one.version): one.count for one in found.requests}


# ---------------------------------------------------------------- text


def test_a_damaged_line_stops_nothing_but_itself() -> None:
    for text, found, unread in (
        (f"{line('Fetch')}\n{REQUESTS}{{request=\n{line('Produce')}\n", [FETCH, Requests("Produce", 3)], 1),
        (f"{REQUESTS} x\n{line('Fetch')}\n", [FETCH], 1),
        (f'{REQUESTS}{{a="b",\r="Fetch",version="3"}} 7.0\n', [], 1),  # the parser raises an IndexError
        (line(r"a\"b\\c\nd") + "\n", [Requests('a"b\\c\nd', 3)], 0),
        (f"kafka_log_size{{topic= 1\njvm_x NaN\n# HELP x\n{line('Fetch')}\n", [FETCH], 0),
        (f"{line('x' * 1_000_000)}\n{line('Fetch')}\n", [FETCH], 1),
        (f"{line('Fetch')}\njvm_x", [FETCH], 1),  # whatever a cut line is about: what came after it is not known
        (f"{line('Fetch')}\r\n", [FETCH], 0),
        (f" \t{line('Fetch')}\n", [FETCH], 0),
        (f"# TYPE {REQUESTS} counter\n{line('Fetch')} 1795945313000\n", [FETCH], 0),
        *((f"{line('Fetch')} {no_time}\n", [], 1) for no_time in ("1e300", "1764000000000000000", "NaN")),
        ("\xff\xfe\x00k\x00a\n", [], 0),
        (f"\xef\xbb\xbf{line('Fetch')}\n", [FETCH], 0),
        ("", [], 1),
        *((f"{line('Fetch', value)}\n", [], 1) for value in ("NaN", "+Inf", "-1.0", "1e300", "0.007", f"{2**53}")),
    ):
        one = read(text.encode("latin-1"))
        assert (list(one.values), one.unread) == (found, unread), text[:100]


def test_a_page_over_a_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="more than 50000 samples"):
        read("\n".join(line(f"a{number}") for number in range(MOST_SAMPLES + 1)).encode())
    monkeypatch.setattr(pages, "MOST_PAGE_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        read(b"#" * 101)


NAMES = st.sampled_from(
    [REQUESTS, "kafka_network_requestmetrics_deprecatedrequests_total", "kafka_network_RequestMetrics_Count", SOFTWARE]
)
LABELS = st.sampled_from(
    ["request", "version", "name", "clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor"]
)
TEXTS = st.one_of(st.text(), st.sampled_from(["Fetch", "3", "-1", "99999", "RequestsPerSec", "Fetch, version=3", "="]))
LINES = st.builds(
    lambda name, labels, value: (
        f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels.items())}}} {value}"
    ),
    NAMES,
    st.dictionaries(LABELS, TEXTS),
    st.one_of(st.floats(), st.text()),
)


@given(st.lists(st.one_of(LINES, st.text()), max_size=8), st.binary(max_size=50))
def test_invariant_18_no_page_raises(lines: list[str], noise: bytes) -> None:
    """Whatever is in it: what is read is judged, and all else is counted."""
    page_of_anybody = "\n".join(lines).encode(errors="replace") + noise
    found = evidence_of([read(page_of_anybody)], NOW, NOW)
    assert judge(found, ReleaseApis(captured()["4.2"]), {}, 1).verdict is not Verdict.OK


# ---------------------------------------------------------------- evidence


def test_a_counter_counts_since_the_start_of_its_broker() -> None:
    """No sample before is needed: the value is what was answered since."""
    found = evidence(read(page(OLD))).requests
    assert [(one.api, one.version, one.count, one.after, one.until) for one in found] == [("Fetch", 3, 7, STARTED, NOW)]


def test_a_fetch_is_counted_once_and_those_of_followers_not_at_all() -> None:
    """A broker counts each as Fetch, and again as a part of it."""
    assert counts(page(USUAL | {("FetchFollower", 16): 5}))["0", "Fetch", 16] == 4
    assert counts(page({("Fetch", 17): 5, ("FetchFollower", 17): 5})) == {("0", "FetchFollower", 17): 5}
    of_followers = {("Fetch", 3): 9, ("FetchFollower", 3): 5}
    assert counts(page(of_followers)) == {("0", "Fetch", 3): 4, ("0", "FetchFollower", 3): 5}
    assert counts(page({("Fetch", 3): 5})) == {("0", "Fetch", 3): 5}
    assert counts(page({("FetchConsumer", 3): 5})) == {("0", "Fetch", 3): 5}


def test_two_exporters_on_one_broker_are_one_broker() -> None:
    """They show one start, to the millisecond, or the operator gives them one name; its requests count once."""
    assert counts(page(OLD), page(OLD | {("Produce", 1): 2})) == {("0", "Fetch", 3): 7, ("0", "Produce", 1): 2}
    java = f"java_lang_runtime_starttime {STARTED.timestamp() * 1000}"
    assert counts(page(OLD), page(OLD, started=None, more=java)) == {("0", "Fetch", 3): 7}
    app = f"kafka_server_app_info_starttimems {STARTED.timestamp() * 1000 + 4000}"
    exporters = [page(OLD, started=None, more=more) for more in (java, app, f"{java}\n{app}")]
    assert counts(*exporters) == {("0", "Fetch", 3): 7}
    other = page(OLD, started=STARTED + timedelta(milliseconds=1))
    assert len(evidence(read(page(OLD)), read(other, "2")).brokers) == 2
    for same in (
        [read(page(OLD, started=None)), read(page(OLD, started=None))],
        [read(page(OLD)), read(page(OLD), "2"), read(other, "2")],
    ):
        assert [one.count for one in evidence(*same).requests] == [7]


def test_a_broker_is_called_by_the_id_that_its_metrics_have() -> None:
    """Where the operator gives it no name."""
    text = page(OLD, more='kafka_server_app_info_StartTimeMs{id="12"} 1.79594531671E12')
    for is_named, name in ((False, "12"), (True, "b1:9404")):
        assert evidence(read(text, "b1:9404", is_named=is_named)).brokers[0].broker == name


def test_a_page_is_as_old_as_its_newest_sample() -> None:
    """A copy, or a federation, gives each sample the time at which it was read."""
    earlier = NOW - timedelta(days=2)
    stamps = [int((earlier - timedelta(hours=hours)).timestamp() * 1000) for hours in (0, 5)]
    for first, second, at in (
        (*stamps, earlier),
        (stamps[0], "", NOW),
        (-(2**63), -(2**63), datetime.fromtimestamp(0, UTC)),
    ):
        assert read(f"{line('Fetch')} {first}\n{line('Produce')} {second}\n".encode()).at == at


def test_a_page_covers_the_time_since_the_start() -> None:
    """All hours, if the broker runs for longer than was asked; otherwise fewer, and never all."""
    for started, at, hours in (
        (STARTED, NOW, 168),
        (NOW - timedelta(hours=5), NOW, 5),
        (WEEK_AGO + timedelta(minutes=20), NOW, 167),
        (STARTED, NOW - timedelta(minutes=59), 167),
        (STARTED, NOW - timedelta(days=2), 120),
        (STARTED, NOW - timedelta(days=9), 0),
        (None, NOW, 0),
    ):
        broker = evidence(read(page(USUAL, started=started), at=at)).brokers[0]
        assert (broker.hours, broker.of_hours, broker.started) == (hours, 168, started)


@pytest.mark.parametrize("minutes", [2, 40])
@pytest.mark.parametrize(("at", "started"), [(NOW - timedelta(days=1), 30), (NOW, 0)])
def test_an_hour_that_has_begun_alone_is_covered_as_any_other(minutes: int, at: datetime, started: int) -> None:
    """Neither an old page says anything of it, nor one of a broker that has started since."""
    one = read(page(started=NOW - timedelta(days=started)), at=at)
    broker = evidence_of([one], NOW - timedelta(minutes=minutes), NOW).brokers[0]
    assert (len(broker.holes), broker.of_hours) == (1, 0)


def test_a_page_of_which_the_exporter_could_not_read_all_is_no_ok() -> None:
    """jmx_exporter shows what it has read up to its failure, and says so in a metric."""
    for value, problem in (("0.0", ""), ("1.0", "their exporter could not read all of them, as jmx_scrape_error says")):
        assert evidence(read(page(USUAL, more=f"jmx_scrape_error {value}"))).brokers[0].problem == problem


def test_the_best_source_of_a_start_is_the_broker_itself() -> None:
    """An exporter may run beside the broker, and have started at another time; no broker is older than Kafka."""
    process, java = "process_start_time_seconds 1700000003\n", "java_lang_runtime_starttime 1700000002000\n"
    app = "kafka_server_app_info_starttimems 1700000001000\n"
    for text, started in (
        (process + java, "2023-11-14 22:13:22+00:00"),
        (process + java + app, "2023-11-14 22:13:21+00:00"),
        *((f"process_start_time_seconds {value}\n", "None") for value in ("1e300", "0.0", "1.79")),
    ):
        assert str(read(text.encode()).started) == started


def test_a_controller_and_a_broker_with_a_few_metrics_are_not_taken_for_a_broker() -> None:
    """A controller answers no Metadata; rules that name a few APIs hide the others."""
    for requests, is_broker in (
        (USUAL, True),
        ({("Fetch", 17): 3, ("FetchFollower", 17): 3, ("BrokerHeartbeat", 1): 9}, False),
        ({("Metadata", 12): 1, ("Produce", 9): 1, ("Fetch", 16): 3, ("FetchConsumer", 16): 3}, False),
    ):
        assert evidence(read(page(requests))).brokers[0].is_broker is is_broker


def test_the_connections_of_all_network_threads_are_added_up() -> None:
    """And a thread with as many pairs as it counts may hide others."""
    software = 'kafka_server_socketservermetrics_connections{{client_software_name="{}",client_software_version="1",\
listener="CLIENT",network_processor="{}"}} 2'
    few = evidence(read(page(USUAL, more="\n".join(software.format("a", thread) for thread in "01"))))
    assert [(one.name, one.connections) for one in few.software] == [("a", 4)]
    assert few.brokers[0].full_listeners == ()
    many = page(USUAL, more="\n".join(software.format(f"a{number}", 0) for number in range(100)))
    assert evidence(read(many)).brokers[0].full_listeners == ("CLIENT",)


def test_the_release_of_a_broker_is_at_least_what_it_answers() -> None:
    """The versions that it answered, also to other nodes; without any, 2.0, which has the metric first."""
    real = evidence(read((PAGES / "3.9.2-norules-1.0.1.txt").read_bytes())).requests
    assert oldest_release(frozenset((one.api, one.version) for one in real)) == "3.1"
    assert oldest_release(frozenset()) == "2.0"
