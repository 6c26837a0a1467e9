"""The timeline of a cluster: what it says, and that it survives restarts, damaged files and full disks."""

import json
import logging
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from builders import broker, view
from waiting import BOUND

from featuregate import View, files
from featuregate.gating.events import Polled, PollFailed
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.clusters import PolledCluster, ServedCluster
from featuregate_relay.timeline.changes import Moment
from featuregate_relay.timeline.entries import (
    LONGEST_CHANGE,
    MOST_ENTRIES,
    History,
    history_from_json,
    history_to_json,
)
from featuregate_relay.timeline.timeline import _MOST_BYTES, Timeline

OLD = release_view("3.9").finalized


def texts(timeline: Timeline) -> list[str]:
    return [entry.change.text for entry in timeline.entries]


def followed(*views: View, file: Path | None = None) -> Timeline:
    """Return the timeline of a relay that saw these views."""
    timeline = Timeline(file)
    for each in views:
        timeline.follow(each, ())
    return timeline


def test_a_roll_is_told_with_releases_and_levels() -> None:
    """Brokers of which the same is true are told together, also where a broker was away between two releases."""
    timeline = followed(
        release_view("3.9", "3.9", "3.9"),
        release_view("4.1", "3.9", "3.9", silent=[1]),
        release_view("4.1", "3.9", "3.9"),
        release_view("4.1", "4.1", "4.1", finalized=OLD),
        release_view("4.1", "4.1", "4.1", finalized={"metadata.version": 27, "group.version": 1}, epoch=120),
    )
    assert texts(timeline) == [
        "cluster static: brokers 1-3: release 3.9",
        "no answer: broker 1",
        "broker 1: release 4.1 (was 3.9)",
        "brokers 2-3: release 4.1 (was 3.9)",
        "group.version is finalized at 1 (was 0)",
        "metadata.version is finalized at 4.1-IV1 (was 3.9-IV0)",
    ]
    assert timeline.entries[-1].epoch == 120


def test_an_epoch_that_merely_moved_is_no_entry() -> None:
    """The epoch of KRaft moves all the time."""
    timeline = followed(release_view("4.2", epoch=5), release_view("4.2", epoch=6))
    assert len(timeline.entries) == 1


def test_brokers_come_and_go_and_answer_again() -> None:
    """One that is away and comes back with its release is told so."""
    timeline = followed(
        release_view("4.2", "4.2"),
        release_view("4.2", "4.2", silent=[2]),
        release_view("4.2", "4.2"),
        release_view("4.2", "4.2", "4.2"),
        release_view("4.2", "4.2"),
    )
    newest = texts(timeline)[0].partition(": brokers 1-2: ")[2]
    assert texts(timeline)[1:] == [
        "no answer: broker 2",
        "answers again: broker 2",
        f"new: broker 3, {newest}",
        "gone: broker 3",
    ]


def test_another_cluster_begins_anew() -> None:
    """The other cluster has other brokers."""
    timeline = followed(view(broker(1), cluster_id="a"), view(broker(2), cluster_id="b"))
    assert texts(timeline)[1].startswith("another cluster (was a): cluster b: broker 2")


def test_an_outage_is_told_once_with_its_end() -> None:
    """Gates that move meanwhile do not end it."""
    timeline, same = followed(release_view("4.2")), release_view("4.2")
    failed = PollFailed(error="gone", failures=1, seconds=0.0)
    for event in (failed, failed, None, Polled(cluster_id="static", epoch=1, seconds=0.0, answered=1, known=1)):
        timeline.follow(same, (), event)
    assert texts(timeline)[1:] == ["no broker answers", "brokers answer again"]


def test_a_relay_follows_its_discoverer_and_its_gates() -> None:
    """Each event of the discoverer may add an entry."""
    features = StaticFeatures(release_view("3.9"))
    gate = features.gate("heartbeats", "ConsumerGroupHeartbeat>=1", policy="live")
    cluster = ServedCluster("orders", PolledCluster(features, (gate,)))
    end = cluster.follow()
    features.show(release_view("4.2"))
    features.show(release_view("3.9"))
    end()
    features.show(release_view("4.2"))
    told = [text for text in texts(cluster.timeline) if "gate" in text]
    assert told == ["gate heartbeats is open", "gate heartbeats is closed"]


def test_the_timeline_survives_a_restart(tmp_path: Path) -> None:
    """What changed while the relay was down is told with its next poll."""
    file = tmp_path / "latches" / "orders.timeline"
    first = followed(release_view("3.9", "3.9"), file=file)
    second = Timeline(file)
    assert second.entries == first.entries
    second.follow(release_view("3.9", "3.9"), ())
    assert second.entries == first.entries
    second.follow(release_view("3.9", "4.1"), ())
    assert texts(second)[-1] == "broker 2: release 4.1 (was 3.9)"
    assert {path.name for path in file.parent.iterdir()} - {"orders.lock"} == {"orders.timeline"}


def test_replicas_that_share_a_file_tell_a_change_once(tmp_path: Path) -> None:
    """Any of them may see it first. Each has the entries of the others as soon as it sees a change itself."""
    file = tmp_path / "orders.timeline"
    first, second = Timeline(file), Timeline(file)
    for releases in (["3.9", "3.9"], ["3.9", "4.1"], ["4.1", "4.1"]):
        for replica in (first, second):
            replica.follow(release_view(*releases, finalized=OLD), ())
    assert texts(first) == [
        "cluster static: brokers 1-2: release 3.9",
        "broker 2: release 4.1 (was 3.9)",
        "broker 1: release 4.1 (was 3.9)",
    ]
    assert second.entries == first.entries == Timeline(file).entries


