"""The three verdicts, and the reasons for one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.view.names import runs

if TYPE_CHECKING:
    from featuregate.view.answers import Failure

GateVerdict = Literal["open", "closed", "unknown"]

RANK: Final[dict[GateVerdict, int]] = {"closed": 0, "unknown": 1, "open": 2}
"""The worst first."""

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
_SILENT: Final = "did not answer"
_ADDRESSES: Final = 3
"""Addresses that are shown of brokers that share a line."""


class Reason(NamedTuple):
    """What one broker, or the cluster as a whole, contributes to one condition."""

    condition: str
    """The text of the condition."""
    node_id: int | None
    """None for the cluster as a whole, and for a broker of which only the address is known."""
    address: str | None
    """``host:port``; None for the cluster as a whole."""
    verdict: GateVerdict
    """What it contributes. For a feature it is the verdict of the cluster: brokers only repeat what they were sent."""
    text: str
    """A sentence for people."""

    def __str__(self) -> str:
        return f"{self.condition}: {self.text}"


def silence(failure: Failure) -> str:
    """Say of a broker that it did not answer."""
    return f"{_SILENT}: {failure.kind}: {failure.text}"


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
    if ids and not fact.startswith(_SILENT):
        return ids
    more = [f"{len(same) - _ADDRESSES} more"] if len(same) > _ADDRESSES else []
    addresses = ", ".join([*(str(reason.address) for reason in same[:_ADDRESSES]), *more])
    return f"{ids}: {addresses}" if ids else addresses
