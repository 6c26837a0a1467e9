"""What differs between two views, in words and values: ``changes.txt`` has each scene, there and back."""

from dataclasses import replace

import pytest
from builders import broker, deaf, view
from hypothesis import given
from strategies import views
from transcripts import sections

from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, SupportedRange
from featuregate.view.changes import Difference, differences
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge


@given(views(), views())
def test_there_are_differences_exactly_where_the_content_differs(before: View, after: View) -> None:
    """Nothing fires without a difference, and no difference comes without a change (invariant 4)."""
    assert bool(differences(before, after)) is not before.same_content(after)


@given(views())
def test_invariant_4_an_epoch_that_moved_is_no_difference(before: View) -> None:
    """Times that moved are no difference, either."""
    brokers = tuple(
        replace(known, epoch=known.epoch + 7, answered_at=known.answered_at + 1) if known.epoch >= 0 else known
        for known in before.brokers
    )
    moved = replace(before, brokers=brokers, seen_at=1.0, epoch=before.epoch + 7 if before.epoch >= 0 else -1)
    assert differences(before, moved) == ()


ONE = view(broker(1))
BARE = BrokerAnswer(node_id=2, host="b2", port=9092, asked_version=3)
STEADY = replace(broker(1, epoch=9, txn=None), finalized={f"f{at}": 1 for at in range(5)})
CHANGED = replace(
    broker(2, epoch=3, txn=4), supported={"x": SupportedRange(0, 1)}, configs={"a": BrokerConfig("1")}, asked_version=3
)
BEHIND = broker(2, epoch=9, metadata_version=21)
LEVEL_LATER = broker(1, epoch=11, group_version=1)
CONFIGS = replace(broker(1), configs={"a": BrokerConfig("1"), "b": BrokerConfig("2"), "c": BrokerConfig("3")})
OTHER_CONFIGS = {"a": BrokerConfig("1", "x"), "b": BrokerConfig(None, "not allowed"), "d": BrokerConfig("4")}
NO_CONFIG = {**OTHER_CONFIGS, "b": BrokerConfig(None, "", exists=False)}
SERVED = View(cluster_id="c", api_ranges={28: ApiRange(0, 3)}, supported={"x": SupportedRange(0, 1)})
OTHERS = {"api_ranges": {1: ApiRange(4, 5)}, "supported": {"y": SupportedRange(0, 2)}}
SCENES = {
    "levels are told with their names": (
        view(broker(1, group_version=1, metadata_version=21)),
        view(broker(1, group_version=2, metadata_version=25)),
    ),
    "a broker that lags says levels by name": (
        view(broker(1, metadata_version=21), BEHIND),
        view(broker(1, epoch=11, metadata_version=25), BEHIND),
    ),
    "a level that is absent is at 0": (ONE, view(broker(1, metadata_version=21))),
    "an unknown level differs from level 0": (view(broker(1, epoch=-1)), view(broker(1, epoch=0, group_version=1))),
    "what becomes known is about the cluster as a whole": (View(cluster_id="c"), View(cluster_id="c", epoch=0)),
    "a level that moved everywhere is one difference": (
        view(*(broker(at) for at in range(3))),
        view(*(broker(at, epoch=11, group_version=1) for at in range(3))),
    ),
    "a broker lags": (view(broker(1), broker(2)), view(LEVEL_LATER, broker(2))),
    "and catches up, however the epochs run": (
        view(LEVEL_LATER, broker(2)),
        view(broker(1, epoch=12, group_version=1), broker(2, epoch=12, group_version=1)),
    ),
    "the ranges of the cluster come before the broker that moved them": (ONE, view(broker(1, txn=4))),
    "supported ranges are those of all brokers": (
        ONE,
        view(replace(broker(1), supported={"group.version": SupportedRange(0, 1)})),
    ),
    "all that changed of a broker is one line": (view(STEADY, broker(2, epoch=-1)), view(STEADY, CHANGED)),
    "other ranges than before": (SERVED, replace(SERVED, **OTHERS)),
    "ranges of the brokers that answer, which may be better than those of all": (
        replace(SERVED, brokers=(deaf(2),)),
        replace(SERVED, brokers=(deaf(2),), **OTHERS),
    ),
    "configs": (view(CONFIGS), view(replace(CONFIGS, configs=OTHER_CONFIGS))),
    "a config that is there no more": (
        view(replace(CONFIGS, configs=OTHER_CONFIGS)),
        view(replace(CONFIGS, configs=NO_CONFIG)),
    ),
    "supported ranges are counted by their own name": (
        ONE,
        view(replace(broker(1), supported={f"f{at}": SupportedRange(0, at) for at in range(5)})),
    ),
    "three ranges are all of them": (
        ONE,
        view(replace(broker(1), api_ranges={key: ApiRange(0, 3) for key in (0, 1, 2, 28)})),
    ),
    "an upgraded broker is one line": (
        view(broker(1), BARE),
        view(broker(1), replace(BARE, api_ranges={key: ApiRange(0, 3) for key in range(20)}, asked_version=4)),
    ),
    "one broker goes, and another one comes": (ONE, view(broker(2))),
    "a broker comes silent": (ONE, view(broker(1), deaf(2))),
    "a broker falls silent, and returns": (view(broker(1), broker(2)), view(broker(1), deaf(2))),
    "another cluster": (ONE, view(broker(1), cluster_id="new")),
    "another list": (ONE, merge([broker(1)], cluster_id="c", broker_list="bootstrap", seen_at=1)),
    "another role": (
        ONE,
        merge([replace(broker(1), role="controller")], cluster_id="c", role="controller", seen_at=1),
    ),
}
TOLD = sections(__file__, "changes.txt")


def line_of(each: Difference, before: View, after: View) -> str:
    """Return a difference with its values; those of a broker are its answers, whole."""
    of_broker = each.kind.startswith("broker ")
    if of_broker:
        answers = [next((one for one in seen.brokers if one.name == each.subject), None) for seen in (before, after)]
        assert [each.before, each.after] == answers
    values = "" if of_broker else f", {each.before} to {each.after}"
    return f"{each.kind}{f' {each.subject}' if each.subject else ''}{values}: {each}"


@pytest.mark.parametrize("scene", SCENES)
def test_each_difference_is_told_there_and_back(scene: str) -> None:
    before, after = SCENES[scene]
    assert not before.same_content(after)
    there = [line_of(each, before, after) for each in differences(before, after)]
    back = [line_of(each, after, before) for each in differences(after, before)]
    assert "\n".join([*there, "back", *back]) == TOLD[scene]
