"""What a batch keeps of metrics, as rows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kept_metrics import REQUESTS, Kept, read_history, serving

from featuregate_fleet.metrics.evidence import BrokerCoverage, MetricsEvidence
from featuregate_fleet.metrics.spellings import Connected, Deprecated, Requests, Started
from featuregate_fleet.metrics.verdicts import decides
from featuregate_fleet.runs.kept_metrics import kept_rows
from featuregate_fleet.tables.metrics_reader import _coverage

UNTIL = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def slice_of(kept: Kept, begin: int, end: int) -> MetricsEvidence:
    with serving(kept) as (url, _):
        return read_history(url, UNTIL - begin * HOUR, UNTIL - end * HOUR, decides)


def test_slices_add_up_to_what_one_question_says() -> None:
    """Five of a counter that is born, two before and two after a restart at the edge of a slice, and no more."""
    kept = Kept(UNTIL.timestamp(), hours=48)
    restart = kept.ago(12) + 20
    times = kept.broker(restarts=(restart,))
    kept.add(REQUESTS, {at: 5 for at in times if kept.ago(20) < at < restart}, request="Produce", version="1")
    kept.add(REQUESTS, {at: 2 for at in times if kept.ago(14) < at < restart}, request="Fetch", version="1")
    kept.add(REQUESTS, {at: 2 for at in times if at > restart}, request="Fetch", version="1")
    slices = [slice_of(kept, begin, begin - 12) for begin in (36, 24, 12)]
    rows = [row for one in slices for row in kept_rows(one, {"7": "b1"})["requests"]]
    old = [row for row in rows if row["version"] == 1]
    assert sum(row["count"] for row in old if row["api"] == "Produce") == 5
    assert sum(row["count"] for row in old if row["api"] == "Fetch") == 4
    assert {row["broker"] for row in rows} == {"7"}
    hours = [row["hour"] for one in slices for row in kept_rows(one, {})["hour"]]
    assert sorted(hours) == [UNTIL - n * HOUR for n in range(36, 0, -1)]
    assert sum(one.brokers[0].restarts for one in slices) <= 1


def test_each_hour_of_what_may_decide_some_day_is_kept() -> None:
    """Versions that some release does not serve, names that no catalog has, and all software."""
    assert decides(Requests("Fetch", 3))
    assert decides(Deprecated("Produce", 2, "librdkafka", "1.9.2"))
    assert decides(Requests("NeverHeard", 9))
    assert decides(Connected("librdkafka", "2.16.0", "CLIENT", "0"))
    assert not decides(Requests("Fetch", 16))
    assert not decides(Requests("AddPartitionsToTxnVerification", 4))
    assert not decides(Started("javalangruntimestarttime", ""))


def test_a_target_that_no_single_broker_may_be_keeps_its_name() -> None:
    """Two targets at one host are not told apart; nor is one of another cluster."""
    one = BrokerCoverage(broker="b1:9404", hosts=("b1",), started=UNTIL - HOUR, hours=1, of_hours=1)
    others = (replace(one, broker="b1:9405"), replace(one, broker="x:9404", hosts=("x",)))
    of_two = replace(one, broker="b2:9404", hosts=("b2",), converted=(("fetch", "a:b"),))
    found = MetricsEvidence(since=UNTIL - HOUR, until=UNTIL, brokers=(one, *others, of_two))
    rows = kept_rows(found, {"1": "b1", "2": "b2"})
    assert [row["broker"] for row in rows["target"]] == ["b1:9404", "b1:9405", "x:9404", "2"]
    assert rows["target"][-1]["converted"] == ["fetch:a:b"]


def test_hours_of_a_broker_whose_start_is_not_known_are_not_covered() -> None:
    """A restart may hide requests; and nothing is believed of a target with a problem."""
    one = BrokerCoverage(broker="1", started=None, hours=2, of_hours=2)
    for each in (one, replace(one, started=UNTIL, problem="mixed")):
        assert kept_rows(MetricsEvidence(since=UNTIL - 2 * HOUR, until=UNTIL, brokers=(each,)), {})["hour"] == []


def test_a_broker_of_which_no_batch_had_requests_has_software_where_its_batches_had() -> None:
    """A batch without requests does not count beside one with them: the broker was not asked anything in it."""
    both = BrokerCoverage(broker="1")
    none, software = replace(both, has_requests=False, has_software=False), replace(both, has_requests=False)
    for batches, has_software in (([none], False), ([software], True), ([none, both], True)):
        found = [MetricsEvidence(since=UNTIL - HOUR, until=UNTIL, brokers=(one,)) for one in batches]
        rows = [row for one in found for row in kept_rows(one, {})["target"]]
        assert _coverage("1", rows, set(), set()).has_software is has_software
