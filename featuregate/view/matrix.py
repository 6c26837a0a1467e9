"""What each broker of a view answered, side by side: rows of features and APIs, and groups of equal brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from featuregate.catalog import api_name, level_name
from featuregate.view.cluster_view import View, members

if TYPE_CHECKING:
    from featuregate.view.answers import BrokerAnswer

MatrixKind = Literal["finalized", "supported", "api"]
MatrixValue = tuple[int, ...]
"""A finalized level, or the ends of a range."""
ABSENT: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One feature or API: the value of the cluster, and that of each broker."""

    kind: MatrixKind
    name: str
    cluster: MatrixValue | None
    """None if there is no common value, or it is unknown."""
    values: tuple[MatrixValue | None, ...]
    """The value of each broker that answered, in the order of the view."""

    @property
    def differs(self) -> bool:
        """Whether brokers have different values."""
        return len(set(self.values)) > 1

    def text(self, value: MatrixValue | None) -> str:
        """Return a value of this row for people, with the names of levels."""
        if value is None or (self.kind == "finalized" and value == (0,)):
            return ABSENT
        names = [level_name(self.name, number) for number in value]  # numbers of APIs have no names
        return names[0] if len(set(names)) == 1 else "..".join(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Brokers with the same value in every row."""

    brokers: tuple[BrokerAnswer, ...]
    index: int
    """The index of the first of them in `Row.values`."""

    @property
    def members(self) -> str:
        """All their ids, or addresses where ids are not known: ``1-3,7``."""
        return members(self.brokers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The rows and groups of a view."""

    rows: tuple[MatrixRow, ...]
    groups: tuple[Group, ...]
    hidden: int
    """The number of APIs without a row, because all brokers agree on them."""


def compare(view: View, *, all_apis: bool) -> Matrix:
    """Return the rows of every feature and of the APIs in which brokers differ, or of ``all_apis``."""
    answering = view.answering
    apis = tuple(_apis(view, answering))
    kept = apis if all_apis else tuple(row for row in apis if row.differs)
    rows = (*_finalized(view, answering), *_supported(view, answering), *kept)
    return Matrix(rows=rows, groups=_groups(answering, rows), hidden=len(apis) - len(kept))


def _finalized(view: View, answering: Sequence[BrokerAnswer]) -> Iterator[MatrixRow]:
    for name in sorted({name for broker in answering for name in broker.finalized} | set(view.finalized)):
        level = view.level(name)
        yield MatrixRow(
            kind="finalized",
            name=name,
            cluster=None if level is None else (level,),
            values=tuple((broker.finalized.get(name, 0),) if broker.epoch >= 0 else None for broker in answering),
        )


def _supported(view: View, answering: Sequence[BrokerAnswer]) -> Iterator[MatrixRow]:
    for name in sorted({name for broker in answering for name in broker.supported}):
        values = tuple(broker.supported.get(name) for broker in answering)
        yield MatrixRow(kind="supported", name=name, cluster=view.feature(name), values=values)


def _apis(view: View, answering: Sequence[BrokerAnswer]) -> Iterator[MatrixRow]:
    for key in sorted({key for broker in answering for key in broker.api_ranges}):
        shared = view.api(key)
        yield MatrixRow(
            kind="api",
            name=api_name(key),
            cluster=None if shared is None else (shared.min, shared.max),
            values=tuple(broker.api_ranges.get(key) for broker in answering),
        )


def _groups(answering: Sequence[BrokerAnswer], rows: Sequence[MatrixRow]) -> tuple[Group, ...]:
    """Group brokers with the same values, so that a thousand brokers fit a terminal and a page."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for index in range(len(answering)):
        alike.setdefault(tuple(row.values[index] for row in rows), []).append(index)
    return tuple(Group(brokers=tuple(answering[at] for at in same), index=same[0]) for same in alike.values())
