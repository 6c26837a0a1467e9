"""Gates: the one cheap question that an app asks before it switches its behaviour; what is wrong with them. Pure.

``gate.open`` is one attribute read. It is written by the store after each poll, so a check does no I/O, takes no
lock and raises nothing. Only :meth:`Gate.require` and a guard without a fallback raise.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Never, ParamSpec, Protocol, TypeVar, cast, overload

from featuregate.catalog import close_to, features
from featuregate.errors import GateClosed, NotPicklable
from featuregate.gating.decisions import HOLD, Decision
from featuregate.gating.latches import LatchKey, Policy
from featuregate.printable import some
from featuregate.requirements import Requirement, features_in

if TYPE_CHECKING:
    from featuregate.gating.holds import Holds
    from featuregate.view.cluster_view import View

P = ParamSpec("P")
R = TypeVar("R")


class Owner(Protocol):
    """What keeps a gate fresh: a discoverer."""

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Block until ``done()`` or until the timeout in seconds; return which."""
        ...

    def ensure_polling(self) -> None:
        """Start polling where nothing polls: after a fork, or before the first start."""
        ...


class Decorator(Protocol):
    """What takes any function and gives one of the same signature."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Decorate the function."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One decision frozen for a unit of work: a transaction, a generation, a micro-batch. Picklable."""

    gate: str
    decision: Decision

    @property
    def open(self) -> bool:
        """Whether the gate was open when the pin was taken."""
        return self.decision.open

    def __str__(self) -> str:
        return f"{self.gate} {self.decision}"


