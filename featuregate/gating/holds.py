"""Which gates an operator holds closed, and why. Pure.

A hold keeps a gate from opening until the hold is taken away. It never closes a gate that has latched.

People write holds by hand, and a latch is for good. So quotes, a byte order mark and the dash of a list around a name
do not count; what cannot be the name of a gate holds every gate; and a hold of a name that no gate has holds each gate
with a similar name, with one that begins so, or that its text lists, as ``hold: eos-v2, zstd`` does. A letter outside
ASCII that no gate has may look like one of theirs, as Cyrillic letters do: its name holds every gate.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Final, NamedTuple, Self

from featuregate.budgets import MOST_HOLD_CHARACTERS, MOST_HOLDS
from featuregate.catalog import close_to
from featuregate.printable import shown, some

ALL_GATES: Final = "*"

_BLANK: Final = " \t\r\n\f\v\xa0\ufeff\u200b"
_AROUND: Final = f"{_BLANK}\"'`\u00ab\u00bb\u2018\u2019\u201a\u201c\u201d\u201e"
"""What may stand around a name: blanks, a byte order mark, and the quotes of shells, YAML and editors."""
_IN_LIST: Final = re.compile(r"^[\s\ufeff]*[-*+\u2022]\s+(?=\S)")
_BETWEEN: Final = re.compile(r"[,;\n]")
_NAME: Final = re.compile(r"[\w ./:@+~-]*")
_LISTED: Final = re.compile(r"[^\w ./@+~*-]+")
_APART: Final = re.compile(r"[^\w-]+")
_WORDS: Final = re.compile(r"[^\W_]+")
_LEAST_LETTERS: Final = 5
"""Letters of a name in which one slip still means it."""
_ALL: Final = frozenset(
    {"", "all", "all gates", "any", "every gate", "everything", "enabled", "file", "on", "true", "y", "yes", "1"}
)
_LIKELY: Final = re.compile(r"\w.*[^\W\d_]|[^\W\d_]")
"""What a name that no gate has looks like. A path, a date or the end of a document of YAML is a slip."""


class Hold(NamedTuple):
    """A hold on one gate."""

    gate: str
    """The name of the gate, or ``*`` for all."""
    reason: str
    """Why, in the words of the operator; may be empty."""
    where: str
    """Where the hold was found, for example the name of a file."""

    def names(self, gate: str) -> bool:
        """Say whether it names this gate, or all. A name may have colons, and so may a line with a reason."""
        name, written = gate.strip(_AROUND).casefold(), f"{self.gate}:{self.reason}".casefold()
        return self.gate == ALL_GATES or self.gate.casefold() == name or f"{written}:".startswith(f"{name}:")

    def listed(self) -> list[str]:
        """Return the parts of its text, each of which may be the name of a gate."""
        return [part.strip(_AROUND).casefold() for part in _LISTED.split(self.reason)]

    def parts(self) -> frozenset[str]:
        """Return what may be a name of a gate with a slip."""
        listed = self.listed()
        return frozenset((self.gate, *_APART.split(self.gate), *listed, *listed[0].split()[:1])) - {""}

    def meant(self, gates: list[str], similar: Mapping[str, frozenset[str]]) -> list[str]:
        """Return those of these gates that it may mean in addition to the one that it names.

        ``similar`` has the parts of holds that are similar to each gate.
        """
        listed = self.listed()
        if any(map(self.names, gates)):
            return [gate for gate in gates if gate.casefold() in listed and not self.names(gate)]
        if ALL_GATES in (*self.gate, *listed) or self.gate.casefold() in _ALL:
            return gates
        begin, parts = _letters(self.gate), self.parts()
        if not begin.isascii() and any(not each.isascii() for each in set(begin).difference(*map(_letters, gates))):
            return gates
        found = [gate for gate in gates if not parts.isdisjoint(similar[gate]) or begin in _begins(gate)]
        return found if found or _LIKELY.match(self.gate) else gates

    @property
    def text(self) -> str:
        """The place, and the reason where there is one."""
        return f"{self.where}: {self.reason}" if self.reason else self.where


@dataclass(frozen=True, slots=True)
class Holds:
    """The holds that count now, the first of each gate first."""

    found: tuple[Hold, ...] = ()
    _compared: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def why(self, gate: str) -> str | None:
        """Say why a gate is held; None where it is not."""
        return next((f"held by {hold.text}" for hold in self.found if hold.names(gate)), None)

    def widened(self, gates: Iterable[str]) -> Holds:
        """Return these holds, and those on the gates that a hold may mean which names none of these."""
        names = list(gates)
        similar = self._similar(names)
        also: dict[str, Hold] = {}
        for hold in self.found:
            if hold.gate != ALL_GATES and (meant := hold.meant(names, similar)):
                reason = f"{hold.reason}{'; ' * bool(hold.reason)}{_why(hold, names)}"
                also = {gate: Hold(gate, reason, hold.where) for gate in meant} | also
        return Holds((*self.found, *also.values())) if also else self

    def _similar(self, gates: list[str]) -> dict[str, frozenset[str]]:
        """Return the parts of holds that are similar to each gate; only gates that are new are compared."""
        if len(self._compared) > 2 * len(gates):  # most of these gates have gone
            self._compared.clear()
        known = dict(self._compared)  # another thread may clear it meanwhile
        if new := set(gates) - known.keys():
            parts = frozenset[str]().union(*(hold.parts() for hold in self.found if hold.gate != ALL_GATES))
            known |= {gate: frozenset(part for part in parts if _are_similar(part, gate)) for gate in new}
            self._compared.update(known)
        return known

    def bounded(self) -> Self:
        """Return these holds, or one on every gate where it would take too long to compare them with each gate."""
        characters = sum(len(hold.gate) + len(hold.reason) for hold in self.found)
        if len(self.found) <= MOST_HOLDS and characters <= MOST_HOLD_CHARACTERS:
            return self
        allowed = f"at most {MOST_HOLDS:,} with {MOST_HOLD_CHARACTERS:,} characters are compared with gates"
        advice = f"{len(self.found):,} holds have {characters:,} characters, and {allowed}, so every gate is held"
        return type(self)((Hold(ALL_GATES, advice, some(dict.fromkeys(hold.where for hold in self.found))),))

    def misspelt(self, gates: Iterable[str]) -> Iterator[str]:
        """Yield each hold that may mean some of these gates, and names none of them."""
        names = list(gates)
        similar = self._similar(names)
        for hold in self.found:
            if hold.gate != ALL_GATES and not any(map(hold.names, names)) and (meant := hold.meant(names, similar)):
                yield f"{hold.where} holds {shown(hold.gate)}, and no gate has this name: this holds {some(meant)}"

    def __add__(self, other: Holds) -> Self:
        return type(self)((*self.found, *other.found))


NO_HOLDS: Final = Holds()


class CurrentHolds:
    """The holds that count for the next decisions: those of this process, and those that came with the last view.

    ``read`` returns the holds of this process that count now.
    """

    def __init__(self, read: Callable[[], Holds] = lambda: NO_HOLDS) -> None:
        self._read = read
        self._elsewhere = NO_HOLDS
        self._now = (NO_HOLDS, frozenset[str](), NO_HOLDS)  # one value: several threads renew it

    @property
    def found(self) -> Holds:
        """The holds as they were read."""
        return self._now[0]

    def renew(self, gates: Iterable[str], elsewhere: Holds | None = None) -> None:
        """Read the holds again; ``elsewhere`` are those that came with a view, None where none came."""
        self._elsewhere = self._elsewhere if elsewhere is None else elsewhere
        found, names = (self._read() + self._elsewhere).bounded(), frozenset(gates)
        before, of_names, _ = self._now
        if found == before and names == of_names:
            return
        found = before if found == before else found  # it knows already which gates are similar
        self._now = (found, names, found.widened(names))  # at once: another thread may open a gate meanwhile

    def why(self, gate: str) -> str | None:
        """Say why a gate is held; None where it is not."""
        return self._now[2].why(gate)


def _why(hold: Hold, gates: list[str]) -> str:
    name = shown(hold.gate)
    return f"listed behind {name}" if any(map(hold.names, gates)) else f"no gate is named {name}"


def _are_similar(name: str, other: str) -> bool:
    letters, others = _letters(name), _letters(other)
    slip = max(len(letters), len(others)) >= _LEAST_LETTERS and _is_one_slip(letters, others)
    return (
        letters == others
        or slip
        or (_may_be_close(name.casefold(), other.casefold()) and bool(close_to(name, [other])))
    )


def _may_be_close(name: str, other: str) -> bool:
    """Say whether four of five letters can be the same: most pairs have too few, and difflib is slow."""
    return 5 * len((set(name) ^ set(other)) - {"_"}) <= len(name) + len(other)


@lru_cache(maxsize=1024)
def _begins(gate: str) -> frozenset[str]:
    """Return the letters of the first word of a name, of the first two words, and so on."""
    return frozenset(accumulate(map(_letters, _WORDS.findall(gate))))


def _letters(name: str) -> str:
    """Return letters and digits alone, in one case and form: names are compared by them."""
    return "".join(_WORDS.findall(unicodedata.normalize("NFKC", name))).casefold()


def _is_one_slip(one: str, other: str) -> bool:
    """Say whether one letter is missing, another or added; difflib misses that where letters repeat."""
    start = _same_letters(one, other)
    return max(len(one), len(other)) - start - _same_letters(one[start:][::-1], other[start:][::-1]) <= 1


def _same_letters(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def named_holds(names: str, where: str) -> Holds:
    """Read names of gates that commas, semicolons or line breaks separate."""
    return Holds(tuple(_hold(name, where) for name in _BETWEEN.split(names) if name.strip(_AROUND)))


def explained_holds(reasons: Mapping[str, str], where: str) -> Holds:
    """Return the holds on these gates, each with its reason."""
    return Holds(tuple(Hold(str(gate).strip(_AROUND), str(reason or ""), where) for gate, reason in reasons.items()))


def written_holds(text: str, where: str) -> Holds:
    """Read lines such as ``eos-v2: the reason``; blank lines and those that begin with ``#`` are skipped.

    Raises `ValueError`: a line names no gate.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip(_AROUND) or line.strip(_BLANK).startswith("#"):
            continue
        found.append(hold := _hold(line, where))
        if not hold.gate:
            raise ValueError(f"line {number} names no gate")
    return Holds(tuple(found))


def _hold(line: str, where: str) -> Hold:
    gate, _, reason = (part.strip(_AROUND) for part in _IN_LIST.sub("", line, count=1).partition(":"))
    if gate != ALL_GATES and not _NAME.fullmatch(gate):
        return Hold(ALL_GATES, f"{shown(line.strip())!r} cannot be the name of a gate, so every gate is held", where)
    return Hold(gate, reason, where)
