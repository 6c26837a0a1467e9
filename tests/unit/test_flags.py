"""Which flags a view has, in an app as over a relay."""

from transcripts import retold, sections

from featuregate import presets
from featuregate.flags import gate_flag, view_flags
from featuregate.testing import StaticFeatures, release_view


def flag_of(text: str) -> str:
    releases, key = text.split(" / ")
    brokers, _, silent = releases.partition(", silent ")
    flag = view_flags(release_view(*brokers.split(", "), silent=[int(silent)] if silent else []))[key]
    return f"{flag.type.__name__} {flag.value}, {flag.variant}: {flag.why}"


def test_flags_of_views_are_as_kept() -> None:
    """Each has the type of its kind in every cluster; for what is not known the app uses the default of its code."""
    (kept,) = sections(__file__, "flags.txt").values()
    assert retold(kept, flag_of) == kept


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
