"""Gates of apps and their reports: the rows whole, as operators read them, and what a move opens."""

from dataclasses import replace
from datetime import timedelta

import pytest
from fleet_evidence import NOW, WEEK, gate_use, view
from told_rows import said, told

from featuregate.admin.updates import Update
from featuregate.catalog import captured
from featuregate.testing import release_view
from featuregate_fleet.commands.update_evidence import verdict_on
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.checks.gate_checks import app_gates, downgrade_order, gate_openings, usage_reports
from featuregate_fleet.readiness.evidence import AppUsage, Evidence, GateUse
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move, ToRelease

HOUR = timedelta(hours=1)
LOWER, HIGHER = Finalize("transaction.version", 1), Finalize("transaction.version", 3)
NOW_AT_4_2 = view("4.2", transaction_version=2)
CLOSED = gate_use(states=("closed",), latched=False, levels={"transaction.version": 1})
FIVE_CLOSED = replace(CLOSED, levels={"transaction.version": 0}, instances=5)
CLOSED_ON_3 = replace(CLOSED, requirement="transaction.version>=3")


def gates(move: Move, *uses: GateUse) -> str:
    named = tuple(replace(use, gate=f"g{at}") for at, use in enumerate(uses))
    return told(app_gates(Evidence(apps=AppUsage(gates=named), view=NOW_AT_4_2), move))


def test_gates_that_a_lower_level_takes_from_apps_are_told() -> None:
    """A latched one blocks, one that is not warns, and one that it does not touch is ok."""
    latched = gate_use()
    uses = (
        latched,
        replace(latched, instances=1, closed=True, states=("closed", "held")),
        replace(latched, latched=False, policy="live"),
        replace(latched, requirement="transaction.version>=3", levels={}),
        replace(latched, requirement="group.version>=1"),
        replace(latched, requirement="x~1"),
        replace(latched, requirement=None),
    )
    assert gates(LOWER, *uses) == said("gate 1")
    assert list(app_gates(Evidence(), LOWER)) == []


def test_gates_that_are_closed_are_told() -> None:
    """One may have opened since; one that the move opens says in how many instances."""
    uses = CLOSED, replace(CLOSED, policy="live"), replace(CLOSED, requirement="transaction.version>=9")
    assert gates(LOWER, *uses) == said("gate 2")
    held = replace(CLOSED_ON_3, instances=5, held=1, open_after=90.4)
    assert gates(HIGHER, held, replace(CLOSED_ON_3, instances=3, held=1), replace(CLOSED_ON_3, instances=1)) == said(
        "gate 3"
    )


def test_gates_of_which_it_is_not_known_are_told() -> None:
    """A release decides of all that it has, and other moves of what they name."""
    unknown = gate_use("transaction.version>=2", levels={"transaction.version": None})
    evidence = Evidence(apps=AppUsage(gates=(unknown, replace(unknown, latched=False))))
    moves = Deprecate("transaction.version", 0), Finalize("group.version", 0), DropApi(1, 4)
    release = captured()["4.2"]
    assert "".join(told(app_gates(evidence, move)) for move in (ToRelease(release), *moves)) == said("gate 4")
    api = Evidence(apps=AppUsage(gates=(gate_use("Fetch>=4"), gate_use("Fetch in 0..3"))), view=NOW_AT_4_2)
    assert told(app_gates(api, DropApi(1, 12))) == said("gate 5")
    assert told(app_gates(api, DowngradeTo(release, "4.2.0"))) == said("gate 6")


@pytest.mark.parametrize(
    ("move", "use", "verdict"),
    [
        (LOWER, gate_use(), "block"),
        (DowngradeTo(captured()["3.9"], "3.9"), gate_use(), "block"),
        (Deprecate("transaction.version", 2), gate_use(), "block"),
        (DropApi(1, 19), gate_use("Fetch>=4"), "block"),
        (DropApi(1, 12), gate_use("Fetch in 4..11"), "block"),
        (ToRelease(captured()["3.9"]), gate_use("Fetch>=18"), "block"),
        (LOWER, gate_use("Produce>=0 | metadata.version>=1"), "ok"),
        (HIGHER, gate_use(), "ok"),
        (Finalize("group.version", 0), gate_use(), "ok"),
        (Deprecate("transaction.version", 1), gate_use(), "ok"),
        (DropApi(1, 12), gate_use(), "ok"),
    ],
)
def test_a_move_that_takes_what_an_app_is_latched_on_blocks(move: Move, use: GateUse, verdict: str) -> None:
    """KIP-584's danger: the app would go on as if the level were there."""
    (row,) = app_gates(Evidence(apps=AppUsage(gates=(use,)), view=NOW_AT_4_2), move)
    assert row.verdict == verdict


