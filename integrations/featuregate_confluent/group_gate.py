"""A gate for a group: no member uses the new behaviour before every live member can, and has stopped the old one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self, cast

from featuregate.errors import ClosedError, ConfigError
from featuregate.forks import follow_forks
from featuregate.gating.decisions import against
from featuregate.gating.events import Event, GateMoved
from featuregate.gating.gates import Gate, Owner
from featuregate.logs import get_logger
from featuregate.owner_thread import OwnerThread
from featuregate.printable import harmless
from featuregate_confluent.latch.group_agreement import (
    CONDITION,
    GroupLatch,
    GroupLatchState,
    GroupSeen,
    GroupStep,
    GroupStore,
    Side,
    decide,
    group_decision,
)

if TYPE_CHECKING:
    from featuregate import Discoverer

logger = get_logger("featuregate.confluent")

_SOON: Final = 0.2
"""Seconds until the next look after one that has moved this member: others move, too."""
_CLOSE_SECONDS: Final = 2.0


def _nothing_to_stop() -> None:
    """Stop nothing: the old and the new behaviour may run at the same time."""


class GroupGate(Gate):
    """Opens when the gates of all live members of a group are open, and stays open for the group.

    .. code-block:: python

        gate = GroupGate(
            features,
            features.gate("new-format", "group.version>=1"),
            group="billing",
            store=TopicLatchStore(config, app="billing"),
            members=GroupMembers(config, "billing"),
        )
        consumer.subscribe(topics, on_assign=lambda consumer, _: gate.joined(consumer.memberid()))
        with gate:
            ...  # gate.open, gate.guard, gate.wait: as of every gate

    Raises `ConfigError`: the gate is live, or a name is empty.

    Parameters
    ----------
    features
        The discoverer of ``gate``.
    gate
        A sticky gate: it says whether this member is ready.
    group
        The name of the group. Its members have gates with the same name and requirement.
    store
        Where members write, for example a :class:`~featuregate_confluent.TopicLatchStore` of one ``app``.
    members
        Returns the names of all members of the group that are live now, as brokers or another authority list them. It
        may block, and raises where they are not known. :class:`~featuregate_confluent.GroupMembers` asks brokers.
    member
        The name of this process among them, which must be another one after each start. None: :meth:`joined` says it.
    stop_old
        Called in the thread that looks, when every member is ready and :attr:`side` has become ``"neither"``. It
        returns when this member has stopped the old behaviour. Without it the old behaviour of one member and the new
        one of another may overlap for as long as a unit of work takes.
    interval
        Seconds between two looks at the group, until it has opened. A look asks ``members`` and the store. Once every
        member is ready, looks follow each other faster.

    Attributes
    ----------
    side : str
        ``"old"`` or ``"new"``: the behaviour that this member may have. ``"neither"``: the group is about to open, or
        it is not known yet whether it has; an app whose members must not differ waits.

    Notes
    -----
    A member that is not in ``members``, such as a zombie that the group has replaced, holds nothing up. A member
    without featuregate, or without this gate, keeps the group closed while it is listed; after the group has opened,
    nothing keeps such a member out.
    """

    side: Side

    def __init__(
        self,
        features: Discoverer,
        gate: Gate,
        *,
        group: str,
        store: GroupStore,
        members: Callable[[], Collection[str]],
        member: str | None = None,
        stop_old: Callable[[], object] = _nothing_to_stop,
        interval: float = 30.0,
    ) -> None:
        if gate.policy != "sticky":
            raise ConfigError("gate", "must be sticky: a live gate may close after the group has opened")
        for key, name in (("group", group), ("member", member)):
            if name is not None and not name.strip():
                raise ConfigError(key, "must be a name")
        self.side = "neither"
        self._gate = gate
        self._group = group
        self._store = store
        self._members = members
        self._member = member
        self._stop_old = stop_old
        self._interval = interval
        self._seen: tuple[str, ...] = ()
        self._stopped = self._closed = False
        self._joins = 0
        self._why = "the group has not been looked at yet"
        self._error: str | None = None
        self._renew_locks()
        super().__init__(gate.name, gate.requirement, policy="sticky", owner=cast("Owner", weakref.proxy(self)))
        reference = weakref.ref(self)
        self._off = features.on_event(lambda event: _wake_for(reference, event))
        weakref.finalize(self, self._off).atexit = False
        follow_forks(self)

    # ------------------------------------------------------------------ life

    def start(self) -> Self:
        """Look at the group in a daemon thread until it has opened. Starting twice is starting once."""
        if self._closed:
            raise ClosedError("this gate has been closed; make a new one")
        with self._changed:
            if not self.open:
                self._thread.start()
        return self

    def close(self) -> None:
        """Stop looking. Closing twice is closing once. What was written stays, and so does the decision."""
        self._off()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.end(_CLOSE_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def forked(self) -> None:
        """In a forked child nothing looks, because the child is not a member; a gate that was open stays open."""
        self._renew_locks()
        self._closed = True
        if not self.open:  # without the decision of the gate below, whose first read in a child starts polling
            self.side, self._why = "neither", "this is a forked child of a member: make another gate for the child"
            self.update(against(self.decision, CONDITION, self._why))

    # ------------------------------------------------------------------ the group

    def joined(self, member: str | None) -> None:
        """Say under which name this process is a member, and look at the group soon; None: it is not a member any more.

        Call it in confluent-kafka's ``on_assign``, with ``consumer.memberid()``. In another thread that call may block
        for ever. Under a new name this member is at neither side until it has looked: it may have missed the opening.
        """
        with self._changed:
            if member == self._member:
                return
            self._member = member
            self._joins += 1
            if not self.open:
                self._move("neither", "this process has joined the group, and has not looked at it yet")
        self._thread.wake()

    def look(self) -> None:
        """Look at the group once, and do what follows; the thread of :meth:`start` calls it. Never raises.

        Blocks for as long as ``members``, the store and ``stop_old`` do.
        """
        with self._looking:
            try:
                while not self.open and self._look_once():
                    pass
            except Exception as error:  # noqa: BLE001 - the app's functions and its store may raise anything
                said = str(error) or repr(error)
                if said != self._error:
                    logger.warning("gate %s of group %s: %s", self.name, self._group, said)
                self._error = said
            else:
                self._error = None

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Block until ``done()``, for ``timeout`` seconds at most; return whether it is."""
        if not self._closed:
            self.start()
        with self._changed:
            self._changed.wait_for(lambda: done() or self._closed, min(timeout, threading.TIMEOUT_MAX))
        if self._closed and not done():
            raise ClosedError("this gate has been closed, so that it cannot open any more; make a new one")
        return done()

    def ensure_polling(self) -> None:
        """Do nothing: a check starts no thread."""

    def health(self) -> dict[str, Any]:
        """Return the state of the group for a periodic health check, as plain JSON-able values."""
        return harmless(
            {
                "gate": self.name,
                "group": self._group,
                "side": self.side,
                "open": self.open,
                "why": self._why,
                "members": list(self._seen),
                "ready": self._gate.open,
                "error": self._error,
            }
        )

    # ------------------------------------------------------------------ inside

    def _look_once(self) -> bool:
        """Look, and do what follows; return whether another look should follow at once."""
        cluster_id = self._gate.decision.cluster_id
        if cluster_id is None:
            self._move("neither", "no broker has answered with a cluster id yet")
            return False
        key = GroupLatch(cluster_id, self._group, self.name, str(self.requirement))
        joins = self._joins  # before the name of this member
        seen = self._see(key)
        step = decide(seen)
        if step.writes is not None:
            self._write(key, seen, step)
        if step.opens:
            opened = GroupLatchState(opened_at=datetime.now(UTC).timestamp())
            self._store.save_group(key, opened, gone=sorted(seen.state.stages))
        return not self._settle(step, joins) or step.writes in ("ready", "stopped")

    def _see(self, key: GroupLatch) -> GroupSeen:
        """Read, in this order, the name of this member, the members, and what these have written."""
        member = self._member
        members = frozenset(self._members())
        self._seen = tuple(sorted(members))
        state = self._store.load_group(key)
        return GroupSeen(member=member, members=members, state=state, ready=self._gate.open)

    def _write(self, key: GroupLatch, seen: GroupSeen, step: GroupStep) -> None:
        """Write the stage of this member, once it has done what the stage says."""
        assert seen.member is not None
        assert step.writes is not None
        if step.writes == "stopped":
            self._move("neither", step.why)
            if not self._stopped:
                self._stop_old()
                self._stopped = True
        gone = sorted(set(seen.state.stages) - seen.members) if step.writes == "ready" else ()
        self._store.save_group(key, GroupLatchState({seen.member: step.writes}), gone=gone)

    def _settle(self, step: GroupStep, joins: int) -> bool:
        """Move to the side of a step; not to the old one where this process has joined again since the look began."""
        with self._changed:
            if step.side == "old" and joins != self._joins:
                return False
            self._stopped = self._stopped and step.side != "old"
            self._move(step.side, step.why)
        return True

    def _move(self, side: Side, why: str) -> None:
        with self._changed:
            if side != self.side:
                logger.info("gate %s of group %s: %s: %s", self.name, self._group, side, why)
            self.side, self._why = side, why
            self.update(group_decision(self._gate.decision, self._group, side, why))
            self._changed.notify_all()

    def _renew_locks(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._looking = threading.Lock()
        self._thread = OwnerThread(self, GroupGate._step, name="featuregate-group")

    def _step(self) -> float | None:
        """Look; return the seconds until the next look, None where none is needed any more."""
        self.look()
        if self.open or self._closed:
            return None
        return min(_SOON, self._interval) if self._stopped else self._interval


def _wake_for(reference: weakref.ref[GroupGate], event: Event) -> None:
    gate = reference()
    if gate is not None and isinstance(event, GateMoved) and event.gate == gate.name:
        gate._thread.wake()  # noqa: SLF001 - a function of this class, which must not keep it alive
