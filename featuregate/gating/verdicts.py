"""The three verdicts, and the reasons for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.view.matrix import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from featuregate.view.answers import Failure

__all__ = ["RANK", "Reason", "Verdict", "reason_lines", "silence"]

Verdict = Literal["open", "closed", "unknown"]

RANK: Final[dict[Verdict, int]] = {"closed": 0, "unknown": 1, "open": 2}
"""The worst first."""

_PLURALS: Final[Mapping[str, str]] = {"does": "do", "has": "have", "lacks": "lack", "says": "say", "serves": "serve"}


class Reason(NamedTuple):
    """What one broker, or the cluster as a whole, contributes to one condition."""

    condition: str
    """The text of the condition."""
    node_id: int | None
    """None for the cluster as a whole, and for a broker of which only the address is known."""
    address: str | None
    """``host:port``; None for the cluster as a whole."""
    verdict: Verdict
    """What it contributes. For a feature it is the verdict of the cluster: brokers only repeat what they were sent."""
    text: str
    """A sentence for people."""


def silence(failure: Failure) -> str:
    """Say of a broker that it did not answer."""
    return f"did not answer: {failure.kind}: {failure.text}"


def reason_lines(reasons: Iterable[Reason]) -> list[str]:
    """Return a line for each fact, in the order of the reasons. Brokers of which the same is true share a line."""
    alike: dict[tuple[Verdict, str, str, str], list[Reason]] = {}
    for reason in reasons:
        subject, fact = _split(reason)
        alike.setdefault((reason.verdict, reason.condition, subject, fact), []).append(reason)
    return [
        f"{verdict:<7}  {condition}: {same[0].text if len(same) == 1 else _together(subject, fact, same)}"
        for (verdict, condition, subject, fact), same in alike.items()
    ]


def _split(reason: Reason) -> tuple[str, str]:
    """Split ``broker 2 (b2:9092) serves Fetch 0..4`` into the role and what is true of it."""
    named, at, fact = reason.text.partition(f" {reason.node_id} ({reason.address}) ")
    return (named, fact) if at else ("", reason.text)


def _together(role: str, fact: str, same: Sequence[Reason]) -> str:
    if not role:
        return fact
    verb, _, rest = fact.partition(" ")
    ids = runs(reason.node_id for reason in same if reason.node_id is not None)
    return f"{len(same)} {role}s ({ids}) {_PLURALS.get(verb, verb)} {rest}"
