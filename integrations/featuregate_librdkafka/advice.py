"""Which settings of a client this cluster allows: judges the tables of settings, and applies the advice. Pure.

An advice combines three facts: what every broker of the cluster proves (a requirement of the core), what the client
really does with the setting, and what the app has set. The tables are those of confluent-kafka and of Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from featuregate.errors import ConfigError

if TYPE_CHECKING:
    from featuregate import Decision, Requirement


class AdviceState(Enum):
    """The state of an advice."""

    ON = "already on"
    MAY = "may be switched on"
    NOT_YET = "not yet"
    """Not every broker is known to support it, or the client does not yet."""
    NO_EFFECT = "no effect"
    """The client does not use it: for information only."""
    FAILS = "fails"
    """The client rejects it, or fails with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One setting of a client, and whether it may be set. Picklable."""

    name: str
    """Such as ``read-committed``."""
    setting: str | None
    """librdkafka's property, or Spark's option; None: there is none to set."""
    value: str | None
    """The advised value; None where there is none, or where it makes no difference."""
    requirement: Requirement | None
    """None: it does not depend on the cluster."""
    decision: Decision | None
    """The decision on the requirement, with a reason for each broker."""
    state: AdviceState
    reason: str
    """Why it has this state, and what to know before it is set."""
    used: bool
    """Whether the client really uses it: the librdkafka of this process, or Spark."""
    conflicts: tuple[str, ...]
    """The app's settings that must be removed, as spelled: another value of this one, or one that excludes it."""
    applies: bool
    """Whether it is set where advice is applied: it may be set, there is a setting, and nothing conflicts."""

    def __str__(self) -> str:
        what = f"{self.setting}={self.value}" if self.setting and self.value else self.setting or self.name
        first = f" (remove {', '.join(self.conflicts)})" if self.conflicts else ""
        return f"{what}: {self.state.value}{first}: {self.reason}"


class ClientSupport(NamedTuple):
    """What the client of this process does with a setting."""

    used: bool = True
    """Whether it uses the setting as it is meant."""
    words: str = ""
    """The same as a sentence."""
    state: AdviceState | None = None
    """The state of the advice where the client alone decides it."""


class Excluder(NamedTuple):
    """Another setting, some values of which exclude the advised one."""

    spellings: tuple[str, ...]
    excludes: Callable[[str], bool] = lambda _value: True


class Setting(NamedTuple):
    """What can be advised: a row of a table."""

    name: str
    role: str
    requirement: Requirement | None
    """None: it does not depend on the cluster, and is only spoken of where the app has set it."""
    note: str = ""
    """What to know before it is set."""
    spellings: tuple[str, ...] = ()
    """The setting and its aliases, the one that is advised first."""
    value: str | None = None
    also: tuple[str, ...] = ()
    """Other spellings of the value."""
    default: str | None = None
    """What the client does where the app says nothing."""
    implied_by: tuple[str, ...] = ()
    """A setting that switches this one on, whatever its value."""
    excluders: tuple[Excluder, ...] = ()
    support: ClientSupport = ClientSupport()


Occurrences: TypeAlias = Callable[[tuple[str, ...]], list[tuple[str, str]]]
"""Returns where the app has set a setting of these spellings, as spelled, and the values as the client reads them."""


def judge(setting: Setting, decision: Decision | None, found: Occurrences) -> Advice:
    """Return the advice on a setting."""
    support, own, right = setting.support, found(setting.spellings), {setting.value, *setting.also}
    useless = support.state in {AdviceState.FAILS, AdviceState.NO_EFFECT}
    other = tuple(key for key, value in own if useless or value not in right)
    excluding = tuple(
        key for spellings, excludes in setting.excluders for key, value in found(spellings) if excludes(value)
    )
    chosen = bool(found(setting.implied_by)) or any(value in right for _, value in own)
    on = not other and not excluding and (chosen or (setting.default is not None and setting.default in right))
    if support.state is not None:
        state = support.state
    elif chosen and excluding:
        state = AdviceState.FAILS
    elif support.used and decision is not None and decision.open:
        state = AdviceState.ON if on else AdviceState.MAY
    else:
        state = AdviceState.NOT_YET
    conflicts = other + excluding
    return Advice(
        name=setting.name,
        setting=setting.spellings[0] if setting.spellings else None,
        value=setting.value,
        requirement=setting.requirement,
        decision=decision,
        state=state,
        reason=_reason(setting, state, decision, on=on),
        used=support.used,
        conflicts=conflicts,
        applies=state is AdviceState.MAY and bool(setting.spellings) and not conflicts,
    )


def judge_all(
    table: Iterable[Setting], role: str, decide: Callable[[Setting, Requirement], Decision], found: Occurrences
) -> Iterator[Advice]:
    """Return the advice on the settings of a role, without those that are about nothing here."""
    for setting in table:
        if setting.role == role and (setting.requirement is not None or found(setting.spellings)):
            needs = setting.requirement
            yield judge(setting, None if needs is None else decide(setting, needs), found)


def _reason(setting: Setting, state: AdviceState, decision: Decision | None, *, on: bool) -> str:
    used, words, decided = setting.support
    if state is AdviceState.NOT_YET:
        missing = words if decision is None or decision.open or not used else decision.summary
        return f"it is on, but {missing}" if on else missing
    if decided is not None:
        return words
    return "the client refuses the two together" if state is AdviceState.FAILS else setting.note


def apply_advice(
    settings: Mapping[str, Any], role: str, advice: Iterable[Advice], logger: logging.Logger
) -> dict[str, Any]:
    """Return the app's settings and all that may be set, and log each advice; warn of settings that do no good."""
    found = dict(settings)
    for each in advice:
        useless = each.conflicts and each.state in {AdviceState.NO_EFFECT, AdviceState.FAILS}
        level = logging.WARNING if useless else logging.INFO
        logger.log(level, "%s %s: %s", role, "set" if each.applies else "not set", each)
        if each.applies and each.setting is not None:
            found[each.setting] = each.value
    return found


def require_role(role: str, roles: tuple[str, ...]) -> None:
    """Raise ConfigError unless the role is one of these."""
    if role not in roles:
        *others, last = roles
        names = f"{', '.join(others)} or {last}" if others else last
        raise ConfigError("role", f"must be {names}, not {role!r}")
