"""Gates of apps and their reports: the rows whole, as operators read them."""

from dataclasses import replace
from datetime import timedelta

from fleet_evidence import NOW, WEEK, gate_use, view
from told_rows import told

from featuregate.catalog import captured
from featuregate_fleet.readiness.checks.gate_checks import app_gates, usage_reports
from featuregate_fleet.readiness.evidence import AppUsage, Evidence, GateUse
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, Move, ToRelease

HOUR = timedelta(hours=1)
LOWER, HIGHER = Finalize("transaction.version", 1), Finalize("transaction.version", 3)
NOW_AT_4_2 = view("4.2", transaction_version=2)
CLOSED = gate_use(states=("closed",), latched=False, levels={"transaction.version": 1})
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
    assert (
        gates(LOWER, *uses)
        == """
block app-gates, gate 'g0' of app 'orders': 2 instances are latched on transaction.version>=2, which does not
    hold after the move: transaction.version>=2: the finalized level is 1 at epoch 0, kept from an earlier
    view (and 2 more). The app goes on as if it did. -> Before the move, run a release of the app without this
    gate. A restart alone does not help where a latch is kept. [software=featuregate 0.1.0, app=orders,
    count=10, first_seen=22.11:00, last_seen=22.12:00]
block app-gates, gate 'g1' of app 'orders': 1 instance is latched on transaction.version>=2, which does not
    hold after the move: transaction.version>=2: the finalized level is 1 at epoch 0, kept from an earlier
    view (and 2 more). The app goes on as if it did. All of them have ended; one that keeps its latch starts
    with it. -> Before the move, run a release of the app without this gate. A restart alone does not help
    where a latch is kept. [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00,
    last_seen=22.12:00]
warn app-gates, gate 'g2' of app 'orders': It closes with the move, because transaction.version>=2 does not
    hold any more: transaction.version>=2: the finalized level is 1 at epoch 0, kept from an earlier view (and
    2 more). -> Make sure that orders works without it. [software=featuregate 0.1.0, app=orders, count=10,
    first_seen=22.11:00, last_seen=22.12:00]
warn app-gates, gate 'g3' of app 'orders': It is latched on transaction.version>=3, which does not hold
    already: transaction.version>=3: the finalized level is 1 at epoch 0, kept from an earlier view (and 2
    more). -> Ask those who run orders: the move changes nothing for it. [software=featuregate 0.1.0,
    app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
ok app-gates, gate 'g4' of app 'orders': The move takes nothing from it: group.version>=1. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
unknown app-gates, gate 'g5' of app 'orders': This release cannot read its requirement x~1: 'x~1' is not a
    known preset, API or feature (write feature:x~1 for a feature that is newer than the catalog), at position
    0 of 'x~1' -> Upgrade featuregate where you run 'featuregate fleet'. [software=featuregate 0.1.0,
    app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
"""
    )
    assert list(app_gates(Evidence(), LOWER)) == []


def test_gates_that_are_closed_are_told() -> None:
    """One may have opened since; one that the move opens says in how many instances."""
    uses = CLOSED, replace(CLOSED, policy="live"), replace(CLOSED, requirement="transaction.version>=9")
    assert (
        gates(LOWER, *uses)
        == """
unknown app-gates, gate 'g0' of app 'orders': It was closed when the app reported last. The cluster has
    transaction.version>=2 now, and would lose it with the move. -> Read a newer report of orders: an open
    sticky gate stays open. [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00,
    last_seen=22.12:00]
ok app-gates, gate 'g1' of app 'orders': It is closed, and waits: transaction.version>=2. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
ok app-gates, gate 'g2' of app 'orders': It is closed, and waits: transaction.version>=9. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
"""
    )
    held = replace(CLOSED_ON_3, instances=5, held=1, open_after=90.4)
    assert (
        gates(HIGHER, held, replace(CLOSED_ON_3, instances=3, held=1), replace(CLOSED_ON_3, instances=1))
        == """
ok app-gates, gate 'g0' of app 'orders': It opens with the move: 4 instances after a burn-in of 0:01:30; 1
    instance not while an operator holds it: transaction.version>=3. -> (nothing) [software=featuregate 0.1.0,
    app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
ok app-gates, gate 'g1' of app 'orders': It opens with the move: 2 instances at once; 1 instance not while an
    operator holds it: transaction.version>=3. -> (nothing) [software=featuregate 0.1.0, app=orders, count=10,
    first_seen=22.11:00, last_seen=22.12:00]
ok app-gates, gate 'g2' of app 'orders': It opens with the move: 1 instance at once: transaction.version>=3.
    -> (nothing) [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
"""
    )


