"""kafka_options(), with_kafka_options(): which options of Spark's own Kafka source and sink this cluster allows. Pure.

An advice combines three facts: what every broker of the cluster supports (a requirement of the core), what Spark does
with the option, and what the app has set. It never overrides the app, nor applies what another option excludes. It
warns of options that Spark rejects or ignores, before a task fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, get_args

from featuregate import Decision, Gate, Requirement, View, evaluate
from featuregate.logs import get_logger
from featuregate_librdkafka.advice import (
    Advice,
    Occurrences,
    Setting,
    apply_advice,
    judge_all,
    require_role,
)
from featuregate_spark.options.connector import OPTIONS, SparkRole

__all__ = ["GateMaker", "SparkRole", "kafka_options", "with_kafka_options"]

logger = get_logger("featuregate.spark")


class GateMaker(Protocol):
    """A :class:`featuregate_spark.FeatureSession`, or a :class:`featuregate.Discoverer`."""

    @property
    def view(self) -> View | None:
        """The current view."""

    def gate(self, name: str, requirement: Requirement | str, /) -> Gate:
        """Return the sticky gate of this name."""


def kafka_options(view: View | None, role: SparkRole, options: Mapping[str, Any] | None = None) -> tuple[Advice, ...]:
    """Return which options of Spark's Kafka source or sink the cluster of this view allows, and which have no effect.

    Parameters
    ----------
    view
        A view of the cluster, such as :attr:`featuregate_spark.FeatureSession.view`; None if no broker has answered.
    role
        ``"reader"`` or ``"writer"``.
    options
        The app's own options for ``.options()``, which are not changed. Spark ignores the case of their names.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    require_role(role, get_args(SparkRole))
    return tuple(judge_all(OPTIONS, role, lambda _option, needs: _decision(view, needs), _occurrences(options or {})))


def with_kafka_options(options: Mapping[str, Any], *, role: SparkRole, features: GateMaker) -> dict[str, Any]:
    """Return the app's options and all that may be set now, for ``.options(**...)``; log each advice.

    Each advice has a sticky gate of ``features``, named ``option-<name>``: an option that was set once stays set, even
    while a broker does not answer. The app's own options are never overridden; set one to turn an advice off.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    require_role(role, get_args(SparkRole))

    def decide(option: Setting, needs: Requirement) -> Decision:
        """Ask a gate only for an option that can be set."""
        usable = option.support.used
        return features.gate(f"option-{option.name}", needs).decision if usable else _decision(features.view, needs)

    return apply_advice(options, role, judge_all(OPTIONS, role, decide, _occurrences(options)), logger)


def _decision(view: View | None, requirement: Requirement) -> Decision:
    return Decision.unseen(requirement, policy="live") if view is None else evaluate(view, requirement)


def _occurrences(options: Mapping[str, Any]) -> Occurrences:
    """Return how Spark finds an option, of which it ignores the case, and the value that it passes on."""

    def found(spellings: tuple[str, ...]) -> list[tuple[str, str]]:
        return [(key, _text(value)) for key, value in options.items() if key.lower() in spellings]

    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
