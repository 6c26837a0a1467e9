"""What may be asked of a cluster, in the words of Kafka's own client where it may not."""

from __future__ import annotations

import pytest

from featuregate.errors import InvalidUpdate
from featuregate.updates import Update, checked, disable, downgrade, to_release, upgrade


@pytest.mark.parametrize(
    ("feature", "level", "kind", "words"),
    [
        ("", 1, "upgrade", "Provided feature can not be empty."),
        (" \t", 1, "upgrade", "Provided feature can not be empty."),
        ("a", -1, "upgrade", "Cannot specify a negative version level."),
        ("a", -1, "safe_downgrade", "Cannot specify a negative version level."),
        ("a", 0, "upgrade", "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE"),
        ("a", 32768, "upgrade", "the highest is 32767"),
    ],
)
def test_what_no_cluster_can_be_asked(feature: str, level: int, kind: str, words: str) -> None:
    """Nothing of it is ever sent."""
    with pytest.raises(InvalidUpdate, match=words):
        Update(feature, level, kind)  # type: ignore[arg-type]  # one of the three


def test_level_0_is_a_downgrade() -> None:
    """It disables the feature."""
    assert disable("a", "b") == downgrade({"a": 0, "b": 0})
    assert [update.upgrade_type for update in disable("a", unsafe=True)] == ["unsafe_downgrade"]


def test_a_release_is_a_level_of_each_feature() -> None:
    """Those whose level there is 0 are left alone, as kafka-features does it."""
    assert {update.feature: update.level for update in to_release("3.9")} == {
        "metadata.version": 21,
        "kraft.version": 1,
    }
    assert to_release("4.1") == upgrade(
        {
            "metadata.version": 27,
            "kraft.version": 1,
            "transaction.version": 2,
            "group.version": 1,
            "eligible.leader.replicas.version": 1,
        }
    )


def test_an_unknown_release_is_refused() -> None:
    """Rather than be guessed."""
    with pytest.raises(InvalidUpdate, match=r"'9\.9'"):
        to_release("9.9")


def test_updates_that_go_together() -> None:
    """At least one, and none twice."""
    assert checked(iter(upgrade({"a": 1}))) == upgrade({"a": 1})
    with pytest.raises(InvalidUpdate, match="can not be null or empty"):
        checked(())
    with pytest.raises(InvalidUpdate, match="Feature a was specified more than once"):
        checked((Update("a", 1), Update("a", 2)))
