"""Which flags a view has, in an app as over a relay."""

import pytest

from featuregate import presets
from featuregate.flags import gate_flag, view_flags
from featuregate.testing import StaticFeatures, release_view


def test_a_view_has_levels_releases_and_ranges() -> None:
    """Each with the type that its kind of flag has in every cluster."""
    flags = view_flags(release_view("4.2", "4.2"))
    worth = {key: (flag.type, flag.value) for key, flag in flags.items()}
    assert worth["level.group.version"] == (int, 1)
    assert worth["level.share.version"] == (int, 1)
    assert worth["release"] == (str, "4.2")
    assert worth["release.metadata.version"] == (str, "4.2-IV1")
    assert worth["supported.group.version"] == (dict, {"min": 0, "max": 1})
    assert worth["api.Produce"] == (dict, {"min": 3, "max": 13, "incomplete": False})
    assert {flag.type for key, flag in flags.items() if key.startswith("level.")} == {int}


@pytest.mark.parametrize(
    ("view", "key", "variant"),
    [
        (release_view("2.4"), "level.group.version", "unknown"),
        (release_view("2.4"), "release.metadata.version", "unknown"),
        (release_view("4.2", "4.2", silent=[2]), "release", "unknown"),
        (release_view("3.9"), "supported.share.version", "absent"),
        (release_view("3.9"), "api.ShareFetch", "absent"),
    ],
)
def test_what_is_not_known_has_no_value(view, key: str, variant: str) -> None:
    """The app uses the default of its code."""
    assert view_flags(view)[key][1:3] == (None, variant)


def test_a_feature_that_is_absent_has_the_level_0() -> None:
    """The cluster has said so: it has finalized other features."""
    assert view_flags(release_view("3.9"))["level.share.version"][1:3] == (0, "0")


def test_a_range_says_that_a_broker_is_silent() -> None:
    """The range of a silent broker may be smaller."""
    flag = view_flags(release_view("4.2", "4.2", silent=[2]))["api.Produce"]
    assert flag.value == {"min": 3, "max": 13, "incomplete": True}
    assert flag.variant == "3..13, incomplete"


def test_the_release_is_that_of_the_oldest_broker() -> None:
    """In the middle of a roll it is the old one."""
    assert view_flags(release_view("3.9", "4.2")).get("release").value == "3.9"


def test_a_gate_is_false_unless_it_is_open() -> None:
    """An unknown decision is false, too."""
    features = StaticFeatures()
    gate = features.gate("new-groups", presets.kip848)
    assert gate_flag(gate.decision)[:3] == (bool, False, "unknown")
    features.show(release_view("3.9"))
    assert gate_flag(gate.decision)[:3] == (bool, False, "closed")
    features.show(release_view("4.2"))
    assert gate_flag(gate.decision)[:3] == (bool, True, "open")
    features.show(release_view("4.2", "4.2", silent=[2]))
    assert gate_flag(gate.decision)[:3] == (bool, True, "open")


def test_a_broker_that_answers_like_another_changes_no_release() -> None:
    """They are judged once; a silent one counts, whatever the others are."""
    many = release_view(*["4.2"] * 50, "3.9", "4.2")
    assert view_flags(many)["release"].value == "3.9"
    silent = view_flags(release_view(*["4.2"] * 5, silent=[2, 4]))["release"]
    assert silent[1:3] == (None, "unknown")
    assert silent.why.endswith("(and 1 more)")
