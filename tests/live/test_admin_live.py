"""Plans beside what real controllers say, and updates that really change levels."""

from collections.abc import Iterator

import pytest

from featuregate import Admin
from featuregate.admin.updates import Update, disable, downgrade, to_release, upgrade
from featuregate.errors import UpdateRefused
from featuregate.testing import LocalKafka

pytestmark = pytest.mark.live

WHOLE = "The update failed for all features since the following feature had an error: "
UPDATES = [
    upgrade({"group.version": 1}),
    upgrade({"group.version": 2}),
    upgrade({"bogus": 1}),
    disable("bogus"),
    downgrade({"bogus": 1}),
    disable("group.version"),
    downgrade({"group.version": 1}),
    disable("group.version", unsafe=True),
    upgrade({"transaction.version": 1}),
    downgrade({"transaction.version": 1}),
    downgrade({"transaction.version": 3}),
    upgrade({"share.version": 1}),
    upgrade({"eligible.leader.replicas.version": 1}),
    *(upgrade({"metadata.version": level}) for level in (1, 8, 20, 21, 25, 29, 30, 99)),
    *(downgrade({"metadata.version": level}) for level in (0, 1, 3, 4, 7, 8, 20, 21, 22, 23, 27, 29, 30)),
    *(downgrade({"metadata.version": level}, unsafe=True) for level in (7, 8, 20, 22, 23, 27)),
    downgrade({"kraft.version": 0}),
    to_release("3.9"),
    to_release("4.2"),
    (*upgrade({"group.version": 1}), *downgrade({"transaction.version": 2})),
]


@pytest.fixture(scope="module", params=["3.9.2", "4.2.0"])
def kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """One node of each generation: before 4.0 each feature stands by itself, from then on all or nothing."""
    with LocalKafka(request.param) as cluster:
        yield cluster


def what_it_says(admin: Admin, updates: tuple[Update, ...]) -> dict[str, str]:
    """Ask the controller; the words of each refusal."""
    try:
        admin.dry_run(updates)
    except UpdateRefused as refused:
        return {one.update.feature: one.error.message.removeprefix(WHOLE) for one in refused.outcome.failures}
    return {}


def name_of(updates: tuple[Update, ...]) -> str:
    """Name a test."""
    return " ".join(f"{update.upgrade_type}:{update.feature}={update.level}" for update in updates)


@pytest.mark.parametrize("updates", UPDATES, ids=name_of)
def test_a_plan_says_what_the_controller_says(kafka: LocalKafka, updates: tuple[Update, ...]) -> None:
    """Word for word where it knows, and it says so where it does not."""
    admin = Admin(kafka.bootstrap)
    said = what_it_says(admin, updates)
    made = admin.plan(updates, controllers=kafka.controller_bootstrap)
    refused = {one.update.feature: one.text for one in made.updates if one.judgement == "refused"}
    if made.judgement == "unknown":
        assert {one.update.feature for one in made.updates if one.judgement == "unknown"} == {"kraft.version"}
    elif made.all_or_nothing and said:
        (text,) = set(said.values())
        assert text in refused.values()
        assert made.judgement == "refused"
    else:
        assert refused == said


def test_levels_go_down_and_up_again(kafka: LocalKafka) -> None:
    """And every broker shows it when the wait is over."""
    admin = Admin(kafka.bootstrap)
    now, below = (29, 27) if kafka.node(1).version.startswith("4") else (21, 20)
    assert admin.update(downgrade({"metadata.version": below})).done
    assert admin.wait_for_levels({"metadata.version": below}, 30).level("metadata.version") == below
    assert admin.update(upgrade({"metadata.version": now})).done
    assert admin.wait_for_levels({"metadata.version": now}, 30).level("metadata.version") == now


def test_controllers_take_updates_themselves(kafka: LocalKafka) -> None:
    """The client sends the update to the listener of the controllers."""
    admin = Admin({"bootstrap.controllers": kafka.controller_bootstrap})
    now = 29 if kafka.node(1).version.startswith("4") else 21
    assert admin.dry_run(upgrade({"metadata.version": now})).done
    assert admin.plan(upgrade({"metadata.version": now})).judgement == "accepted"


def test_partial_or_whole(kafka: LocalKafka) -> None:
    """The generations differ in what one bad feature does to a good one."""
    admin = Admin(kafka.bootstrap)
    whole = kafka.node(1).version.startswith("4")
    now = 29 if whole else 21
    with pytest.raises(UpdateRefused) as caught:
        admin.dry_run(upgrade({"metadata.version": now, "bogus": 1}))
    assert {one.update.feature for one in caught.value.outcome.failures} == (
        {"metadata.version", "bogus"} if whole else {"bogus"}
    )
    assert admin.plan(upgrade({"metadata.version": now})).all_or_nothing is whole