def test_gates_of_which_it_is_not_known_are_told() -> None:
    """A release decides of all that it has, and other moves of what they name."""
    unknown = gate_use("transaction.version>=2", levels={"transaction.version": None})
    evidence = Evidence(apps=AppUsage(gates=(unknown, replace(unknown, latched=False))))
    moves = Deprecate("transaction.version", 0), Finalize("group.version", 0), DropApi(1, 4)
    release = captured()["4.2"]
    assert (
        "".join(told(app_gates(evidence, move)) for move in (ToRelease(release), *moves))
        == """
unknown app-gates, gate 'eos' of app 'orders': It is not known whether transaction.version>=2 holds after the
    move: transaction.version>=2: the finalized level is unknown: no broker reports any finalized features
    (and 1 more). -> (nothing) [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00,
    last_seen=22.12:00]
warn app-gates, gate 'eos' of app 'orders': It is not known whether transaction.version>=2 holds after the
    move: transaction.version>=2: the finalized level is unknown: no broker reports any finalized features
    (and 1 more). -> (nothing) [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00,
    last_seen=22.12:00]

unknown app-gates, gate 'eos' of app 'orders': It is not known whether transaction.version>=2 holds after the
    move: transaction.version>=2: the finalized level is unknown: no broker reports any finalized features. ->
    (nothing) [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
warn app-gates, gate 'eos' of app 'orders': It is not known whether transaction.version>=2 holds after the
    move: transaction.version>=2: the finalized level is unknown: no broker reports any finalized features. ->
    (nothing) [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]

ok app-gates, gate 'eos' of app 'orders': The move takes nothing from it: transaction.version>=2. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
ok app-gates, gate 'eos' of app 'orders': The move takes nothing from it: transaction.version>=2. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]

ok app-gates, gate 'eos' of app 'orders': The move takes nothing from it: transaction.version>=2. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
ok app-gates, gate 'eos' of app 'orders': The move takes nothing from it: transaction.version>=2. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
"""
    )
    api = Evidence(apps=AppUsage(gates=(gate_use("Fetch>=4"), gate_use("Fetch in 0..3"))), view=NOW_AT_4_2)
    assert (
        told(app_gates(api, DropApi(1, 12)))
        == """
ok app-gates, gate 'eos' of app 'orders': The move takes nothing from it: Fetch>=4. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
warn app-gates, gate 'eos' of app 'orders': It is latched on Fetch in 0..3, which does not hold already: Fetch
    in 0..3: broker 1 (b1:9092) serves Fetch 12..18 (and 1 more). -> Ask those who run orders: the move
    changes nothing for it. [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00,
    last_seen=22.12:00]
"""
    )
    assert (
        told(app_gates(api, DowngradeTo(release, "4.2.0")))
        == """
ok app-gates, gate 'eos' of app 'orders': The move takes nothing from it: Fetch>=4. -> (nothing)
    [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
warn app-gates, gate 'eos' of app 'orders': It is latched on Fetch in 0..3, which does not hold already: Fetch
    in 0..3: broker 0 (any:0) serves Fetch 4..18. -> Ask those who run orders: the move changes nothing for
    it. [software=featuregate 0.1.0, app=orders, count=10, first_seen=22.11:00, last_seen=22.12:00]
"""
    )


# ---------------------------------------------------------------- the reports themselves


def reports(move: Move, *uses: GateUse, **more: object) -> str:
    """Return what is told of the reports of apps."""
    apps = replace(AppUsage(gates=uses, read=100), **more)  # type: ignore[arg-type]
    evidence = Evidence(apps=apps, view=NOW_AT_4_2, reports_expected=True)
    return told(usage_reports(evidence, move, NOW, NOW - WEEK))


