"""Which gates a move opens, at once and later, and in which order a downgrade goes."""

from dataclasses import replace

from fleet_evidence import NOW, gate_use

from featuregate.admin.updates import Update
from featuregate.testing import release_view
from featuregate_fleet.commands.update_evidence import verdict_on
from featuregate_fleet.readiness.evidence import AppUsage, Evidence, GateUse
from featuregate_fleet.readiness.gates import downgrade_order, gate_openings
from featuregate_fleet.readiness.moves import Finalize

CLOSED = gate_use(states=("closed",), latched=False, levels={"transaction.version": 0}, instances=5)
UP = Finalize("transaction.version", 2)


def evidence(*uses: GateUse, **levels: int) -> Evidence:
    finalized = {"metadata.version": 25, **{name.replace("_", "."): level for name, level in levels.items()}}
    return Evidence(apps=AppUsage(gates=uses), view=release_view("4.2", finalized=finalized))


def test_only_gates_that_the_move_opens_are_named() -> None:
    """Not one that is open, that stays closed, that cannot be read, or an app without gates."""
    uses = (
        gate_use(),
        replace(CLOSED, requirement="group.version>=1", levels={"group.version": 0}),
        replace(CLOSED, requirement="what.is.this()"),
        replace(CLOSED, gate=None, requirement=None),
    )
    assert list(gate_openings(evidence(*uses), UP)) == []
    assert list(gate_openings(Evidence(), UP)) == []


def test_a_plan_has_the_gates_that_open() -> None:
    """Also where the evidence has no objection."""
    found = verdict_on(evidence(replace(CLOSED, held=2)), [Update("transaction.version", 2)], NOW)
    (opens,) = found.opens
    assert (opens.app, opens.gate, opens.at_once, opens.burn_in, opens.held) == ("orders", "eos", 3, 0, 2)
    assert found.order == ()


def test_a_downgrade_has_an_order() -> None:
    """Hold what may latch meanwhile, release what is latched, then lower what depends on other levels first."""
    waiting = gate_use(gate="next", app="billing", states=("closed",), latched=False, open_after=60.0)
    live = gate_use(gate="live", latched=False, policy="live")
    held = replace(waiting, gate="held", held=2)
    other = gate_use(gate="other", requirement="group.version>=1", levels={"group.version": 1})
    unread = gate_use(gate="unread", requirement="what.is.this()")
    seen = evidence(waiting, live, held, other, unread, gate_use(), transaction_version=2, group_version=1)
    assert list(downgrade_order(seen, [Finalize("metadata.version", 24), Finalize("transaction.version", 0)])) == [
        "Hold gate 'next' of app 'billing' closed, so that it does not latch meanwhile.",
        "Run a release of app 'orders' without gate 'eos', in 2 instances.",
        "Lower transaction.version to 0.",
        "Lower metadata.version to 24.",
    ]
    assert list(downgrade_order(seen, [Finalize("group.version", 1)])) == []
    assert list(downgrade_order(Evidence(), [Finalize("group.version", 0)])) == []
