"""kafka_options(), with_kafka_options(): which options of Spark's own Kafka source and sink this cluster allows. Pure.

An advice combines three facts: what every broker of the cluster supports (a requirement of the core), what Spark does
with the option, and what the app has set. It never overrides the app, nor applies what another option excludes. It
warns of options that Spark rejects or ignores, before a task fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, get_args

from featuregate import Decision, Gate, Requirement, View, evaluate
from featuregate_librdkafka.advice import Advice, AdviceState, apply_advice, require_role
from featuregate_spark.options.connector import (
    UNUSABLE_OPTIONS,
    USABLE_OPTIONS,
    SparkRole,
    UnusableOption,
    UsableOption,
)

__all__ = ["GateMaker", "SparkRole", "kafka_options", "with_kafka_options"]

logger = logging.getLogger("featuregate.spark")


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
    return tuple(_advices(role, options or {}, view, lambda _name, requirement: _decision(view, requirement)))


def with_kafka_options(options: Mapping[str, Any], *, role: SparkRole, features: GateMaker) -> dict[str, Any]:
    """Return the app's options and all that may be set now, for ``.options(**...)``; log each advice.

    Each advice has a sticky gate of ``features``, named ``option-<name>``: an option that was set once stays set, even
    while a broker does not answer. The app's own options are never overridden; set one to turn an advice off.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    advices = _advices(role, options, features.view, lambda name, needs: features.gate(name, needs).decision)
    return apply_advice(options, role, advices, logger)


def _advices(
    role: SparkRole, options: Mapping[str, Any], view: View | None, decide: Callable[[str, Requirement], Decision]
) -> Iterator[Advice]:
    require_role(role, get_args(SparkRole))
    for item in USABLE_OPTIONS:
        if item.role == role:
            yield _advice(item, decide(f"option-{item.name}", item.requirement), options)
    for unusable in UNUSABLE_OPTIONS:
        if unusable.role == role and (unusable.requirement is not None or _occurrences(options, unusable.option)):
            yield _warning(unusable, options, view)


def _decision(view: View | None, requirement: Requirement) -> Decision:
    return Decision.unseen(requirement, policy="live") if view is None else evaluate(view, requirement)


def _advice(item: UsableOption, decision: Decision, options: Mapping[str, Any]) -> Advice:
    own = _occurrences(options, item.option)
    right = {item.value, *item.also}
    excluding = tuple(
        key for option, excludes in item.excluders for key, value in _occurrences(options, option) if excludes(value)
    )
    conflicts = tuple(key for key, value in own if value not in right) + excluding
    on = not conflicts and (bool(own) or item.is_default)
    state = _state(decision, on=on, at_odds=any(value in right for _, value in own) and bool(excluding))
    missing = f"it is on, but {decision.summary}" if on else decision.summary
    reason = {AdviceState.NOT_YET: missing, AdviceState.FAILS: "Kafka's client refuses the two together"}
    return Advice(
        name=item.name,
        setting=item.option,
        value=item.value,
        requirement=item.requirement,
        decision=decision,
        state=state,
        reason=reason.get(state, item.note),
        used=True,
        conflicts=conflicts,
        applies=state is AdviceState.MAY and not conflicts,
    )


def _state(decision: Decision, *, on: bool, at_odds: bool) -> AdviceState:
    if at_odds:
        return AdviceState.FAILS
    if not decision.open:
        return AdviceState.NOT_YET
    return AdviceState.ON if on else AdviceState.MAY


def _warning(unusable: UnusableOption, options: Mapping[str, Any], view: View | None) -> Advice:
    needs = unusable.requirement
    return Advice(
        name=unusable.name,
        setting=unusable.option,
        value=unusable.value,
        requirement=needs,
        decision=None if needs is None else _decision(view, needs),
        state=AdviceState.FAILS if unusable.fails else AdviceState.NO_EFFECT,
        reason=unusable.reason,
        used=False,
        conflicts=tuple(key for key, _ in _occurrences(options, unusable.option)),
        applies=False,
    )


def _occurrences(options: Mapping[str, Any], option: str | None) -> list[tuple[str, str]]:
    """Return each spelling of an option that the app has set, with the value that Spark passes on."""
    return [(key, _text(value)) for key, value in options.items() if key.lower() == option]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
