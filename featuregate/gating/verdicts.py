"""The three verdicts, and the reasons for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from featuregate.view.answers import Failure

__all__ = ["RANK", "Reason", "Verdict", "silence"]

Verdict = Literal["open", "closed", "unknown"]

RANK: Final[dict[Verdict, int]] = {"closed": 0, "unknown": 1, "open": 2}
"""The worst first."""


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
