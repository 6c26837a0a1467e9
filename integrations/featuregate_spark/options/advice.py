"""kafka_options(), with_kafka_options(): what this cluster allows of Spark's own Kafka source and sink. Pure.

An advice joins three facts: what every broker of the cluster proves (a requirement of the core), what Spark really
does with the option, and what the app's own options say. Nothing is applied that the app has set otherwise, or that
another of its options excludes; and what Spark refuses, or takes without a use for it, is said before a task fails.
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
        """What is seen of the cluster now."""

    def gate(self, name: str, requirement: Requirement | str, /) -> Gate:
        """Return the sticky gate of this name."""


class OptionState(Enum):
    """Where a piece of advice stands."""

    ON = "already on"
    MAY = "may be switched on"
    NOT_YET = "not yet"
    """The cluster does not prove it."""
    NO_EFFECT = "no effect"
    """Spark takes it, and makes no use of it."""
    FAILS = "fails"
    """Spark refuses it, or its tasks fail by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionAdvice:
    """One option, and whether it may be set. Picklable."""

    name: str
    """Ours, such as ``read-committed``; the gate of :func:`with_kafka_options` is called ``option-<name>``."""
    option: str | None
    """Spark's, such as ``kafka.isolation.level``; None: there is none to set."""
    value: str | None
    """What to set it to; None where any value is as good, or as bad."""
    requirement: Requirement | None
    """None: the cluster has no say in it."""
    decision: Decision | None
    """What the cluster says of the requirement, broker by broker."""
    state: OptionState
    reason: str
    """Why it stands there, and what to know before it is set."""
    used_by_spark: bool
    """Whether Spark really does it."""
    conflicts: tuple[str, ...]
    """The app's options that must go, as it spelled them: this one's other value, and what excludes it."""
    applies: bool
    """Whether :func:`with_kafka_options` sets it: it may, and nothing is in its way."""

    def __str__(self) -> str:
        what = f"{self.option}={self.value}" if self.option and self.value else self.option or self.name
        first = f" (remove {', '.join(self.conflicts)})" if self.conflicts else ""
        return f"{what}: {self.state.value}{first}: {self.reason}"


def kafka_options(
    view: View | None, role: SparkRole, options: Mapping[str, Any] | None = None
) -> tuple[OptionAdvice, ...]:
    """Return what the cluster of this view allows of Spark's Kafka source or sink, and what has no effect there.

    Parameters
    ----------
    view
        Such as :attr:`featuregate_spark.FeatureSession.view`; None, where nobody has answered: nothing may be set.
    role
        ``"reader"`` or ``"writer"``.
    options
        The app's own, as it gives them to ``.options()``; not changed. Spark ignores the case of their names.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    return tuple(_advices(role, options or {}, view, lambda _name, requirement: _seen(view, requirement)))


def with_kafka_options(options: Mapping[str, Any], *, role: SparkRole, features: GateMaker) -> dict[str, Any]:
    """Return the app's options with all that may be set now, for ``.options(**...)``; each step is logged.

    Each advice has a sticky gate of ``features``, named ``option-<name>``: what was once set stays so, though a
    broker is silent meanwhile. What the app has set itself is never overridden, which is also how to turn one off.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    found = dict(options)
    for advice in _advices(role, options, features.view, lambda name, needs: features.gate(name, needs).decision):
        in_vain = advice.conflicts and advice.state in {OptionState.NO_EFFECT, OptionState.FAILS}
        level = logging.WARNING if in_vain else logging.INFO
        logger.log(level, "%s %s: %s", role, "set" if advice.applies else "left as it is", advice)
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
    for warning in UNUSABLE_OPTIONS:
        if warning.role == role and (warning.requirement is not None or _given(options, warning.option)):
            yield _warned(warning, options, view)


def _seen(view: View | None, requirement: Requirement) -> Decision:
    return Decision.unseen(requirement, policy="live") if view is None else evaluate(view, requirement)


def _advice(item: UsableOption, decision: Decision, options: Mapping[str, Any]) -> OptionAdvice:
    own = _given(options, item.option)
    right = {item.value, *item.also}
    excluding = tuple(
        key for option, excludes in item.excluders for key, value in _given(options, option) if excludes(value)
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


def _warned(warning: UnusableOption, options: Mapping[str, Any], view: View | None) -> OptionAdvice:
    needs = warning.requirement
    return OptionAdvice(
        name=warning.name,
        option=warning.option,
        value=warning.value,
        requirement=needs,
        decision=None if needs is None else _seen(view, needs),
        state=OptionState.FAILS if warning.fails else OptionState.NO_EFFECT,
        reason=warning.reason,
        used_by_spark=False,
        conflicts=tuple(key for key, _ in _given(options, warning.option)),
        applies=False,
    )


def _given(options: Mapping[str, Any], option: str | None) -> list[tuple[str, str]]:
    """Return where an option is given, as the app spelled it, with its value as Spark hands it on."""
    return [(key, _text(value)) for key, value in options.items() if key.lower() == option]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
