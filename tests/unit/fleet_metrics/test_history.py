"""From what a Prometheus has kept to a verdict: restarts, holes, and counters that live shortly."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from kept_metrics import DEPRECATED, REQUESTS, SOFTWARE, START, Kept, read_history, serving

from featuregate.catalog import captured
from featuregate_fleet.metrics.evidence import MetricsEvidence
from featuregate_fleet.metrics.listeners import BrokerListener
from featuregate_fleet.metrics.verdicts import MetricsReport, decides, judge
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.rows import Row, Verdict

UNTIL = datetime(2026, 11, 29, 12, 20, tzinfo=UTC)
APIS = ReleaseApis(captured()["4.2"])
SCRAM = {"CLIENT": BrokerListener(mechanisms=frozenset({"SCRAM-SHA-256"}))}


@pytest.fixture
def kept() -> Kept:
    return Kept(UNTIL.timestamp(), hours=48)


def evidence(kept: Kept, hours: int = 24, *conditions: str) -> MetricsEvidence:
    with serving(kept) as (url, _):
        return read_history(url, UNTIL - timedelta(hours=hours), UNTIL, lambda one: decides(one, APIS), *conditions)


def judged(kept: Kept, brokers: int = 1, hours: int = 24) -> MetricsReport:
    return judge(evidence(kept, hours), APIS, SCRAM, brokers)


def blocking(report: MetricsReport) -> list[Row]:
    return [row for row in report.rows if row.verdict is Verdict.BLOCK]


def from_on(kept: Kept, hours_ago: float, value: float) -> dict[float, float]:
    return {at: value for at in kept.times if at > kept.ago(hours_ago)}


def drop(kept: Kept, name: str) -> None:
    kept.series = {key: values for key, values in kept.series.items() if dict(key)["__name__"] != name}


def test_a_day_without_a_finding_is_ok(kept: Kept) -> None:
    """All hours are covered, the broker ran all the time, and its software is known."""
    kept.broker()
    report = judged(kept)
    assert {row.verdict for row in report.rows} == {Verdict.OK}, report.rows
    (broker,) = evidence(kept).brokers
    assert (broker.broker, broker.hours, broker.of_hours, broker.restarts) == ("b1:9404", 24, 24, 0)
    assert broker.interval == pytest.approx(60, rel=0.05)


@pytest.mark.parametrize(("first", "last"), [(0.2, 0.0), (24.0, 3.0), (9.0, 7.0)], ids=["now", "once", "not at night"])
def test_software_is_known_for_each_hour_or_not_at_all(kept: Kept, first: float, last: float) -> None:
    """An exporter that was told to show it today says nothing of the clients of yesterday."""
    kept.broker()
    (key,) = (key for key in kept.series if dict(key)["__name__"] == SOFTWARE)
    kept.series[key] = [
        one
        for one in kept.series[key]
        if (kept.ago(first) < one[0] <= kept.ago(last)) is not (last == 7)  # a hole
    ]
    report = judged(kept)
    assert (report.verdict, evidence(kept).brokers[0].has_software) == (Verdict.UNKNOWN, False)
    assert [row.subject for row in report.rows if row.verdict is Verdict.UNKNOWN] == ["software of broker b1:9404"]


@pytest.mark.parametrize(
    ("first", "last", "verdict"), [(24, 0, "unknown"), (5.5, 5.4, "unknown"), (5.5, 5.49, "ok"), (99, 98, "ok")]
)
def test_samples_that_are_not_whole_are_a_hole(kept: Kept, first: float, last: float, verdict: str) -> None:
    """jmx_exporter shows what it has read up to its failure, and says so in a metric; two samples may be missing."""
    times = kept.broker()
    failed = {at: float(kept.ago(first) < at <= kept.ago(last)) for at in times}
    kept.add("jmx_scrape_error", failed)
    kept.add("jmx_scrape_error", failed, "zookeeper:9404")
    report = judged(kept)
    assert report.verdict == verdict, report.rows
    assert {row.check for row in report.rows if row.verdict is Verdict.UNKNOWN} <= {"coverage"}


def test_a_series_of_one_sample_blocks(kept: Kept) -> None:
    """Somebody removed the target after it, and named who it was."""
    at = kept.broker()[-700]
    kept.add(REQUESTS, {at: 1}, request="Fetch", version="3")
    kept.add(REQUESTS, {at: 1}, request="FetchConsumer", version="3")
    label = {"request_Fetch_version_3_clientSoftwareName": "librdkafka", "clientSoftwareVersion": "1.9.2"}
    kept.add(DEPRECATED, {at: 1}, **label)
    (row,) = blocking(judged(kept))
    assert (row.subject, row.count) == ("librdkafka 1.9.2", 1)
    assert (row.first_seen, row.last_seen) == tuple(datetime(2026, 11, 29, hour, tzinfo=UTC) for hour in (0, 1))


def test_a_restart_counts_both_lives_though_no_value_drops(kept: Kept) -> None:
    """Two before, two after: four; the hour of the restart is asked for by all of its samples."""
    restart = kept.ago(6.5) + 30
    times = kept.broker(restarts=(restart,))
    kept.add(REQUESTS, {at: 2 for at in times if at < restart and at > kept.ago(8)}, request="Fetch", version="1")
    kept.add(REQUESTS, {at: 2 for at in times if at > restart}, request="Fetch", version="1")
    report = judged(kept)
    (row,) = blocking(report)
    assert row.count == 4
    assert report.blind_spots[-1].startswith("of these there were 1 in this time: up to 6")
    assert evidence(kept).brokers[0].hours == 24


def test_calls_of_before_do_not_block(kept: Kept) -> None:
    """The client was upgraded 30 hours ago; for a longer time it blocks."""
    kept.broker()
    kept.add(REQUESTS, from_on(kept, 40, 7), request="Fetch", version="3")
    assert judged(kept).verdict is Verdict.OK
    assert [row.count for row in blocking(judged(kept, hours=44))] == [7]


@pytest.mark.parametrize(
    ("value", "restarts", "counts"),
    [(7, (), []), (9, (), [2]), (7, (24.5,), [7])],
    ids=["nothing since", "two more since", "a broker that restarted"],
)
def test_what_a_counter_had_reached_before_a_hole_is_not_new(
    kept: Kept, value: float, restarts: tuple[float, ...], counts: list[int]
) -> None:
    """The time may begin in it: runs that keep metrics read hour by hour, and would count each call once more."""
    hole = kept.ago(25.5), kept.ago(23.5)
    times = kept.broker(missing=[hole], restarts=tuple(map(kept.ago, restarts)))
    for api in ("Fetch", "FetchConsumer"):
        kept.add(REQUESTS, {at: value if at > hole[1] else 7 for at in times}, request=api, version="3")
    assert [row.count for row in blocking(judged(kept))] == counts


def test_the_first_sample_of_a_server_blocks_as_a_page_does(kept: Kept) -> None:
    """It counts since the broker was started, which the row says."""
    kept.broker()
    kept.add(REQUESTS, dict.fromkeys(kept.times, 7), request="Fetch", version="3")
    (row,) = blocking(judged(kept, hours=48))
    assert (row.count, row.first_seen) == (7, UNTIL - timedelta(days=90))


AT = UNTIL.timestamp() - 5 * 3600


@pytest.mark.parametrize(
    ("missing", "restarts", "hours"),
    [
        ((AT, AT + 60), (), 24),
        ((AT, AT + 600), (), 23),
        ((AT, AT + 5400), (), 22),
        ((AT, AT + 100), (AT + 90,), 24),
        ((AT, AT + 400), (AT + 390,), 23),
    ],
    ids=["a sample", "ten minutes", "ninety minutes", "a restart", "a broker that was away"],
)
def test_an_hour_with_a_gap_of_more_than_two_intervals_is_not_covered(
    kept: Kept, missing: tuple[float, float], restarts: tuple[float, ...], hours: int
) -> None:
    """A restart leaves one from the last sample to the start: nobody knows when the broker ended."""
    kept.broker(missing=[missing], restarts=restarts)
    (broker,) = evidence(kept).brokers
    assert broker.hours == hours
    assert judged(kept).verdict is (Verdict.OK if hours == 24 else Verdict.UNKNOWN)


def test_a_target_that_is_gone_since_the_last_hour_is_no_ok(kept: Kept) -> None:
    kept.broker(missing=[(kept.ago(0.3), kept.until)])
    (broker,) = evidence(kept).brokers
    assert (broker.hours, broker.holes) == (23, (datetime(2026, 11, 29, 12, tzinfo=UTC),))
    assert judged(kept).verdict is Verdict.UNKNOWN


def test_a_time_that_was_not_kept_is_not_covered(kept: Kept) -> None:
    kept.broker()
    (broker,) = evidence(kept, 168).brokers
    assert (broker.of_hours, broker.hours) == (168, 47)
    assert broker.holes[0] == datetime(2026, 11, 22, 12, tzinfo=UTC)


def test_several_exporters_on_one_broker_are_one_broker(kept: Kept) -> None:
    """They show one start; or two show other starts of it, and the third one both."""
    for instance in ("b1:1", "b1:2", "b1:3"):
        kept.broker(instance)
        kept.add(REQUESTS, from_on(kept, 5, 4), instance, request="Produce", version="0")
    assert ([row.count for row in blocking(judged(kept))], len(evidence(kept).brokers)) == ([4], 1)
    java, app, started = "java_lang_runtime_starttime", "kafka_server_app_info_starttimems", kept.ago(2160) * 1000
    drop(kept, START)
    for instance, name in (("b1:1", java), ("b1:2", app), ("b1:3", java), ("b1:3", app)):
        kept.add(name, dict.fromkeys(kept.times, started + 4000 * (name == app)), instance)
    assert len(evidence(kept).brokers) == 1


def test_a_pod_that_started_again_with_another_address_is_one_broker(kept: Kept) -> None:
    restart = kept.ago(6.5)
    for instance, missing in (("10.0.0.1:9404", (restart - 20, kept.until)), ("10.0.0.2:9404", (0.0, restart))):
        times = kept.broker(instance, restarts=(restart,), missing=[missing], pod="kafka-0", namespace="kafka")
        old = {at: 2 for at in times if at > kept.ago(8)}
        kept.add(REQUESTS, old, instance, request="Fetch", version="1", pod="kafka-0", namespace="kafka")
    (broker,) = evidence(kept).brokers
    assert (broker.hours, broker.restarts) == (24, 1)
    assert "kafka-0" in broker.hosts
    assert [row.count for row in blocking(judged(kept))] == [4]


def test_a_restart_counts_where_another_start_was_kept_of_late(kept: Kept) -> None:
    """A second exporter came with it, and shows the start of Kafka as well as that of the process."""
    restart = kept.ago(6.5)
    kept.broker("b1:1", restarts=(restart,))
    kept.broker("b1:2", restarts=(restart,), missing=[(0.0, restart)])
    of_kafka = {at: (restart + 4) * 1000 for at in kept.times if at > restart}
    kept.add("kafka_server_app_info_starttimems", of_kafka, "b1:2")
    (broker,) = evidence(kept).brokers
    assert broker.restarts == 1


@pytest.mark.parametrize(("seconds", "count"), [(-1800, 0), (30, 1)])
def test_a_restart_between_the_last_sample_before_and_the_first_one_counts(
    kept: Kept, seconds: float, count: int
) -> None:
    """Runs that keep metrics read day by day, and brokers may restart at midnight. One of before is not of the time."""
    kept.broker(restarts=(UNTIL.replace(minute=0).timestamp() - 24 * 3600 + seconds,))
    assert evidence(kept).brokers[0].restarts == count


def test_a_controller_is_covered_and_is_not_taken_for_a_broker(kept: Kept) -> None:
    kept.broker()
    kept.controller()
    found = evidence(kept).brokers
    assert [(one.broker, one.hours, one.is_broker) for one in found] == [("b1:9404", 24, True), ("c1:9404", 24, False)]
    assert judged(kept).verdict is Verdict.OK
    assert judged(kept, brokers=2).verdict is Verdict.UNKNOWN


def test_a_target_that_was_gone_before_is_left_out(kept: Kept) -> None:
    """VictoriaMetrics lists the series of whole days."""
    kept.broker()
    kept.broker("gone:9404", missing=[(kept.ago(24.5), kept.until)], days=80)
    with serving(kept) as (url, server):
        every = server.answer
        server.answer = lambda path, form: every(path, {**form, "start": "0"} if path == "series" else form)  # type: ignore[method-assign]
        found = read_history(url, UNTIL - timedelta(hours=24), UNTIL, lambda one: decides(one, APIS))
    assert [one.broker for one in found.brokers] == ["b1:9404"]


def test_a_hole_in_each_hour_is_seen(kept: Kept) -> None:
    """No hour has more samples than the others; those of one hour say how often there is one."""
    hours = range(int(kept.ago(48) // 3600) * 3600, int(kept.until), 3600)
    kept.broker(missing=[(hour, hour + 1500) for hour in hours])
    (broker,) = evidence(kept).brokers
    assert (broker.hours, broker.interval) == (0, pytest.approx(60))


def test_a_reference_that_began_of_late_hides_no_hour(kept: Kept) -> None:
    """Clients were upgraded two hours ago: the fullest hour has an older version of Metadata alone."""
    kept.broker()
    older, kept.series = kept.series, {}
    kept.add(REQUESTS, from_on(kept, 2, 5), request="Metadata", version="13")
    kept.series |= older
    assert evidence(kept).brokers[0].hours == 24


def test_two_clusters_under_one_name_are_unknown(kept: Kept) -> None:
    """Where only a label of the server tells them apart, one covers the holes of the other, and hides its counters."""
    kept.broker(cluster="a", missing=[(kept.ago(20), kept.ago(10))])
    kept.broker(cluster="b", days=80)
    for api in ("Fetch", "FetchConsumer"):
        kept.add(REQUESTS, from_on(kept, 5, 5), request=api, version="3", cluster="a")
        kept.add(REQUESTS, dict.fromkeys(kept.times, 100), request=api, version="3", cluster="b")
    report = judged(kept)
    assert report.verdict is Verdict.UNKNOWN
    assert any("choose one by --match" in row.why for row in report.rows)
    assert judge(evidence(kept, 24, 'cluster="a"'), APIS, SCRAM, 1).verdict is Verdict.BLOCK


def test_a_start_that_is_kept_of_late_makes_no_old_call_new(kept: Kept) -> None:
    """Rules were changed six hours ago: the counters did not begin again."""
    kept.broker()
    only_of_late(kept)
    for api in ("Fetch", "FetchConsumer"):
        kept.add(REQUESTS, dict.fromkeys(kept.times, 7), request=api, version="3")
    assert judged(kept).verdict is Verdict.OK


def test_a_restart_may_be_hidden_before_the_first_start_that_was_kept(kept: Kept) -> None:
    kept.broker(restarts=(kept.ago(12),))
    only_of_late(kept)
    assert evidence(kept).brokers[0].hours == 11
    assert judged(kept).verdict is Verdict.UNKNOWN


def only_of_late(kept: Kept) -> None:
    for key, values in kept.series.items():
        if dict(key)["__name__"] == START:
            values[:] = [one for one in values if one[0] > kept.ago(6)]


@pytest.mark.parametrize("value", [math.nan, -1, 0.007])
def test_a_counter_that_is_not_a_number_of_requests_is_unknown(kept: Kept, value: float) -> None:
    """It may have counted; rules can scale a value."""
    kept.broker()
    kept.add(REQUESTS, dict.fromkeys(kept.times, value), request="Produce", version="1")
    assert (judged(kept).verdict, evidence(kept).brokers[0].unread) == (Verdict.UNKNOWN, 1)


def test_a_broker_without_a_start_is_unknown_and_its_drops_still_count(kept: Kept) -> None:
    kept.broker()
    drop(kept, START)
    half = kept.ago(6.5)
    values = {at: 3 if at < half else 1 for at in kept.times if at > kept.ago(8)}
    kept.add(REQUESTS, values, request="Fetch", version="1")
    report = judged(kept)
    assert [row.count for row in blocking(report)] == [4]
    assert "No metric says when it started, so that a restart may hide requests." in {row.why for row in report.rows}


def test_software_that_breaks_is_found_by_hour(kept: Kept) -> None:
    """It was connected for an hour; a series that stayed at 0 is of before, and one that came and went is unknown."""
    old = ("confluent-kafka-python", "2.4.0-rdkafka-2.4.0")
    for change, verdict in (
        ({at: 2.0 if kept.ago(7) < at < kept.ago(6) else 0.0 for at in kept.times}, Verdict.BLOCK),
        (dict.fromkeys(kept.times, 0.0), Verdict.OK),
        (from_on(kept, 5, 0.0), Verdict.UNKNOWN),
    ):
        one = Kept(kept.until, kept.hours)
        one.broker()
        one.software(*old, change)
        assert judged(one).verdict is verdict


@pytest.mark.parametrize("value", [1e300, -1.0, 0.0])
def test_a_start_that_is_none_is_not_known(kept: Kept, value: float) -> None:
    """A server, or the rules of an exporter, may say any number."""
    kept.broker()
    for key, values in kept.series.items():
        if dict(key)["__name__"] == START:
            values[:] = [(at, value) for at, _ in values]
    kept.add(REQUESTS, from_on(kept, 5, 5), request="Produce", version="1")
    assert [row.count for row in blocking(judged(kept))] == [5]
    assert evidence(kept).brokers[0].started is None


def test_no_function_that_extrapolates_is_asked(kept: Kept) -> None:
    """Only the lowest, the highest and the number of real samples, and samples themselves."""
    kept.broker(restarts=(kept.ago(6.5),))
    kept.add(REQUESTS, from_on(kept, 5, 5), request="Produce", version="1")
    with serving(kept) as (url, server):
        read_history(url, UNTIL - timedelta(hours=24), UNTIL, lambda one: decides(one, APIS))
    assert len(server.queries) < 30
    assert not any(word in query for query in server.queries for word in ("increase", "rate(", "delta", "resets"))
