"""Gates: one attribute read, and everything that an app hangs on it."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from builders import broker, deaf, update, view

from featuregate.errors import GateClosed, NotPicklable
from featuregate.gating.decisions import Decision
from featuregate.gating.gates import Gate
from featuregate.gating.latches import Policy
from featuregate.gating.store import Store
from featuregate.requirements import Api

TXN = Api("TxnOffsetCommit") >= 3


class Owner:
    def __init__(self) -> None:
        self.revived = 0
        self.waits: list[float] = []

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        self.waits.append(timeout)
        return done()

    def ensure_polling(self) -> None:
        self.revived += 1


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def store() -> Store:
    return Store(wall=lambda: 7.0)


def bind(store: Store, owner: Owner, policy: Policy = "sticky") -> Gate:
    return store.add_gate("eos", lambda: Gate("eos", TXN, policy=policy, owner=owner))


@pytest.fixture
def gate(store: Store, owner: Owner) -> Gate:
    return bind(store, owner)


def test_a_new_gate_is_closed_and_says_that_nothing_is_known(gate: Gate) -> None:
    assert not gate.open
    assert not gate
    assert gate.decision.verdict == "unknown"
    assert gate.decision.policy == "sticky"
    alone = Gate("alone", TXN, policy="live", owner=Owner())
    assert (alone.open, alone.open_after, alone.decision) == (False, 0.0, Decision.unseen(TXN, policy="live"))


def test_a_gate_is_as_true_as_it_is_open(gate: Gate, store: Store) -> None:
    assert repr(gate) == "<Gate 'eos' closed (sticky): TxnOffsetCommit>=3>"
    update(store, view(broker()))
    assert gate
    assert repr(gate) == "<Gate 'eos' open (sticky): TxnOffsetCommit>=3>"


def test_invariant_5_a_check_asks_no_owner(gate: Gate, owner: Owner) -> None:
    """Reading a gate touches no owner, lock or clock."""
    for _ in range(10):
        assert not gate.open
    assert (owner.revived, owner.waits) == (0, [])


def test_invariant_5_a_check_does_not_wait_for_the_lock(gate: Gate, store: Store) -> None:
    """Another thread may be in the middle of a poll, for as long as it likes."""
    seen: list[bool] = []
    with store.changing():
        reader = threading.Thread(target=lambda: seen.append(gate.open))
        reader.start()
        reader.join(20)
    assert seen == [False]


def test_invariant_5_require_names_the_gate_the_requirement_and_the_broker(gate: Gate, store: Store) -> None:
    """Only require() raises."""
    update(store, view(broker(1), broker(2, txn=2)))
    with pytest.raises(GateClosed) as caught:
        gate.require()
    for word in ("eos", "TxnOffsetCommit>=3", "broker 2 (b2:9092)"):
        assert word in str(caught.value)


def test_waiting_is_bounded_by_the_caller(gate: Gate, owner: Owner, store: Store) -> None:
    assert not gate.wait(0.5)
    update(store, view(broker()))
    assert gate.wait(0.5)
    assert owner.waits == [0.5, 0.5]


def test_a_pin_stays_while_the_gate_moves(owner: Owner, store: Store) -> None:
    """A unit of work has one decision."""
    gate = bind(store, owner, "live")
    update(store, view(broker()))
    pin = gate.pin()
    update(store, view(broker(1), deaf(2)))
    assert not gate.open
    assert pin.open
    assert pickle.loads(pickle.dumps(pin)) == pin
    assert str(pin) == f"{gate.name} {pin.decision}"


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_invariant_8_a_gate_does_not_travel(gate: Gate, send: Callable[[object], object]) -> None:
    """The error says to send gate.pin() instead."""
    with pytest.raises(
        NotPicklable, match=r"^a gate cannot be pickled: it lives in one process; send gate\.pin\(\), which"
    ):
        send(gate)


def test_a_check_has_no_hook_that_would_slow_it_down() -> None:
    """CPython 3.11 reads the slots of a class that has one of these six times slower."""
    assert not hasattr(Gate, "__getattr__")
    assert Gate.__getattribute__ is object.__getattribute__


@pytest.mark.parametrize(
    "check", [lambda gate: gate.open, lambda gate: gate.pin().open, lambda gate: gate.decision.open]
)
def test_invariant_8_a_gate_in_a_forked_child_revives_its_owner_once(
    gate: Gate, owner: Owner, store: Store, check: Callable[[Gate], bool]
) -> None:
    """The first check of any kind in a forked child starts a poll loop; the next ones are bare reads again."""
    update(store, view(broker()))
    gate.forked()
    assert check(gate)
    assert gate.open
    assert owner.revived == 1
    assert type(gate) is Gate


def test_a_gate_in_a_forked_child_takes_a_decision(gate: Gate, owner: Owner, store: Store) -> None:
    """Where something else has started the poll loop already, the next check need not."""
    update(store, view(broker()))
    decision = gate.decision
    gate.forked()
    gate.update(decision)
    assert gate.open
    assert owner.revived == 0


# ---------------------------------------------------------------------- guards


def test_a_guard_runs_the_function_only_while_open(gate: Gate, store: Store) -> None:
    """The fallback takes the same arguments."""

    def old(number: int, *, word: str) -> str:
        return f"old {number} {word}"

    @gate.guard(fallback=old)
    def new(number: int, *, word: str) -> str:
        return f"new {number} {word}"

    assert new(1, word="a") == gate.guard(new, fallback=old)(1, word="a") == "old 1 a"
    update(store, view(broker()))
    assert new(2, word="b") == "new 2 b"


@pytest.mark.parametrize("guard", [lambda gate: gate.guard, lambda gate: gate.guard()])
def test_a_guard_without_a_fallback_raises(gate: Gate, store: Store, guard: Callable[[Gate], Any]) -> None:
    """With parentheses and without. The error carries the decision, as that of require() does."""

    @guard(gate)
    def new() -> str:
        return "new"

    with pytest.raises(GateClosed, match="eos"):
        new()
    update(store, view(broker()))
    gate.require()
    assert new() == "new"


def test_require_over_a_function_says_what_to_write(gate: Gate) -> None:
    """It is a call, and not a decorator."""
    with pytest.raises(TypeError, match=r"^call gate\.require\(\) .* over a function write @gate\.guard$"):
        gate.require(len)  # type: ignore[arg-type]  # the mistake is the test


def test_a_guard_keeps_the_signature_and_the_name(gate: Gate) -> None:
    """Frameworks look at the signature and the name."""

    @gate.guard()
    def new(number: int, *, word: str = "a") -> str:
        """Say so."""
        return f"{number}{word}"

    assert (new.__name__, new.__doc__) == ("new", "Say so.")
    assert str(inspect.signature(new)) == "(number: 'int', *, word: 'str' = 'a') -> 'str'"


def test_a_guard_stands_before_a_method(gate: Gate, store: Store) -> None:
    """``self`` passes through, and the fallback may be a method too."""

    class App:
        name = "app"

        def old(self) -> str:
            return f"old {self.name}"

        @gate.guard(fallback=old)
        def new(self) -> str:
            return f"new {self.name}"

    assert App().new() == "old app"
    update(store, view(broker()))
    assert App().new() == "new app"


async def test_a_guard_stands_before_a_coroutine_function(gate: Gate, store: Store) -> None:
    """It stays a coroutine function, and looks at the gate when it is awaited."""

    async def old() -> str:
        return "old"

    @gate.guard(fallback=old)
    async def new() -> str:
        await asyncio.sleep(0)
        return "new"

    @gate.guard()
    async def strict() -> str:
        return "strict"

    assert inspect.iscoroutinefunction(new)
    assert await new() == "old"
    with pytest.raises(GateClosed):
        await strict()
    early = new()
    update(store, view(broker()))
    assert await early == "new"


def test_a_guard_does_not_mix_kinds(gate: Gate) -> None:
    """Callers could not tell whether to await."""

    async def coroutine() -> str:
        return ""

    def plain() -> str:
        return ""

    with pytest.raises(TypeError, match=r"plain is a plain function .*coroutine a coroutine function: "):
        gate.guard(fallback=coroutine)(plain)  # type: ignore[arg-type]  # the mistake is the test
    with pytest.raises(
        TypeError,
        match=r"coroutine is a coroutine function .*plain a plain function: callers could not tell whether to await$",
    ):
        gate.guard(fallback=plain)(coroutine)  # type: ignore[arg-type]  # the mistake is the test


class Asked:
    """A function with settings of its own, as apps write it."""

    async def __call__(self) -> str:
        return "new"

    def __repr__(self) -> str:
        return "<Asked>"


async def test_a_guard_knows_an_object_that_is_called_as_a_coroutine_function(gate: Gate, store: Store) -> None:
    """Not its class, a call of which gives an object."""

    def plain() -> str:
        return "old"

    async def old() -> str:
        return "old"

    with pytest.raises(TypeError, match=r"plain is a plain function and its fallback <Asked> a coroutine function: "):
        gate.guard(fallback=Asked())(plain)  # type: ignore[arg-type]  # the mistake is the test
    with pytest.raises(TypeError, match=r"^<Asked> is a coroutine function and its fallback .*plain a plain function"):
        gate.guard(fallback=plain)(Asked())  # type: ignore[arg-type]  # the mistake is the test
    new: Any = gate.guard(fallback=old)(Asked())
    made = gate.guard(Asked)
    with pytest.raises(GateClosed):
        made()
    assert await new() == "old"
    update(store, view(broker()))
    assert await new() == "new"
    assert isinstance(made(), Asked)


def test_a_guard_calls_functions_only(gate: Gate) -> None:
    """A function that was called by mistake is refused where it is guarded, and not where the gate closes."""
    with pytest.raises(TypeError, match="a guard calls a function, not 'old'"):
        gate.guard(fallback="old")(len)  # type: ignore[arg-type]  # the mistake is the test
    with pytest.raises(TypeError, match="a guard calls a function, not 5"):
        gate.guard()(5)  # type: ignore[arg-type]  # the mistake is the test
