"""kafka_options(), with_kafka_options(): which options of Spark's own Kafka source and sink this cluster allows. Pure.

An advice combines three facts: what every broker of the cluster supports (a requirement of the core), what Spark does
with the option, and what the app has set. It never overrides the app, nor applies what another option excludes. It
warns of options that Spark rejects or ignores, before a task fails.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, get_args

from featuregate import Decision, evaluate
from featuregate.errors import ConfigError
from featuregate_spark.options.connector import UNUSABLE_OPTIONS, USABLE_OPTIONS, SparkRole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from featuregate import Gate, Requirement, View
    from featuregate_spark.options.connector import UnusableOption, UsableOption

__all__ = ["GateMaker", "OptionAdvice", "OptionState", "SparkRole", "kafka_options", "with_kafka_options"]

logger = logging.getLogger("featuregate.spark")


class GateMaker(Protocol):
    """A :class:`featuregate_spark.FeatureSession`, or a :class:`featuregate.Discoverer`."""

    @property
    def view(self) -> View | None:
        """The view of now."""

    def gate(self, name: str, requirement: Requirement | str, /) -> Gate:
        """Return the sticky gate of this name."""


class OptionState(Enum):
    """The state of an advice."""

    ON = "already on"
    MAY = "may be switched on"
    NOT_YET = "not yet"
    """Not every broker is known to support it."""
    NO_EFFECT = "no effect"
    """Spark accepts it and does not use it."""
    FAILS = "fails"
    """Spark rejects it, or its tasks fail with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionAdvice:
    """One option, and whether it may be set. Picklable."""

    name: str
    """Such as ``read-committed``; the gate of :func:`with_kafka_options` is ``option-<name>``."""
    option: str | None
    """Spark's option, such as ``kafka.isolation.level``; None if there is none to set."""
    value: str | None
    """The advised value; None if the value makes no difference."""
    requirement: Requirement | None
    """None if it does not depend on the cluster."""
    decision: Decision | None
    """The decision on the requirement, with a reason for each broker."""
    state: OptionState
    reason: str
    """Why it has this state, and what to know before it is set."""
    used_by_spark: bool
    """Whether Spark uses the option."""
    conflicts: tuple[str, ...]
    """The app's options that must be removed, as spelled: another value of this one, or one that excludes it."""
    applies: bool
    """Whether :func:`with_kafka_options` sets it."""

    def __str__(self) -> str:
        what = f"{self.option}={self.value}" if self.option and self.value else self.option or self.name
        first = f" (remove {', '.join(self.conflicts)})" if self.conflicts else ""
        return f"{what}: {self.state.value}{first}: {self.reason}"


def kafka_options(
    view: View | None, role: SparkRole, options: Mapping[str, Any] | None = None
) -> tuple[OptionAdvice, ...]:
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
    found = dict(options)
    for advice in _advices(role, options, features.view, lambda name, needs: features.gate(name, needs).decision):
        useless = advice.conflicts and advice.state in {OptionState.NO_EFFECT, OptionState.FAILS}
        level = logging.WARNING if useless else logging.INFO
        logger.log(level, "%s %s: %s", role, "set" if advice.applies else "not set", advice)
        if advice.applies and advice.option is not None:
            found[advice.option] = advice.value
    return found


def _advices(
    role: SparkRole, options: Mapping[str, Any], view: View | None, decide: Callable[[str, Requirement], Decision]
) -> Iterator[OptionAdvice]:
    if role not in get_args(SparkRole):
        raise ConfigError("role", f"must be {' or '.join(get_args(SparkRole))}, not {role!r}")
    for item in USABLE_OPTIONS:
        if item.role == role:
            yield _advice(item, decide(f"option-{item.name}", item.requirement), options)
    for unusable in UNUSABLE_OPTIONS:
        if unusable.role == role and (unusable.requirement is not None or _occurrences(options, unusable.option)):
            yield _warning(unusable, options, view)


def _decision(view: View | None, requirement: Requirement) -> Decision:
    return Decision.unseen(requirement, policy="live") if view is None else evaluate(view, requirement)


def _advice(item: UsableOption, decision: Decision, options: Mapping[str, Any]) -> OptionAdvice:
    own = _occurrences(options, item.option)
    right = {item.value, *item.also}
    excluding = tuple(
        key for option, excludes in item.excluders for key, value in _occurrences(options, option) if excludes(value)
    )
    conflicts = tuple(key for key, value in own if value not in right) + excluding
    on = not conflicts and (bool(own) or item.is_default)
    state = _state(decision, on=on, at_odds=any(value in right for _, value in own) and bool(excluding))
    missing = f"it is on, but {decision.summary}" if on else decision.summary
    reason = {OptionState.NOT_YET: missing, OptionState.FAILS: "Kafka's client refuses the two together"}
    return OptionAdvice(
        name=item.name,
        option=item.option,
        value=item.value,
        requirement=item.requirement,
        decision=decision,
        state=state,
        reason=reason.get(state, item.note),
        used_by_spark=True,
        conflicts=conflicts,
        applies=state is OptionState.MAY and not conflicts,
    )


def _state(decision: Decision, *, on: bool, at_odds: bool) -> OptionState:
    if at_odds:
        return OptionState.FAILS
    if not decision.open:
        return OptionState.NOT_YET
    return OptionState.ON if on else OptionState.MAY


def _warning(unusable: UnusableOption, options: Mapping[str, Any], view: View | None) -> OptionAdvice:
    needs = unusable.requirement
    return OptionAdvice(
        name=unusable.name,
        option=unusable.option,
        value=unusable.value,
        requirement=needs,
        decision=None if needs is None else _decision(view, needs),
        state=OptionState.FAILS if unusable.fails else OptionState.NO_EFFECT,
        reason=unusable.reason,
        used_by_spark=False,
        conflicts=tuple(key for key, _ in _occurrences(options, unusable.option)),
        applies=False,
    )


def _occurrences(options: Mapping[str, Any], option: str | None) -> list[tuple[str, str]]:
    """Return each spelling of an option that the app has set, with the value that Spark passes on."""
    return [(key, _text(value)) for key, value in options.items() if key.lower() == option]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
