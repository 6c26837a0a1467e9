"""How controllers judge one update: each rule by itself, in the controllers' own words."""

import pytest

from featuregate.admin import kraft_rules
from featuregate.admin.kraft_rules import Controller, NodeLevels, RequestedUpdate, RuleProblem

RANGES = {"group.version": (0, 2), "metadata.version": (7, 25), "kraft.version": (0, 1)}
NODE = NodeLevels(1, RANGES)
HIDES = NodeLevels(1, {}, "node 1 hides what starts at 0")
SILENT = NodeLevels(2, None, "node 2 is silent")


def kraft(wanted: RequestedUpdate, release: tuple[int, ...] = (4, 2), **more: object) -> list[RuleProblem]:
    levels = {"metadata.version": 25, "group.version": 1}
    given = {"own": NODE, "brokers": (), "levels": levels, **more}
    controller = Controller(release=release, **given)  # type: ignore[arg-type]
    return list(kraft_rules.rule_problems(wanted, controller, {**levels, wanted.feature: wanted.level}))


def refused(update: str, *texts: str) -> list[RuleProblem]:
    return [RuleProblem("refused", f"Invalid update version {update}. {text}") for text in texts]


def group(level: int, upgrade_type: str = "upgrade") -> RequestedUpdate:
    return RequestedUpdate("group.version", level, upgrade_type)


def test_an_update_that_is_right_is_refused_by_no_rule() -> None:
    """To the level that is there as well."""
    assert kraft(group(1)) == kraft(group(0, "safe_downgrade")) == kraft(group(0, "unsafe_downgrade")) == []


def test_an_update_has_a_type_and_a_level() -> None:
    """The level of a feature that is absent is 0."""
    no_type = "The controller does not support the given upgrade type."
    assert kraft(group(1, "sideways")) == refused("1 for feature group.version", no_type)
    below = refused("-1 for feature group.version", "A feature version cannot be less than 0.")
    assert kraft(group(-1, "safe_downgrade"))[:1] == below


def test_the_direction_has_to_be_the_one_that_is_named() -> None:
    """A controller does not lower a level by an upgrade, nor raise it by a downgrade."""
    down = (
        "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
        "downgrade."
    )
    assert kraft(group(0)) == refused("0 for feature group.version", down)
    levels = {"metadata.version": 25, "group.version": 0}
    newer = refused("1 for feature group.version", "Can't downgrade to a newer version.")
    assert kraft(group(1, "safe_downgrade"), levels=levels) == newer
    assert kraft(group(1), levels=None) == [RuleProblem("unknown", "no node reports finalized levels")]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ({"own": NodeLevels(9, {"group.version": (0, 0)})}, "Local controller 9 does not support this feature."),
        ({"own": NodeLevels(9, {"group.version": (2, 3)})}, "Local controller 9 only supports versions 2-3"),
        ({"brokers": (NODE, NodeLevels(3, {}))}, "Broker 3 does not support this feature."),
        ({"brokers": (NodeLevels(3, {"group.version": (2, 2)}),)}, "Broker 3 only supports versions 2"),
        ({"controllers": (NODE, NodeLevels(4, {}))}, "Controller 4 does not support this feature."),
    ],
)
def test_every_node_has_to_support_the_level(nodes: dict[str, object], said: str) -> None:
    """Brokers always, and controllers once they register what they support."""
    assert kraft(group(1), **nodes) == refused("1 for feature group.version", said)
    before = {"metadata.version": kraft_rules.CONTROLLERS_REGISTER_FROM - 1, "group.version": 1}
    counts = kraft(group(1), levels=before, **nodes)
    assert counts == ([] if "ontroller 4" in said else kraft(group(1), **nodes))


def test_a_node_that_may_support_the_level_leaves_it_unknown() -> None:
    """One that is silent, and one that leaves out what starts at 0."""
    assert kraft(group(1), brokers=(SILENT, HIDES)) == [
        RuleProblem("unknown", "node 2 is silent"),
        RuleProblem("unknown", "node 1 hides what starts at 0"),
    ]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (NodeLevels(3, {}), refused("1 for feature group.version", "Broker 3 does not support this feature.")),
        (
            NodeLevels(3, {"group.version": (2, 4)}),
            refused("1 for feature group.version", "Broker 3 does not support the given version. It supports 2 to 4."),
        ),
        (NodeLevels(3, {"group.version": (1, 1)}), []),
        (SILENT, [RuleProblem("unknown", "node 2 is silent")]),
    ],
)
def test_a_controller_before_3_7_asks_brokers_in_other_words(node: NodeLevels, said: list[RuleProblem]) -> None:
    """It asks the controllers that it is connected to before them, whatever is finalized."""
    old = {"metadata.version": 8, "group.version": 1}
    assert kraft(group(1), (3, 6), brokers=(node,), levels=old) == said
    other = kraft(group(1), (3, 6), brokers=(node,), controllers=(NodeLevels(4, {}),), levels=old)
    assert other == [*refused("1 for feature group.version", "Controller 4 does not support this feature."), *said]


def test_a_level_needs_others() -> None:
    """metadata.version 3.3-IV3 before any feature, of the same request or finalized, where it is not lowered to 0."""
    first = {"metadata.version": 7, "group.version": 0}
    assert kraft(group(1), levels=first) == []
    without = {"metadata.version": 6, "group.version": 0}
    needs = "group.version could not be set to 1 because it depends on metadata.version=7 (3.3-IV3)"
    update = group(1)
    controller = Controller(release=(4, 2), own=NODE, brokers=(), levels=without)
    assert list(kraft_rules.rule_problems(update, controller, without)) == refused("1 for feature group.version", needs)
    assert list(kraft_rules.rule_problems(update, controller, first)) == []
    assert list(kraft_rules.rule_problems(group(0), controller, without)) == []
    assert list(kraft_rules.rule_problems(update, controller, {})) == refused("1 for feature group.version", needs)
    name = "eligible.leader.replicas.version"
    elr = RequestedUpdate(name, 1, "upgrade")
    controller = Controller(release=(4, 2), own=None, brokers=(), levels={})
    assert [problem.text.partition("because it ")[2] for problem in kraft_rules.rule_problems(elr, controller, {})] == [
        "depends on metadata.version=7 (3.3-IV3)",
        "depends on metadata.version level 23",
    ]
