"""The HTML of the page, from templates that escape and cut all text. No requests, no sockets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from featuregate.catalog import captured_releases
from featuregate.printable import shown
from featuregate.sources.seen import Seen
from featuregate.view.cluster_view import members
from featuregate.view.matrix import Group, Matrix, MatrixRow, compare
from featuregate.view.releases import KnownRelease, release_of_broker
from featuregate_relay.states import ServedState, is_open_in

if TYPE_CHECKING:
    from featuregate import Decision, Gate, View
    from featuregate_relay.clusters import ServedCluster

_MOST_COLUMNS: Final = 12
_MOST_ROWS: Final = 300
_MOST_LACKS: Final = 60
_MOST_SILENT: Final = 30
_WORDS: Final = re.compile(r"(?<=[a-z][.:])(?=[a-z])|(?<=[a-z])(?=[A-Z])")
_MAX_HEADING: Final = 20
"""Characters; longer headings of a column become a letter, explained above the table."""
_TITLES: Final = {"finalized": "Finalized level", "supported": "Supported levels", "api": "API versions"}

_SIGNS: Final = {
    "ok": ("good", "✓"),
    "open": ("good", "✓"),
    "held": ("warn", "!"),
    "degraded": ("warn", "!"),
    "stale": ("warn", "◷"),
    "unknown": ("warn", "?"),
    "starting": ("warn", "…"),
    "failing": ("bad", "✕"),
    "closed": ("plain", "○"),  # as each gate is before its upgrade
}
"""The tone and the sign of each state: some readers do not see the colour."""


class Shown(NamedTuple):
    """A cluster, with what is kept of it from one look to the next."""

    cluster: ServedCluster
    state: ServedState | None
    health: Mapping[str, Any]

    @classmethod
    def of(cls, cluster: ServedCluster) -> Self:
        """Look at a cluster. On the loop, where streams would take a state that a thread has made for a change."""
        return cls(cluster, cluster.state(), cluster.health())


class _Column(NamedTuple):
    """A group of equal brokers as a column."""

    label: str
    """The ids of the brokers where these are short, otherwise a letter."""
    short: bool
    software: Software
    lacks: list[str]


def _with_breaks(name: str) -> Markup:
    """Return a name that a narrow screen may break between its words, and not within them."""
    return Markup("<wbr>").join(_WORDS.split(shown(name)))


def _plain(value: object) -> object:
    """Return what a template inserts: any text without control characters, and cut. The template escapes it."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("featuregate_relay.page"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_plain,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals["signs"] = _SIGNS
_ENVIRONMENT.filters["breaks"] = _with_breaks


class Renderer:
    """Makes the pages. What follows from the answers of brokers is made once for each revision of a view."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[str, dict[str, Any]]] = {}

    def overview(self, clusters: Iterable[Shown]) -> str:
        """Return the page of all clusters."""
        summaries = [self._facts(cluster) for cluster in clusters]
        return _ENVIRONMENT.get_template("overview.html").render(clusters=summaries, root="", now=datetime.now(UTC))

    def cluster(self, cluster: Shown, *, root: str, alone: bool, latched: frozenset[str] = frozenset()) -> str:
        """Return the page of one cluster.

        Parameters
        ----------
        root
            The relative path from this page to that of the relay.
        alone
            Whether the client may read no other cluster.
        latched
            The gates that the client has seen open, which stay open for it.
        """
        facts = self._facts(cluster, latched)
        facts["seen"], facts["answered"] = _seen(cluster.cluster, latched)
        return _ENVIRONMENT.get_template("cluster.html").render(**facts, root=root, alone=alone, now=datetime.now(UTC))

    def _facts(self, looked_at: Shown, latched: frozenset[str] = frozenset()) -> dict[str, Any]:
        cluster, state, health = looked_at
        view = cluster.features.view
        latches = cluster.latches(None if view is None else view.cluster_id)
        facts: dict[str, Any] = {
            "name": cluster.name,
            "health": health,
            "view": view,
            "gates": [shown_gate(gate, view, seen=latches.get(gate.name) in latched) for gate in cluster.gates],
            "revision": "" if state is None else state.revision,
            "roll": None,
        }
        if view is None or state is None:
            return facts
        revision, of_view = self._made.get(cluster.name, ("", {}))
        if revision != state.revision:
            of_view = _of_view(state.view)  # not the view at hand, which may be newer
            self._made[cluster.name] = (state.revision, of_view)
        return facts | of_view


def _seen(cluster: ServedCluster, latched: frozenset[str]) -> tuple[Markup, float]:
    """Return what the page that comes next must not be below, and the age of the view."""
    view, age = cluster.features.view_and_age()  # after the page is made: it must not show more than this says
    if view is None:
        return Markup(), age
    latches = cluster.latches(view.cluster_id)
    opened = {
        latches[gate.name]
        for gate in cluster.gates
        if gate.name in latches and is_open_in(view.cluster_id, gate.decision)
    }
    return Markup(Seen.of(view, latched=latched | opened).text), age  # noqa: S704 - digits and dots, which are not cut


def _of_view(view: View) -> dict[str, Any]:
    matrix = compare(view, all_apis=True)
    software = software_of(matrix)
    return {
        "roll": roll_of(view, software),
        "columns": _columns(software[:_MOST_COLUMNS], matrix),
        "more_columns": len(software) - _MOST_COLUMNS,
        "sections": _sections(matrix),
        "agreed": [row for row in matrix.rows if row.kind == "api" and not row.differs][:_MOST_ROWS],
        "most_lacks": _MOST_LACKS,
        "most_silent": _MOST_SILENT,
    }


def _columns(software: Sequence[Software], matrix: Matrix) -> list[_Column]:
    columns = []
    for letter, each in zip(ascii_uppercase, software, strict=False):
        members = each.group.members
        short = len(members) <= _MAX_HEADING
        columns.append(_Column(members if short else letter, short, each, lacks(each, matrix)))
    return columns


def _sections(matrix: Matrix) -> list[tuple[str, list[MatrixRow]]]:
    """Return the rows of each kind; of APIs those in which brokers differ."""
    return [
        (title, rows[:_MOST_ROWS])
        for kind, title in _TITLES.items()
        if (rows := [row for row in matrix.rows if row.kind == kind and (kind != "api" or row.differs)])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Brokers that answer the same."""

    group: Group
    release: KnownRelease | None
    """The newest release of Apache Kafka of which the brokers have everything; None where that is not known."""

    @property
    def title(self) -> str:
        """The release for people."""
        return f"release {self.release}" if self.release else "an unknown release"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingUpgrade:
    """Brokers of several releases: the newest one, and the brokers that have it and that do not."""

    newest: str
    """As `Software.title`."""
    done: int
    left: int
    silent: int
    """Brokers that do not answer: they may be restarting."""