def test_apps_that_do_not_report_any_more_are_told() -> None:
    """By their last report; one of the future makes no other silent."""
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
    assert (
        reports(HIGHER, *uses)
        == """
ok usage-reports, app 'a': It reports 2 gates. -> (nothing) [software=featuregate 0.1.0, app=a, count=10,
    first_seen=22.11:00, last_seen=22.12:00]
warn usage-reports, app 'b': It does not report any more, and did not say that it ended. -> Ask those who run
    b. [software=featuregate 0.1.0, app=b, count=10, first_seen=22.11:00, last_seen=22.10:00]
ok usage-reports, app 'c': It reports 0 gates, and has ended. -> (nothing) [software=featuregate 0.1.0, app=c,
    count=10, first_seen=22.11:00, last_seen=22.10:00]
stale usage-reports, app 'd': It does not report any more, and did not say that it ended. -> Ask those who run
    d. [software=featuregate 0.1.0, app=d, count=10, first_seen=22.11:00, last_seen=08.12:00]
ok usage-reports, app 'e': It reports 1 gate. -> (nothing) [software=featuregate 0.1.0, app=e, count=10,
    first_seen=22.11:00, last_seen=22.21:00]
ok usage-reports, app 'f': It reports 0 gates. -> (nothing) [software=featuregate 0.1.0, app=f, count=10,
    first_seen=22.11:00, last_seen=22.11:00]
ok usage-reports, app 'g': It reports 1 gate, and has ended. -> (nothing) [software=featuregate 0.1.0, app=g,
    count=10, first_seen=22.11:00, last_seen=15.12:00]
"""
    )


def test_reports_that_cannot_be_read_are_told() -> None:
    """More than one in a hundred leave it open what a lower level takes."""
    assert (
        reports(LOWER, gate_use(), unread=1)
        == """
ok usage-reports, app 'orders': It reports 1 gate. -> (nothing) [software=featuregate 0.1.0, app=orders,
    count=10, first_seen=22.11:00, last_seen=22.12:00]
warn usage-reports, usage reports: 1 of 100 could not be read. -> Look at the table 'quarantine': who writes
    them? A newer report needs a newer featuregate here. [count=1]
"""
    )
    assert (
        reports(LOWER, gate_use(), unread=2)
        == """
ok usage-reports, app 'orders': It reports 1 gate. -> (nothing) [software=featuregate 0.1.0, app=orders,
    count=10, first_seen=22.11:00, last_seen=22.12:00]
unknown usage-reports, usage reports: 2 of 100 could not be read. -> Look at the table 'quarantine': who
    writes them? A newer report needs a newer featuregate here. [count=2]
"""
    )
    assert (
        reports(HIGHER, gate_use(), unread=2)
        == """
ok usage-reports, app 'orders': It reports 1 gate. -> (nothing) [software=featuregate 0.1.0, app=orders,
    count=10, first_seen=22.11:00, last_seen=22.12:00]
warn usage-reports, usage reports: 2 of 100 could not be read. -> Look at the table 'quarantine': who writes
    them? A newer report needs a newer featuregate here. [count=2]
"""
    )


def test_reports_are_missed_where_a_move_takes_levels() -> None:
    """What it takes of APIs is in the logs of requests, too."""
    release = captured()["3.9"]
    assert (
        reports(LOWER)
        == """
unknown usage-reports, the apps: No app has reported its gates, so it is not known which apps are latched on
    what the move removes. -> Let apps report their usage, and run 'featuregate fleet run' with
    --bootstrap-server; if no app of this cluster uses featuregate, say so by --without-usage-reports. []
"""
    )
    none = Evidence(reports_expected=True)
    assert (
        told(usage_reports(none, HIGHER, NOW, NOW))
        == """
unknown usage-reports, the apps: No topic of usage reports was read, so it is not known which apps are latched
    on what the move removes. -> Let apps report their usage, and run 'featuregate fleet run' with
    --bootstrap-server; if no app of this cluster uses featuregate, say so by --without-usage-reports. []
"""
    )
    for move in (DowngradeTo(release, "3.9"), Deprecate("x", 1), Finalize("transaction.version", 0)):
        assert reports(move) == reports(LOWER)
        assert list(usage_reports(replace(none, reports_expected=False), move, NOW, NOW)) == []
    for harmless in (ToRelease(release), DropApi(1, 4), HIGHER, Finalize("transaction.version", 2)):
        assert reports(harmless) == told([])
