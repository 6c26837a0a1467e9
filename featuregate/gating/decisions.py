"""Whether a view meets a requirement, and why, broker by broker. Pure.

There are three verdicts, combined by Kleene's logic: of ``a & b`` the worst counts, of ``a | b`` the best, where
``closed`` is worse than ``unknown`` and that is worse than ``open``. ``unknown`` never opens anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, assert_never

from featuregate.budgets import LONGEST_REASON
from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis, excluded_apis
from featuregate.gating.conditions import RANK, SILENT, GateVerdict, Reason, judge_brokers, judge_level
from featuregate.printable import fit, harmless
from featuregate.requirements import (
    And,
    ApiAtLeast,
    ApiBetween,
    ConfigHas,
    FeatureAtLeast,
    Named,
    Or,
    Release,
    Requirement,
    as_requirement,
    kind_of,
)
from featuregate.values import dataclass, replace
from featuregate.view.cluster_view import View, runs

__all__ = ["BURN_IN", "FRESH", "HOLD", "Decision", "GateVerdict", "Reason", "Staleness", "against", "evaluate"]

HOLD: Final = "hold"
BURN_IN: Final = "burn-in"
"""Conditions that are not part of a requirement, and keep a gate closed that has not latched."""
_LINES: Final = 20
_PLURALS: Final[Mapping[str, str]] = {
    "does": "do",
    "has": "have",
    "lacks": "lack",
    "reports": "report",
    "says": "say",
    "serves": "serve",
    "still says": "still say",
    "was": "were",
}
_ADDRESSES: Final = 3
"""Addresses that are shown of brokers that share a line."""


class Staleness(NamedTuple):
    """Why a view, or its levels alone, are too old to prove anything. Each is a sentence, None where it is fresh."""

    view: str | None = None
    """Nothing in the view counts: no broker has answered for too long, or polling has ended."""
    levels: str | None = None
    """Conditions on features do not count: brokers answer, and none reports the levels of the view any more."""


FRESH: Final = Staleness()


STATES: Final = ("open", "held", "waiting", "closed", "unknown")
"""The states of a gate: :attr:`Decision.state`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Open or not, and why. Picklable. Texts from outside are made fit, also in a decision that an app makes."""

    verdict: GateVerdict
    requirement: str
    """The text of the requirement."""
    reasons: tuple[Reason, ...]
    """For each condition: of the cluster as a whole where it decides, then one for each known broker."""
    cluster_id: str | None
    epoch: int
    policy: str = ""
    """The policy of the gate; empty for a requirement without a gate."""
    held: str | None = None
    """Why a sticky gate stays open although the view does not prove it; None where the verdict stands."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", tuple(map(_fit_reason, self.reasons)))
        object.__setattr__(self, "cluster_id", harmless(self.cluster_id))
        object.__setattr__(self, "held", harmless(self.held))

    @classmethod
    def unseen(cls, requirement: Requirement, *, policy: str = "") -> Decision:
        """Decide before any view is there.

        Raises `TypeError`: no view will ever decide it: it is not a requirement, or of a kind that :func:`evaluate`
        does not know.
        """
        evaluate(View(cluster_id=None), requirement)
        text = str(requirement)
        reason = Reason(text, None, None, "unknown", "no broker has answered yet")
        return cls(
            verdict="unknown", requirement=text, reasons=(reason,), cluster_id=None, epoch=-1, policy=policy, held=None
        )

    @property
    def open(self) -> bool:
        """Whether the behaviour may be on."""
        return self.held is not None or self.verdict == "open"

    @property
    def waits(self) -> Reason | None:
        """The hold or the burn-in that keeps it closed; None where none does."""
        first = self.reasons[0] if self.reasons and not self.open else None
        return first if first is not None and first.condition in (HOLD, BURN_IN) else None

    @property
    def state(self) -> str:
        """One of ``STATES``: ``held`` is open by the latch alone, ``waiting`` closed by a hold or the burn-in."""
        if self.held is not None:
            return "held"
        return self.verdict if self.waits is None else "waiting"

    @property
    def sorted_reasons(self) -> tuple[Reason, ...]:
        """The reasons, those that keep it closed first."""
        return tuple(sorted(self.reasons, key=lambda reason: RANK[reason.verdict]))

    @property
    def summary(self) -> str:
        """One line: the verdict and the first reason for it."""
        if self.held is not None:
            return self.held
        mine = [reason for reason in self.sorted_reasons if reason.verdict == self.verdict] or self.reasons
        if self.verdict == "open" or not mine:
            return f"{self.verdict}: {self.requirement}"
        more = f" (and {len(mine) - 1} more)" if len(mine) > 1 else ""
        return f"{self.verdict}: {mine[0].condition}: {mine[0].text}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain JSON-able values, with every reason; those that keep it closed come first."""
        return {
            "requirement": self.requirement,
            "verdict": self.verdict,
            "open": self.open,
            "cluster_id": self.cluster_id,
            "epoch": self.epoch,
            "reasons": [reason._asdict() for reason in self.sorted_reasons],
        }

    def __str__(self) -> str:
        where = f"cluster {self.cluster_id or 'unknown'}, {f'epoch {self.epoch}' if self.epoch >= 0 else 'no epoch'}"
        head = f"{self.held or self.verdict}: {self.requirement} ({where}"
        head += f", {self.policy} gate)" if self.policy else ")"
        return "\n  ".join([head, *reason_lines(self.sorted_reasons, _LINES)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001 - as IPython calls it
        """Show in a notebook what `print` shows."""
        printer.text(str(self))


def _fit_reason(reason: Reason) -> Reason:
    address = harmless(reason.address)
    text = fit(reason.text, LONGEST_REASON)
    return reason if (address, text) == (reason.address, reason.text) else reason._replace(address=address, text=text)


def evaluate(
    view: View,
    requirement: Requirement | str,
    staleness: Staleness = FRESH,
    *,
    exclude_apis: ExcludedApis | str = NOTHING_EXCLUDED,
) -> Decision:
    """Decide a requirement by a view, as far as that is fresh.

    A condition on an API or a release is open only if every known broker answered and qualifies; it is closed as soon
    as one that answered does not; else it is unknown. A condition on a feature goes by the cluster's finalized level,
    and is unknown where no broker has reported any, or none reports it any more. A condition on a config goes by the
    configs for which the brokers of the view were asked. A stale view opens nothing.

    The requirement may be text, too, such as ``"kip447"`` or ``"group.version>=1"``.

    ``exclude_apis`` names API versions that the client must not use (KIP-35), such as ``Produce=9-11,Fetch``. They do
    not count as served. A release is recognised by all that brokers advertise, excluded or not.

    Raises `ConfigError`: ``exclude_apis`` does not parse.
    Raises `RequirementError`: the text of the requirement does not parse.
    """
    requirement = as_requirement(requirement)
    verdict, reasons = _judge(view, requirement, staleness.levels, excluded_apis(exclude_apis))
    decision = Decision(
        verdict=verdict,
        requirement=str(requirement),
        reasons=tuple(reasons),
        cluster_id=view.cluster_id,
        epoch=view.epoch,
    )
    return decision if staleness.view is None else against(decision, "the view is fresh", staleness.view, "unknown")


def against(decision: Decision, condition: str, text: str, verdict: GateVerdict = "closed") -> Decision:
    """Return the decision with what keeps it closed and is not part of the requirement.

    With the verdict ``unknown``, a decision that is closed already stays so.
    """
    reason = Reason(condition, None, None, verdict, text)
    worse = min(decision.verdict, verdict, key=RANK.__getitem__)
    return replace(decision, verdict=worse, reasons=(reason, *decision.reasons), held=None)


def _judge(
    view: View, requirement: Requirement, old_levels: str | None, excluded: ExcludedApis
) -> tuple[GateVerdict, list[Reason]]:
    kind = kind_of(requirement)
    match kind:
        case Named():
            return _judge(view, kind.requirement, old_levels, excluded)
        case And(parts):
            return _combine(min, (_judge(view, part, old_levels, excluded) for part in parts))
        case Or(parts):
            return _combine(max, (_judge(view, part, old_levels, excluded) for part in parts))
        case FeatureAtLeast():
            return judge_level(view, kind, old_levels)
        case ApiAtLeast() | ApiBetween() | ConfigHas() | Release():
            return judge_brokers(view, kind, excluded)
        case _:
            assert_never(kind)


def _combine(
    choose: Callable[..., GateVerdict], judged: Iterable[tuple[GateVerdict, list[Reason]]]
) -> tuple[GateVerdict, list[Reason]]:
    parts = list(judged)
    verdict = choose((verdict for verdict, _ in parts), key=RANK.__getitem__)
    # A requirement may name a condition twice.
    return verdict, list(dict.fromkeys(reason for _, reasons in parts for reason in reasons))


# ---------------------------------------------------------------- shown to people


def reason_lines(reasons: Iterable[Reason], at_most: int) -> list[str]:
    """Return a line for each fact, in the order of the reasons, and the number of the lines that are left out.

    Brokers of which the same is true share a line. Where there are more than ``at_most`` lines, each condition has its
    share of them, its first ones.
    """
    alike: dict[tuple[GateVerdict, str, str, str], list[Reason]] = {}
    for reason in reasons:
        subject, fact = _split(reason)
        alike.setdefault((reason.verdict, reason.condition, subject, fact), []).append(reason)
    lines, ranks = [], []
    of_condition: Counter[str] = Counter()
    for (verdict, condition, subject, fact), same in alike.items():
        lines.append(f"{verdict:<7}  {condition}: {same[0].text if len(same) == 1 else _together(subject, fact, same)}")
        ranks.append(of_condition[condition])
        of_condition[condition] += 1
    shown = sorted(sorted(range(len(lines)), key=ranks.__getitem__)[:at_most])
    left = len(lines) - len(shown)
    return [lines[at] for at in shown] + ([f"and {left} more reasons"] if left else [])


def _split(reason: Reason) -> tuple[str, str]:
    """Split ``broker 2 (b2:9092) serves Fetch 0..4`` into the role and what is true of it."""
    address = reason.address if reason.node_id is None else f"{reason.node_id} ({reason.address})"
    named, at, fact = reason.text.partition(f" {address} ")
    return (named, fact) if at else ("", reason.text)


def _together(role: str, fact: str, same: Sequence[Reason]) -> str:
    if not role:
        return fact
    verb = next((verb for verb in _PLURALS if fact.startswith(f"{verb} ")), "")
    return f"{len(same)} {role}s ({_members(fact, same)}) {_PLURALS.get(verb, verb)}{fact.removeprefix(verb)}"


def _members(fact: str, same: Sequence[Reason]) -> str:
    """Return the ids of brokers, and some addresses where these help: who looks for a silent broker needs them."""
    ids = runs(reason.node_id for reason in same if reason.node_id is not None)
    if ids and not fact.startswith(SILENT):
        return ids
    more = [f"{len(same) - _ADDRESSES} more"] if len(same) > _ADDRESSES else []
    addresses = ", ".join([*(str(reason.address) for reason in same[:_ADDRESSES]), *more])
    return f"{ids}: {addresses}" if ids else addresses
