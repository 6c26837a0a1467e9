"""The flags of a cluster: made once for each view and each decision of a gate, and encoded once for all requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.flags import NO_FLAGS, Flag, gate_flag, view_flags
from featuregate.sources.seen import Seen, digest
from featuregate_relay.states import is_open_in

if TYPE_CHECKING:
    from featuregate import Decision, View
    from featuregate_relay.clusters import ServedCluster

_LOOK_SECONDS: Final = 0.05
"""Seconds between two checks of whether a view is stale: a check costs more than a response."""


class AllFlags(NamedTuple):
    """All flags, as a client gets them."""

    tag: Seen
    beginning: bytes
    """The response as bytes, up to the age of the view."""


class Flags:
    """The flags of a cluster by one view. OFREP has no reason STALE, so their metadata says how old the evidence is."""

    def __init__(
        self,
        cluster: ServedCluster,
        view: View | None,
        decisions: tuple[Decision, ...],
        *,
        stale: bool,
        before: Flags | None,
    ) -> None:
        self.view = view
        self.decisions = decisions
        self.stale = stale
        gates = {gate.name: gate_flag(decision) for gate, decision in zip(cluster.gates, decisions, strict=True)}
        self.of_view = _of_view(view, before)
        self._by_key = gates | dict(self.of_view)
        self.keys = tuple(self._by_key)
        cluster_id = None if view is None else view.cluster_id
        self._freshness = {"stale": stale} | ({} if cluster_id is None else {"clusterId": cluster_id})
        self._latches = cluster.latches(cluster_id)
        opened = {
            gate.name
            for gate, decision in zip(cluster.gates, decisions, strict=True)
            if is_open_in(cluster_id, decision)
        }
        self._latched = frozenset(latch for key, latch in self._latches.items() if key in opened)
        self._beginnings: dict[str, bytes] = {}
        self.all: AllFlags | None = None if view is None else self._all(view)

    def aged(self, age: float) -> bytes:
        """Return the age of the view, as the metadata of a response has it."""
        return b"" if self.view is None else b',"age":%r' % age

    def one(self, key: str) -> bytes | None:
        """Return the response with this flag, up to the age of the view; None: there is no such flag."""
        if key not in self._beginnings and (flag := self._by_key.get(key)) is not None:
            response = to_response(key, flag)
            whole = encode(response | {"metadata": response["metadata"] | self._freshness})
            self._beginnings[key] = whole.removesuffix(b"}}")
        return self._beginnings.get(key)

    def held(self, seen: Iterable[Seen]) -> AllFlags | None:
        """Return all flags, with the gates open that a client has seen latched; None: no broker has answered yet."""
        closed = frozenset(self._latches.values()) - self._latched
        held = closed.intersection(latch for tag in seen for latch in tag.latched)
        if self.all is None or not held:
            return self.all
        flags = {key: _held(flag) if self._latches.get(key) in held else flag for key, flag in self._by_key.items()}
        tag = replace(self.all.tag, content=self._content(flags), latched=self._latched | held)
        return AllFlags(tag, self._beginning(flags))

    def _all(self, view: View) -> AllFlags:
        """Return all flags. Their tag has the epoch of the view, and the time at which brokers said so."""
        flags = self._by_key
        return AllFlags(Seen.of(view, self._content(flags), self._latched), self._beginning(flags))

    def _content(self, flags: Mapping[str, Flag]) -> str:
        """Identify the values, without their reasons, which each replica says in its own words."""
        return digest([self.stale, *([key, flag.value, flag.variant] for key, flag in flags.items())], 32)

    def _beginning(self, flags: Mapping[str, Flag]) -> bytes:
        response = {"flags": [to_response(key, flag) for key, flag in flags.items()], "metadata": self._freshness}
        return encode(response).removesuffix(b"}}")


class ClusterFlags:
    """The flags of a cluster as they are now."""

    def __init__(self, cluster: ServedCluster) -> None:
        self.cluster = cluster
        self._flags: Flags | None = None
        self._stale = True
        self._looked: tuple[View | None, float] | None = None

    def now(self) -> tuple[Flags, float]:
        """Return the flags, and the age of the view in seconds."""
        view, age = self.cluster.features.view_and_age()
        stale, decisions = self._is_stale(view, age), tuple([gate.decision for gate in self.cluster.gates])
        flags = self._flags
        if (
            flags is None
            or flags.view is not view
            or flags.stale is not stale
            or any(map(is_not, flags.decisions, decisions))
        ):
            flags = self._flags = Flags(self.cluster, view, decisions, stale=stale, before=flags)
        return flags, age

    def _is_stale(self, view: View | None, age: float) -> bool:
        """Say whether the view is stale; look by the clock of the view, which may jump."""
        if self._looked is None or self._looked[0] is not view or not 0 <= age - self._looked[1] < _LOOK_SECONDS:
            self._looked = view, age
            self._stale = self.cluster.features.health()["status"] not in {"ok", "degraded"}
        return self._stale


def _of_view(view: View | None, before: Flags | None) -> Mapping[str, Flag]:
    """Return the flags of a view. Most polls find what the last one has found, and the same flags."""
    if view is None:
        return NO_FLAGS
    if before is not None and before.view is not None and view.same_content(before.view):
        return before.of_view
    return view_flags(view)


def _held(flag: Flag) -> Flag:
    """Keep a closed gate open that the client has seen open: a latch is a set that only grows."""
    return flag._replace(value=True, variant="open", why=f"held open: another relay has latched it; {flag.why}")


def to_response(key: str, flag: Flag) -> dict[str, Any]:
    """Return the success response of OpenFeature's remote evaluation (OFREP 0.3.0).

    The reason is always STATIC, as far as there is a value: the context of a request does not matter.
    """
    known = {} if flag.value is None else {"value": flag.value}
    reason = "UNKNOWN" if flag.value is None else "STATIC"
    return {"key": key, **known, "reason": reason, "variant": flag.variant, "metadata": {"why": flag.why}}


def encode(content: dict[str, Any]) -> bytes:
    """Return JSON, as Starlette's responses have it."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
