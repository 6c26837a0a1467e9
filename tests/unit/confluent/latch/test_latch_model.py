"""The latch protocol as a whole: a search of every state of small worlds, with the package's own decisions.

Three things must hold in every state. S1: no input is in the committed output twice. S2: no committed offset passes
an input whose output was never committed. S3: once a v2 commit is durable, no member takes over below v2.

Each rule of ``docs/explanation/producer-switch.md``, left out, leads to a state in which one of them does not hold, and
the way there is printed (``pytest -rP``). What a search explores is bounded by members, partitions and inputs; never
by crashes, rebalances, stalls or time.
"""

import pytest
from latch_model.scenario import Scenario
from latch_model.search import search
from latch_model.world import OLD

slow = pytest.mark.slow
LONG_ONE = (slow, pytest.mark.proof("switch"))
pytestmark = pytest.mark.no_cover

SAFE = {
    # Scenario, and how many states it has at least: a model that shrinks proves less.
    "two members": (Scenario(ours=2, tidy=True), 3_000),
    "resets, with a latch topic": (Scenario(ours=2, resets=True, tidy=True), 3_000),
    "eager rebalances": (Scenario(ours=2, eager=True, tidy=True), 2_000),
    # Steps are joined between which brokers may change, so this finds less than the larger one below.
    "brokers rolled under two members, in joined steps": (Scenario(ours=2, brokers=OLD, tidy=True), 4_000),
}
SAFE_AND_SLOW = {
    "one and a foreign one": (Scenario(ours=1, foreign=1, tidy=True), 15_000),
    "two inputs": (Scenario(ours=2, inputs=2, tidy=True), 8_000),
    "markers written late": (Scenario(ours=2, lag=True, tidy=True), 5_000),
}
SAFE_AND_LARGE = {  # a minute of processor time
    "three members": (Scenario(ours=3, tidy=True), 40_000),
    "every step of two members": (Scenario(ours=2), 50_000),
    "brokers rolled under two members": (Scenario(ours=2, brokers=OLD), 70_000),
}

BROKEN = {
    "R1 stable": ("S1", Scenario(ours=2, tidy=True, without=frozenset({"R1"}))),
    "R2 fenced": ("S1", Scenario(ours=2, without=frozenset({"R2"}))),
    "R3 all marks": ("S3", Scenario(ours=2, tidy=True, without=frozenset({"R3"}))),
    "R4 every broker": ("S1", Scenario(ours=2, brokers=OLD, tidy=True, without=frozenset({"R4"}))),
    "R5 every member": ("S1", Scenario(ours=1, foreign=1, tidy=True, without=frozenset({"R5"}))),
    "R5 in this generation": (
        "S1",
        Scenario(ours=1, foreign=1, tidy=True, without=frozenset({"R5 in this generation"})),
    ),
    "R5 by committed": ("S1", Scenario(ours=1, foreign=1, tidy=True, without=frozenset({"R5 by committed"}))),
    "R6 fence the old id": ("S1", Scenario(ours=1, foreign=1, tidy=True, without=frozenset({"R6"}))),
    "R7 carry": ("S3", Scenario(ours=1, inputs=2, without=frozenset({"R7"}))),
    "R8 id before offset": ("S1", Scenario(ours=2, brokers=OLD, tidy=True, without=frozenset({"R8"}))),
    "R8 after a loss": ("S1", Scenario(ours=2, brokers=OLD, without=frozenset({"R8 after a loss"}))),
    "R9 whole rounds": ("S1", Scenario(ours=2, tidy=True, without=frozenset({"R9"}))),
    "R10 fenced means rejoin": ("S1", Scenario(ours=2, brokers=OLD, without=frozenset({"R10"}))),
    "R11 latch topic": ("S3", Scenario(ours=1, resets=True, without=frozenset({"R11"}))),
    "R12 a switch is a takeover": ("S1", Scenario(ours=2, brokers=OLD, without=frozenset({"R12"}))),
}
LONG = {"R2 fenced", "R8 after a loss", "R9 whole rounds", "R10 fenced means rejoin", "R12 a switch is a takeover"}

ASSUMED = {
    "A1: a foreign member joins after v2": Scenario(ours=1, foreign=1, tidy=True, without=frozenset({"A1"})),
    "A2: a foreign zombie takes its id late": Scenario(ours=1, foreign=1, tidy=True, without=frozenset({"A2"})),
}


@pytest.mark.parametrize(
    ("scenario", "at_least"),
    [
        pytest.param(*world, id=name, marks=marks)
        for worlds, marks in ((SAFE, ()), (SAFE_AND_SLOW, slow), (SAFE_AND_LARGE, LONG_ONE))
        for name, world in worlds.items()
    ],
)
def test_the_protocol_is_safe_in_every_state(scenario: Scenario, at_least: int) -> None:
    """Members may crash, stall, resume, expire or be rebalanced, and views may be stale."""
    found = search(scenario)
    print(f"{scenario}: {found}")  # noqa: T201  # the trace is what people want to see
    assert not found.trace, str(found)
    assert found.states >= at_least


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=LONG_ONE if rule in LONG else ()) for rule in BROKEN])
def test_without_a_rule_there_is_a_counter_example(rule: str) -> None:
    """Each rule is needed; the steps that break the protocol without it are printed."""
    breaks, scenario = BROKEN[rule]
    found = search(scenario)
    print(f"without {rule}: {found}")  # noqa: T201  # the trace is what people want to see
    assert found.trace, f"nothing goes wrong without {rule}"
    assert found.trace[-1].startswith(breaks), str(found)


@pytest.mark.parametrize("assumption", ASSUMED)
def test_what_no_protocol_of_ours_can_stop_is_an_assumption(assumption: str) -> None:
    """A member without metadata must not join, nor take its id, once the group has committed in v2."""
    found = search(ASSUMED[assumption])
    print(f"without {assumption}: {found}")  # noqa: T201  # the trace is what people want to see
    assert found.trace, f"nothing goes wrong without {assumption}"
    assert found.trace[-1].startswith("S1"), str(found)


@pytest.mark.parametrize(("rule", "inputs"), [pytest.param("R1", 1, marks=slow), ("R3", 1), ("R7", 2)])
def test_a_tidy_world_hides_nothing(rule: str, inputs: int) -> None:
    """The same property breaks whether or not steps are joined."""
    verdicts = [
        search(Scenario(ours=2, inputs=inputs, tidy=tidy, without=frozenset({rule}))).trace[-1][:2]
        for tidy in (False, True)
    ]
    assert verdicts[0] == verdicts[1]
