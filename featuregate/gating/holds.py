"""Which gates an operator holds closed, and why. Pure.

A hold keeps a gate from opening until the hold is taken away. It never closes a gate that has latched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from featuregate.catalog import close_to

ALL_GATES: Final = "*"


class Hold(NamedTuple):
    """A hold on one gate."""

    gate: str
    """The name of the gate, or ``*`` for all."""
    reason: str
    """Why, in the words of the operator; may be empty."""
    where: str
    """Where the hold was found, for example the name of a file."""

    @property
    def text(self) -> str:
        """The place, and the reason where there is one."""
        return f"{self.where}: {self.reason}" if self.reason else self.where


@dataclass(frozen=True, slots=True)
class Holds:
    """The holds that count now, the first of each gate first."""

    found: tuple[Hold, ...] = ()

    def why(self, gate: str) -> str | None:
        """Say why a gate is held; None where it is not."""
        return next((f"held by {hold.text}" for hold in self.found if hold.gate in (gate, ALL_GATES)), None)

    def texts(self) -> dict[str, str]:
        """Return where and why each gate is held, by its name, for other processes."""
        return {hold.gate: hold.text for hold in reversed(self.found)}

    def misspelt(self, gates: Iterable[str]) -> Iterator[str]:
        """Yield each hold that may mean one of these gates, and holds none of them."""
        names = list(gates)
        for hold in self.found:
            if hold.gate not in (*names, ALL_GATES) and (close := close_to(hold.gate, names)):
                yield f"{hold.where} holds {hold.gate}, and no gate has this name; did you mean {' or '.join(close)}?"

    def __add__(self, other: Holds) -> Self:
        return type(self)((*self.found, *other.found))


NO_HOLDS: Final = Holds()


def named_holds(names: str, where: str) -> Holds:
    """Read names of gates that commas separate."""
    return Holds(tuple(Hold(name.strip(), "", where) for name in names.split(",") if name.strip()))


def explained_holds(reasons: Mapping[str, str], where: str) -> Holds:
    """Return the holds on these gates, each with its reason."""
    return Holds(tuple(Hold(gate, reason, where) for gate, reason in reasons.items()))


def written_holds(text: str, where: str) -> Holds:
    """Read lines such as ``eos-v2: the reason``; blank lines and those that begin with ``#`` are skipped.

    Raises
    ------
    ValueError
        A line names no gate.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        gate, _, reason = (part.strip() for part in line.partition(":"))
        if not gate:
            raise ValueError(f"line {number} names no gate")
        found.append(Hold(gate, reason, where))
    return Holds(tuple(found))
