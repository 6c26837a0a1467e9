"""How a controller with ZooKeeper judges an update of one feature (KIP-584, "Validations"), in its words. Pure.

Both sides ask these rules: :mod:`featuregate.admin.prediction` about a cluster that was looked at, and the simulator of
:mod:`featuregate.testing` about a cluster that it made up.

Source: ``KafkaController.validateFeatureUpdate`` of Apache Kafka 2.8.2, which 2.7 to 3.2 have in common. They speak
UpdateFeatures v0, whose flag allows a downgrade.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from featuregate.admin.update_rules import NodeLevels, RequestedUpdate, RuleProblem

_CANNOT: Final = "Could not apply finalized feature update because"
_NEVER: Final = (0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperController:
    """What a controller with ZooKeeper goes by."""

    own: NodeLevels | None
    """What it can run itself; None where it was not asked."""
    brokers: tuple[NodeLevels, ...]
    """The brokers that it knows, itself included."""
    levels: Mapping[str, tuple[int, int]] | None
    """Feature to the finalized minimum and maximum. None: unknown."""


def rule_problems(wanted: RequestedUpdate, controller: ZooKeeperController) -> Iterator[RuleProblem]:
    """Yield what the rules say against an update, in the order in which the controller applies them.

    The controller stops at the first that refuses.
    """
    if not wanted.feature:
        yield RuleProblem("refused", "Feature name can not be empty.")
    if wanted.level < 1:
        yield from _deletion(wanted, controller)
        return
    if controller.levels is None:
        yield _LEVELS_UNKNOWN
    elif wanted.feature in controller.levels:
        yield from _wrong_move(wanted, *controller.levels[wanted.feature])
    yield from _supported(wanted, controller)


_LEVELS_UNKNOWN: Final = RuleProblem("unknown", "no node reports finalized levels")


def _deletion(wanted: RequestedUpdate, controller: ZooKeeperController) -> Iterator[RuleProblem]:
    if wanted.upgrade_type == "upgrade":
        yield RuleProblem(
            "refused",
            f"Can not provide maxVersionLevel: {wanted.level} less than 1 without setting the allowDowngrade flag to "
            "true in the request.",
        )
    elif controller.levels is None:
        yield _LEVELS_UNKNOWN
    elif wanted.feature not in controller.levels:
        yield RuleProblem("refused", "Can not delete non-existing finalized feature.")


def _wrong_move(wanted: RequestedUpdate, lowest: int, current: int) -> Iterator[RuleProblem]:
    level, allowed = wanted.level, wanted.upgrade_type != "upgrade"
    if level == current:
        verb = "downgrade" if allowed else "upgrade"
        text = f"Can not {verb} a finalized feature from existing maxVersionLevel:{current} to the same value."
        yield RuleProblem("refused", text)
    elif level < current and not allowed:
        yield RuleProblem(
            "refused",
            f"Can not downgrade finalized feature from existing maxVersionLevel:{current} to provided "
            f"maxVersionLevel:{level} without setting the allowDowngrade flag in the request.",
        )
    elif level > current and allowed:
        yield RuleProblem(
            "refused",
            f"When the allowDowngrade flag set in the request, the provided maxVersionLevel:{level} can not be greater "
            f"than existing maxVersionLevel:{current}.",
        )
    elif level < lowest:
        yield RuleProblem(
            "refused",
            f"Can not downgrade finalized feature to maxVersionLevel:{level} because it's lower than the existing "
            f"minVersionLevel:{lowest}.",
        )


def _supported(wanted: RequestedUpdate, controller: ZooKeeperController) -> Iterator[RuleProblem]:
    own, level = controller.own, wanted.level
    if own is None or own.supported is None:
        yield RuleProblem(
            "unknown", own.unknown_because if own is not None else "the controller was not asked what it supports"
        )
    elif wanted.feature not in own.supported:
        yield RuleProblem("refused", f"{_CANNOT} the provided feature is not supported.")
    elif level < own.supported[wanted.feature][0]:
        lowest = own.supported[wanted.feature][0]
        text = f"{_CANNOT} the provided maxVersionLevel:{level} is lower than the supported minVersion:{lowest}."
        yield RuleProblem("refused", text)
    for node in controller.brokers:
        if node.supported is None:
            yield RuleProblem("unknown", node.unknown_because)
            continue
        lowest, highest = node.supported.get(wanted.feature, _NEVER)
        if not lowest <= level <= highest:
            yield RuleProblem("refused", f"{_CANNOT} brokers were found to have incompatible versions for the feature.")