# ---------------------------------------------------------------- the reports themselves


def reports(move: Move, *uses: GateUse, **more: object) -> str:
    apps = replace(AppUsage(gates=uses, read=100), **more)  # type: ignore[arg-type]
    return told(usage_reports(Evidence(apps=apps, view=NOW_AT_4_2, reports_expected=True), move, NOW, NOW - WEEK))


def test_apps_that_do_not_report_any_more_are_told() -> None:
    """By their last report; one of the future makes no other silent. Of an app alone the brokers were asked later."""
    uses = (
        gate_use(app="a"),
        gate_use(app="a", last_seen=NOW - 2 * HOUR),
        gate_use(app="b", last_seen=NOW - 2 * HOUR),
        gate_use(app="c", last_seen=NOW - 2 * HOUR, closed=True, gate=None),
        gate_use(app="d", last_seen=NOW - 2 * WEEK),
        gate_use(app="e", last_seen=NOW + 9 * HOUR),
        gate_use(app="f", last_seen=NOW - HOUR, gate=None),
        gate_use(app="g", last_seen=NOW - WEEK, closed=True),
    )
    assert reports(HIGHER, *uses) == said("gate 7")
    assert reports(HIGHER, uses[2]) == said("gate 13")


def test_reports_that_cannot_be_read_are_told() -> None:
    """More than one in a hundred leave it open what a lower level takes."""
    assert reports(LOWER, gate_use(), unread=1) == said("gate 8")
    assert reports(LOWER, gate_use(), unread=2) == said("gate 9")
    assert reports(HIGHER, gate_use(), unread=2) == said("gate 10")


def test_invariant_11_without_reports_a_move_that_takes_levels_is_unknown() -> None:
    """Unless the operator says that no app has gates. What a move takes of APIs is in the logs of requests, too."""
    release = captured()["3.9"]
    assert reports(LOWER) == said("gate 11")
    none = Evidence(reports_expected=True)
    assert told(usage_reports(none, HIGHER, NOW, NOW)) == said("gate 12")
    for move in (DowngradeTo(release, "3.9"), Deprecate("x", 1), Finalize("transaction.version", 0)):
        assert reports(move) == reports(LOWER)
        assert list(usage_reports(replace(none, reports_expected=False), move, NOW, NOW)) == []
    for harmless in (ToRelease(release), DropApi(1, 4), HIGHER, Finalize("transaction.version", 2)):
        assert reports(harmless) == told([])


# ---------------------------------------------------------------- what a move opens


def with_levels(*uses: GateUse, **levels: int) -> Evidence:
    finalized = {"metadata.version": 25, **{name.replace("_", "."): level for name, level in levels.items()}}
    return Evidence(apps=AppUsage(gates=uses), view=release_view("4.2", finalized=finalized))


def test_only_gates_that_the_move_opens_are_named() -> None:
    """Not one that is open, that stays closed, that cannot be read, or an app without gates."""
    uses = (
        gate_use(),
        replace(FIVE_CLOSED, requirement="group.version>=1", levels={"group.version": 0}),
        replace(FIVE_CLOSED, requirement="what.is.this()"),
        replace(FIVE_CLOSED, gate=None, requirement=None),
    )
    assert list(gate_openings(with_levels(*uses), Finalize("transaction.version", 2))) == []
    assert list(gate_openings(Evidence(), Finalize("transaction.version", 2))) == []


def test_a_plan_has_the_gates_that_open() -> None:
    """Also where the evidence has no objection."""
    found = verdict_on(with_levels(replace(FIVE_CLOSED, held=2)), [Update("transaction.version", 2)], NOW)
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
    seen = with_levels(waiting, live, held, other, unread, gate_use(), transaction_version=2, group_version=1)
    assert list(downgrade_order(seen, [Finalize("metadata.version", 24), Finalize("transaction.version", 0)])) == [
        "Hold gate 'next' of app 'billing' closed, so that it does not latch meanwhile.",
        "Run a release of app 'orders' without gate 'eos', in 2 instances.",
        "Lower transaction.version to 0.",
        "Lower metadata.version to 24.",
    ]
    assert list(downgrade_order(seen, [Finalize("group.version", 1)])) == []
    assert list(downgrade_order(Evidence(), [Finalize("group.version", 0)])) == []