def software_of(matrix: Matrix) -> tuple[Software, ...]:
    """Return the software of each group of a matrix that has all APIs, newest first."""
    found = [Software(group=group, release=release_of_broker(group.brokers[0])) for group in matrix.groups]
    order = {release: place for place, release in enumerate(captured_releases())}
    return tuple(sorted(found, key=lambda each: -order[each.release.release] if each.release else 1))


def roll_of(view: View, software: Iterable[Software]) -> RollingUpgrade | None:
    """Return how far a roll is; None where all brokers that answer have one release."""
    counts: dict[str, int] = {}
    for each in software:
        counts[each.title] = counts.get(each.title, 0) + len(each.group.brokers)
    if len(counts) < 2:  # noqa: PLR2004 - a roll is between two releases
        return None
    newest, *others = counts
    return RollingUpgrade(
        newest=newest, done=counts[newest], left=sum(counts[other] for other in others), silent=len(view.missing)
    )


def lacks(software: Software, matrix: Matrix) -> list[str]:
    """Return the versions and levels that other brokers have and these do not."""
    found = []
    for row in matrix.rows:
        if row.kind == "finalized" or not row.differs:
            continue
        known = [value for value in row.values if value is not None]
        lowest, highest = min(value[0] for value in known), max(value[-1] for value in known)
        own = row.values[software.group.index]
        if own is None:
            found.append(f"{row.name} {row.text((lowest, highest))}")
            continue
        if own[0] > lowest:
            found.append(f"{row.name} {row.text((lowest, own[0] - 1))}")
        if own[-1] < highest:
            found.append(f"{row.name} {row.text((own[-1] + 1, highest))}")
    return found


_MOST: Final = 8
_EPOCH: Final = re.compile(r" at epoch \d+")
"""Brokers learn of an epoch one after the other: with it, brokers that report the same levels would differ."""


class Blocker(NamedTuple):
    """A condition that is not met, and the brokers of which one fact keeps it from that."""

    condition: str
    brokers: str
    """Their ids or addresses; empty: the cluster as a whole."""
    number: int
    """How many brokers these are."""
    fact: str


class ShownGate(NamedTuple):
    """A gate at one moment."""

    name: str
    requirement: str
    policy: str
    state: str
    """``open``, ``held``, ``closed`` or ``unknown``."""
    summary: str
    blockers: tuple[Blocker, ...]
    more: int
    """Further blockers, which are not shown."""


def shown_gate(gate: Gate, view: View | None, *, seen: bool = False) -> ShownGate:
    """Return what the page shows of a gate; ``seen``: a client has seen it latched, by this relay or another one."""
    decision = gate.decision
    held = decision.held is not None or (seen and not decision.open)
    blockers = tuple(_blockers(decision, view)) if decision.verdict != "open" and not held else ()
    return ShownGate(
        name=gate.name,
        requirement=str(gate.requirement),
        policy=gate.policy,
        state="held" if held else decision.verdict,
        summary=decision.summary if decision.open or not held else f"another relay has latched it; {decision.summary}",
        blockers=blockers[:_MOST],
        more=max(len(blockers) - _MOST, 0),
    )


def _blockers(decision: Decision, view: View | None) -> Iterator[Blocker]:
    """Yield the reasons that keep a gate closed. Brokers of which the same is true are one."""
    brokers = {(broker.node_id, broker.address): broker for broker in view.brokers} if view else {}
    alike: dict[tuple[str, str], list[tuple[int | None, str | None]]] = {}
    for reason in decision.sorted_reasons:
        if reason.verdict != "open":
            broker = brokers.get((reason.node_id, reason.address or ""))
            fact = reason.text if broker is None else _EPOCH.sub("", reason.text.removeprefix(f"{broker.name} "))
            alike.setdefault((reason.condition, fact), []).append((reason.node_id, reason.address))
    for (condition, fact), keys in alike.items():
        known = [brokers[node_id, address] for node_id, address in keys if address and (node_id, address) in brokers]
        yield Blocker(condition, members(known), len(known), fact)