class Gate:
    """A named requirement, bound to a discoverer. Get one from :meth:`featuregate.Discoverer.gate`.

    Attributes
    ----------
    open : bool
        Whether the behaviour may be on. False until a view proves the requirement.
    decision : Decision
        The same with its reasons, broker by broker.
    """

    __slots__ = ("__weakref__", "_owner", "decision", "key", "name", "open", "open_after", "policy", "requirement")

    open: bool
    decision: Decision

    def __init__(
        self, name: str, requirement: Requirement, *, policy: Policy, owner: Owner, open_after: float = 0.0
    ) -> None:
        self.name = name
        self.requirement = requirement
        self.key = LatchKey(name, str(requirement))
        self.policy: Policy = policy
        self.open_after = open_after
        self._owner = owner
        self.update(Decision.unseen(requirement, policy=policy))

    def __bool__(self) -> bool:
        return self.open

    def __repr__(self) -> str:
        return f"<Gate {self.name!r} {'open' if self.open else 'closed'} ({self.policy}): {self.requirement}>"

    def __reduce__(self) -> str:
        raise NotPicklable("gate", "it lives in one process; send gate.pin(), which holds its decision")

    def update(self, decision: Decision) -> None:
        """Take a decision; called by the store after each view."""
        self.decision = decision
        self.open = decision.open

    def forked(self) -> None:
        """Make the next check notice that it runs in a forked child, where no thread polls."""
        self.__class__ = _ForkedGate

    def pin(self) -> Pin:
        """Freeze the current decision for a unit of work."""
        return Pin(gate=self.name, decision=self.decision)

    def require(self, *decorated: Never) -> None:
        """Return if the gate is open.

        Raises `GateClosed`: it is not; the error names the gate, the requirement and the brokers that lack it.
        Raises `TypeError`: it was written over a function, as ``@gate.guard`` is.
        """
        if decorated:
            raise TypeError("call gate.require() where the gate must be open; over a function write @gate.guard")
        if not self.open:
            raise GateClosed(self.name, self.decision)

    def wait(self, timeout: float) -> bool:
        """Block until the gate is open, for ``timeout`` seconds at most; return whether it is.

        In a coroutine: ``await asyncio.to_thread(gate.wait, 30)``.
        """
        return self._owner.wait_until(lambda: self.open, timeout)

    @overload
    def guard(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def guard(self, /) -> Decorator: ...

    @overload
    def guard(self, /, *, fallback: Callable[P, R]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def guard(
        self, function: Callable[..., Any] | None = None, /, *, fallback: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Run the function only while the gate is open, and ``fallback`` otherwise.

        As ``@gate.guard``, ``@gate.guard()`` or ``@gate.guard(fallback=...)``. Functions, methods and coroutine
        functions alike; the signature stays. The gate is looked at once for each call, when it begins (for a coroutine
        function: when it is first awaited).

        Raises `TypeError`: one of the two is a coroutine function and the other is not, or one cannot be called.

        Parameters
        ----------
        fallback
            Called with the same arguments while the gate is closed. Without one, such a call raises
            :class:`~featuregate.errors.GateClosed`. A coroutine function wants a coroutine function.
        """
        if function is not None:
            return _guarded(self, function, fallback)
        return functools.partial(_guarded, self, fallback=fallback)


class _ForkedGate(Gate):
    """A gate in a forked child, until its first check there starts a thread that polls.

    A class of its own rather than a ``__getattr__`` of every gate, with which CPython 3.11 reads ``open`` six times
    slower.
    """

    __slots__ = ()

    @property
    def open(self) -> bool:  # type: ignore[override]  # covers the slot, which keeps its value
        self._become_plain()
        self._owner.ensure_polling()
        return self.open

    @property
    def decision(self) -> Decision:  # type: ignore[override]  # as above; a pin asks for nothing else
        self._become_plain()
        self._owner.ensure_polling()
        return self.decision

    def update(self, decision: Decision) -> None:
        self._become_plain()
        self.update(decision)

    def _become_plain(self) -> None:
        gate: Gate = self
        gate.__class__ = Gate


def _guarded(gate: Gate, function: Callable[P, R], fallback: Callable[P, R] | None) -> Callable[P, R]:
    for given in (function,) if fallback is None else (function, fallback):
        if not callable(given):
            raise TypeError(f"a guard calls a function, not {given!r}")
    is_async = _is_async(function)
    if fallback is not None and _is_async(fallback) is not is_async:
        kinds = ("a coroutine function", "a plain function")[:: 1 if is_async else -1]
        names = [getattr(given, "__qualname__", repr(given)) for given in (function, fallback)]
        raise TypeError(
            f"{names[0]} is {kinds[0]} and its fallback {names[1]} {kinds[1]}: callers could not tell whether to await"
        )

    def refuse(*_args: P.args, **_kwargs: P.kwargs) -> Never:
        raise GateClosed(gate.name, gate.decision)

    return (_guard_async if is_async else _guard_plain)(gate, function, fallback or refuse)


def _is_async(function: Callable[..., Any]) -> bool:
    """Say whether a call gives a coroutine, also of an object whose ``__call__`` is a coroutine function."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _guard_plain(gate: Gate, function: Callable[P, R], fallback: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        if gate.open:
            return function(*args, **kwargs)
        return fallback(*args, **kwargs)

    return guarded


def _guard_async(gate: Gate, function: Callable[P, R], fallback: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> object:
        called = function if gate.open else fallback
        return await cast("Callable[P, Awaitable[object]]", called)(*args, **kwargs)

    # A coroutine function stays one: R is its coroutine, which the cast cannot say.
    return cast("Callable[P, R]", guarded)


def gate_troubles(gates: Collection[Gate], view: View | None, holds: Holds) -> Iterator[str]:
    """Yield what is wrong with gates: what an app relies on without the cluster, and what an operator expects in vain.

    A gate that only its latch holds open, though all brokers answer, is one: the app relies on what the cluster
    no longer has. A misspelt feature is none once a broker lists it: the cluster may be newer than the catalog.
    """
    if view is None and (names := [gate.name for gate in gates if gate.open]):
        cluster_ids = {gate.decision.cluster_id for gate in gates if gate.open}
        where = f"by the latches of cluster {' and '.join(map(str, cluster_ids))}"
        yield f"no broker has answered since the start: {some(names)} open {where}"
    for gate in gates:
        if gate.decision.held is not None and gate.decision.verdict == "closed":
            yield f"gate {gate.name} is {gate.decision.held}: the cluster no longer has what the app relies on"
    listed = () if view is None else (view.finalized, *(each.supported for each in view.answering))
    yield from (text for gate in gates for name, text in misspelt(gate) if not any(name in each for each in listed))
    for gate in gates:
        late = (reason for reason in gate.decision.reasons if reason.condition == HOLD and reason.verdict == "open")
        yield from (f"gate {gate.name}: a hold {reason.text}" for reason in late)
    yield from holds.misspelt([gate.name for gate in gates])


def misspelt(gate: Gate) -> Iterator[tuple[str, str]]:
    """Yield each feature that the catalog lacks and that resembles a known one, which may keep the gate closed."""
    for name in features_in(gate.requirement):
        if name not in features() and (close := _resembling(name)):
            yield name, f"gate {gate.name}: no feature is known as {name}; did you mean {' or '.join(close)}?"


@lru_cache(maxsize=128)
def _resembling(name: str) -> tuple[str, ...]:
    """Return the features of the catalog that a name may mean: `health` asks for the same names again and again."""
    return close_to(name, features())
