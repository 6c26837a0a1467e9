"""Announcements: what an operator is about to do, and what apps that report show of it."""

import json
import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import featuregate as fg
from featuregate.errors import UsageReportError
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate.usage.announcement import Announcement, announcement_health, is_announcement, pending
from featuregate.usage.reporting import Reporting

VIEW = release_view("4.2", finalized={"transaction.version": 2, "group.version": 1})


def announcement(at: float = 1.0, cluster_id: str | None = "static", **levels: int) -> Announcement:
    named = {name.replace("_", "."): level for name, level in levels.items()}
    return Announcement(cluster_id=cluster_id, announced_at=at, levels=named, reason="INC-12")


DOWN = announcement(transaction_version=0)


@given(
    st.builds(
        Announcement,
        cluster_id=st.none() | st.text(max_size=5).filter(str.isprintable),
        announced_at=st.floats(0, 2e9),
        levels=st.dictionaries(st.text("abc.", min_size=1, max_size=5), st.integers(0, 9), min_size=1, max_size=3),
        reason=st.text("abc ", max_size=9),
    )
)
def test_an_announcement_survives_the_way_to_a_topic(made: Announcement) -> None:
    """Each field comes back as it was."""
    assert Announcement.from_json(made.to_json()) == made
    assert is_announcement(made.to_json().encode())


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"kind": "report"}, "announcement.kind"),
        ({"schema_version": 2}, "announcement.schema_version"),
        ({"levels": {}}, "announcement.levels"),
        ({"levels": {"a": "1"}}, "announcement.levels.a"),
        ({"announced_at": None}, "announcement.announced_at"),
        ({"reason": "x" * 20_000}, "announcement"),
    ],
)
def test_what_is_no_announcement_is_refused(changed: dict[str, object], where: str) -> None:
    """The error says where."""
    text = json.dumps({**json.loads(DOWN.to_json()), **changed})
    with pytest.raises(UsageReportError) as caught:
        Announcement.from_json(text)
    assert caught.value.where == where
    assert not is_announcement(text.encode())


def test_only_what_is_not_done_is_pending() -> None:
    """Of each feature the newest counts, and one for another cluster does not; the levels as they are withdraw it."""
    later = announcement(2.0, transaction_version=1)
    both = announcement(3.0, transaction_version=2, group_version=0)
    assert pending([later, DOWN], VIEW) == [later]
    assert pending([DOWN, announcement(9.0, "other", transaction_version=1)], VIEW) == [DOWN]
    assert pending([both, DOWN], VIEW) == [announcement(3.0, group_version=0)]
    assert pending([DOWN], None) == []


def test_health_names_the_gates_that_lose_something() -> None:
    """A latched gate goes on as if nothing were."""
    features = StaticFeatures(VIEW)
    gates = [features.gate("eos", "transaction.version>=2"), features.gate("kip848", "group.version>=1")]
    assert announcement_health(DOWN, VIEW, gates) == {
        "levels": {"transaction.version": 0},
        "announced_at": "1970-01-01T00:00:01+00:00",
        "reason": "INC-12",
        "gates": ["eos"],
    }


class Topic:
    """A sender that reads announcements, too."""

    reads_announcements = True

    def __init__(self) -> None:
        self.found: list[Announcement] = []
        self.broken = False

    def __call__(self, value: bytes, /) -> None:
        pass

    def announced(self) -> Sequence[Announcement]:
        if self.broken:
            raise OSError("TOPIC_AUTHORIZATION_FAILED")
        return self.found


def test_an_app_that_reports_shows_what_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    """It logs each once, and a topic that cannot be read changes nothing."""
    features, topic = StaticFeatures(VIEW), Topic()
    features.gate("eos", "transaction.version>=2")
    reporting = Reporting(
        fg.UsageReporter(topic, app="orders"), features._store, age=lambda: 0.0, wall=lambda: 1.0, clock=lambda: 1.0
    )
    reporting.report()
    assert reporting.announced() == []
    topic.found = [DOWN]
    for _ in range(2):
        reporting.report()
    assert [each["gates"] for each in reporting.announced()] == [["eos"]]
    said = "an operator announces transaction.version=0 (INC-12): this takes something from eos"
    assert caplog.record_tuples == [("featuregate", logging.WARNING, said)]
    topic.broken = True
    reporting.report()
    assert [each["gates"] for each in reporting.announced()] == [["eos"]]
    assert reporting.health()["announcements_error"] == "TOPIC_AUTHORIZATION_FAILED"
    assert reporting.health()["failed"] == 0


def test_the_health_of_a_discoverer_has_what_is_announced() -> None:
    """Nothing, where the app does not report, or where nothing is announced."""
    with FakeCluster(1) as cluster, fg.Discoverer(cluster.bootstrap) as features:
        assert features.wait(60)
        assert features.health()["announced"] == []
