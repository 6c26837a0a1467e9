"""What an app asks a discoverer for, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest

import featuregate as fg
from featuregate.errors import ClosedError, ConfigError
from featuregate.gating.events import Changed
from featuregate.testing import StaticFeatures, release_view

TXN = "TxnOffsetCommit>=3"
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"name": " "}, "name: a gate needs a name, by which logs, metrics and the latch call it"),
        ({"policy": "loose"}, 'policy: must be "sticky" or "live", not \'loose\''),
        ({"name": "team-\udce9"}, r"name: 'team-\udce9' holds bytes that are not UTF-8"),
        (
            {"open_after": 5},
            "open_after: must be a timedelta above 0 and at most 100 years, such as timedelta(days=7), not 5",
        ),
        (
            {"policy": "live", "open_after": DAY},
            "open_after: is for sticky gates: a live gate closes again when its requirement ends",
        ),
        ({"name": "plain", "policy": "live"}, f"name: gate 'plain' is already sticky and requires {TXN}"),
        ({"name": "plain", "requirement": "Fetch>=1"}, f"name: gate 'plain' is already sticky and requires {TXN}"),
        ({"name": "late"}, f"name: gate 'late' is already sticky, opens after 86400 s and requires {TXN}"),
    ],
)
def test_a_gate_that_cannot_be_made_is_refused(asked: dict[str, Any], problem: str) -> None:
    features = StaticFeatures()
    features.gate("plain", TXN)
    assert features.gate("late", TXN, open_after=DAY) is features.gate("late", TXN, open_after=DAY)
    with pytest.raises(ConfigError) as raised:
        features.gate(**{"name": "new", "requirement": TXN, **asked})
    assert str(raised.value) == problem


def test_a_discoverer_needs_properties_or_a_source() -> None:
    with pytest.raises(ConfigError, match=r"^config: is missing: give the app's properties, or a source$"):
        fg.Discoverer()


def test_a_closed_discoverer_lets_nobody_wait() -> None:
    """What holds already is said, because no poll has to end for it."""
    features = fg.Discoverer("localhost:1", interval=3600)
    features.close()
    assert features.wait_until(lambda: True, 5)
    with pytest.raises(
        ClosedError, match=r"^this discoverer has been closed, so that no poll can end; make a new one$"
    ):
        features.wait_until(lambda: False, 5)


def test_a_discoverer_that_can_start_no_thread_raises_nothing_where_gates_are_checked() -> None:
    """The interpreter may be going down."""
    features = fg.Discoverer("localhost:1", interval=3600)

    def refused() -> None:
        raise RuntimeError("can't start new thread")

    features._life.start_thread = refused  # type: ignore[method-assign]
    features.ensure_polling()
    assert not features.health()["polling"]


def test_an_app_waits_for_the_first_view_and_hears_of_what_follows() -> None:
    """Each callback by itself, until it is taken off; a question needs no gate."""
    features = StaticFeatures()
    changes, events = list[object](), list[object]()
    off = [features.on_change(changes.append), features.on_event(events.append)]
    assert not features.wait(0)
    assert features.evaluate(TXN).verdict == "unknown"
    features.show(release_view("4.2"))
    assert features.wait(0)
    assert features.evaluate(TXN).open
    assert changes == [event for event in events if isinstance(event, Changed)] != []
    for each in off:
        each()
    before = len(events)
    features.show(release_view("3.9"))
    assert (len(changes), len(events)) == (1, before)


def test_a_gate_has_what_the_app_said_of_it() -> None:
    features = StaticFeatures()
    gate = features.gate("late", TXN, open_after=DAY)
    assert (gate.name, str(gate.requirement), gate.policy, gate.open_after) == ("late", TXN, "sticky", 86_400)
    assert not gate.wait(0)
    assert features.latched == {}
    assert features.pin() == {"late": gate.pin()}


def test_health_says_what_is_wrong_with_a_gate() -> None:
    """A warning in the log may be days old."""
    features = StaticFeatures(release_view("4.2"))
    features.gate("groups", "group.version>=1 & feature:group.versio>=1")
    said = "gate groups: no feature is known as group.versio; did you mean group.version?"
    assert (features.health()["status"], features.health()["reasons"]) == ("degraded", [said])