def test_replicas_that_share_a_file_keep_what_each_alone_has_seen(tmp_path: Path) -> None:
    """One that polls seldom misses what is over by then, and says of the rest what the others do not know."""
    file = tmp_path / "orders.timeline"
    often, seldom = Timeline(file), Timeline(file)
    for replica in (often, seldom):
        replica.follow(release_view("3.9", "3.9"), ())
    often.follow(release_view("3.9", "3.9", silent=[2]), ())
    often.follow(release_view("3.9", "4.0"), ())
    seldom.follow(release_view("3.9", "4.1"), ())
    assert texts(Timeline(file))[1:] == [
        "no answer: broker 2",
        "broker 2: release 4.0 (was 3.9)",
        "broker 2: release 4.1 (was 4.0)",
    ]


def test_a_replica_whose_brokers_lag_takes_no_level_back(tmp_path: Path) -> None:
    """Its epoch has moved on, and is still lower than that of the levels that another replica has told."""
    file = tmp_path / "orders.timeline"
    ahead, behind = Timeline(file), Timeline(file)
    for replica in (ahead, behind):
        replica.follow(release_view("4.1", finalized={"group.version": 0}, epoch=5), ())
    ahead.follow(release_view("4.1", finalized={"group.version": 1, "transaction.version": 2}, epoch=7), ())
    behind.follow(release_view("4.1", finalized={"group.version": 1}, epoch=6), ())
    behind.follow(release_view("4.1", finalized={"group.version": 1, "transaction.version": 2}, epoch=7), ())
    assert texts(behind)[1:] == [
        "group.version is finalized at 1 (was 0)",
        "transaction.version is finalized at 2 (was 0)",
    ]


def test_replicas_that_write_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of them, each with a broker that comes and goes for it; a reader finds the file whole at any time."""
    monkeypatch.setattr(files, "LOCK_SECONDS", BOUND)
    file = tmp_path / "orders.timeline"
    whole = release_view(*["4.2"] * 4)
    followed(whole, file=file)

    def follow(replica: int) -> dict[str, str]:
        timeline = Timeline(file)
        without = release_view(*["4.2"] * 4, silent=[replica])
        for _ in range(10):
            timeline.follow(without, ())
            json.loads(file.read_text())
            timeline.follow(whole, ())
            json.loads(file.read_text())
        return timeline.problems

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(follow, [1, 2, 3, 4])) == [{}] * 4
    told = Counter(texts(Timeline(file))[1:])
    assert told == {f"{what}: broker {broker}": 10 for what in ("no answer", "answers again") for broker in range(1, 5)}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b"[" * 100_000, b'{"schema_version": 9}', b'{"schema_version": 1, "entries": [7]}'],
)
def test_a_damaged_file_is_one_line_and_is_kept_beside(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The relay goes on with a new timeline."""
    file = tmp_path / "orders.timeline"
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        timeline = followed(release_view("4.2"), file=file)
    (line,) = caplog.messages
    assert str(file) in line
    assert list(timeline.problems.values()) == [line]
    assert len(timeline.entries) == 1
    assert json.loads(file.read_text())["entries"]
    assert file.with_suffix(".damaged").read_bytes() == content


def test_the_largest_timeline_is_read_again() -> None:
    """Entries that name thousands of brokers are cut: together they are below what is read of a file."""
    names = [f"{number:04}{chr(0x1F600) * 190}" for number in range(2000)]
    releases = dict.fromkeys(names, "4.2")
    moment = Moment(
        cluster_id="c", epoch=1, levels={}, releases=releases, away=frozenset(names), gates={}, reachable=True
    )
    history = History()
    for number in range(MOST_ENTRIES // 2):
        for cluster in ("a", "b"):
            history = history.noted(None, replace(moment, cluster_id=f"{cluster}{number}"), "2026-11-26T00:00:00")
    text = history_to_json(history)
    assert len(history.entries) == MOST_ENTRIES
    assert max(len(entry.change.text) for entry in history.entries) <= LONGEST_CHANGE + 30
    assert len(text) <= _MOST_BYTES
    assert history_from_json(text) == history


def test_a_file_that_is_too_large_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No timeline has written it, so it may be something else."""
    file = tmp_path / "orders.timeline"
    with file.open("wb") as made:
        made.truncate(_MOST_BYTES + 1)
    timeline = followed(release_view("4.2"), file=file)
    (line,) = caplog.messages
    assert f"it has more than {_MOST_BYTES} bytes" in line
    assert len(timeline.entries) == 1
    assert file.stat().st_size == _MOST_BYTES + 1
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".damaged"] == []


def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeline goes on in memory, says no more, and writes all of it once it can."""
    file = tmp_path / "orders.timeline"

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    timeline = followed(view(broker(1)), view(broker(2)), file=file)
    assert [str(file) in line for line in caplog.messages] == [True]
    assert list(timeline.problems.values()) == caplog.messages
    monkeypatch.undo()
    timeline.follow(view(broker(3)), ())
    assert timeline.problems == {}
    assert Timeline(file).entries == timeline.entries


def test_a_file_that_cannot_be_read_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The relay does not overwrite what is in the file."""
    file = tmp_path / "orders.timeline"
    file.mkdir()
    timeline = followed(view(broker(1)), view(broker(2)), file=file)
    assert len(timeline.entries) == 3
    assert len(caplog.messages) == 1
    assert file.is_dir()


def test_the_file_has_a_limit(tmp_path: Path) -> None:
    """The oldest entries are forgotten."""
    file = tmp_path / "orders.timeline"
    timeline = Timeline(file)
    rolling = [view(broker(1)), view(broker(2))]
    for number in range(MOST_ENTRIES // 2 + 10):
        timeline.follow(rolling[number % 2], ())
    assert len(timeline.entries) == MOST_ENTRIES
    assert Timeline(file).entries == timeline.entries
