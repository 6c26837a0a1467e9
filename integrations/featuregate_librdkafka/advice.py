"""What an advice on a client's setting says, and how advice is applied. Pure.

An advice combines three facts: what every broker of the cluster proves (a requirement of the core), what the client
really does with the setting, and what the app has set. The tables of settings are those of each integration.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

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
