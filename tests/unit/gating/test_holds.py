"""Holds: a gate that has not latched stays closed as long as an operator holds it."""

from pathlib import Path

import pytest
from builders import broker, update, view
from hypothesis import given
from hypothesis import strategies as st

from featuregate.catalog import close_to
from featuregate.gating import holds as holds_module
from featuregate.gating.durable_latches import LatchStart
from featuregate.gating.gates import Gate
from featuregate.gating.holds import NO_HOLDS, CurrentHolds, Hold, Holds, explained_holds, named_holds, written_holds
from featuregate.gating.latch_store import FileLatchStore, LatchStore
from featuregate.gating.latches import Policy
from featuregate.gating.store import Store
from featuregate.requirements import Api
from featuregate.sources.relay_responses import holds_from_json, with_latched
from featuregate.testing import StaticFeatures

TXN = Api("TxnOffsetCommit") >= 3
OPEN, CLOSED = view(broker(txn=3)), view(broker(txn=2))
HELD = named_holds("eos", "the test")


class Operator:
    def __init__(
        self, *, policy: Policy = "sticky", open_after: float = 0.0, latches: LatchStore | None = None
    ) -> None:
        self.holds, self.now = NO_HOLDS, 0.0
        self.store = Store(
            latch_store=latches,
            wall=lambda: 7.0,
            clock=lambda: self.now,
            longest_gap=30.0,
            read_holds=lambda: self.holds,
            start=LatchStart(cluster_id="c"),
        )
        self.gate = self.store.add_gate(
            "eos", lambda: Gate("eos", TXN, policy=policy, owner=StaticFeatures(), open_after=open_after)
        )

    def poll(self, *, holds: Holds) -> bool:
        self.holds = holds
        update(self.store, OPEN)
        return self.gate.open


@pytest.mark.parametrize("policy", ["sticky", "live"])
def test_a_gate_that_is_held_stays_closed_until_it_is_released(policy: Policy) -> None:
    """The decision says where the hold is."""
    operator = Operator(policy=policy)
    assert not operator.poll(holds=HELD)
    assert operator.gate.decision.summary == "closed: hold: held by the test"
    assert operator.gate.decision.waits is not None
    assert operator.store.troubles() == []
    assert operator.poll(holds=NO_HOLDS)
    assert operator.gate.decision.waits is None


def test_a_hold_comes_too_late_for_a_gate_that_has_latched() -> None:
    """It stays open; decision and health say that the hold does nothing."""
    operator = Operator()
    assert operator.poll(holds=NO_HOLDS)
    assert operator.poll(holds=HELD)
    said = "comes too late, because the gate latched at epoch 10: held by the test"
    assert said in str(operator.gate.decision)
    assert operator.store.troubles() == [f"gate eos: a hold {said}"]
    update(operator.store, CLOSED)
    assert operator.gate.decision.held is not None
    assert f"gate eos: a hold {said}" in operator.store.troubles()


def test_a_live_gate_closes_again_when_it_is_held() -> None:
    """It has nothing that would be too late."""
    operator = Operator(policy="live")
    assert operator.poll(holds=NO_HOLDS)
    assert not operator.poll(holds=HELD)


def test_a_hold_counts_before_the_first_answer_too(tmp_path: Path) -> None:
    latches = FileLatchStore(tmp_path)
    fresh = Operator(latches=latches)
    fresh.holds = HELD
    assert fresh.poll(holds=NO_HOLDS)
    again = Operator(latches=latches)
    assert again.gate.open
    store = Store(latch_store=latches, wall=lambda: 7.0, read_holds=lambda: HELD + named_holds("*", "all"))
    other = store.add_gate("other", lambda: Gate("other", TXN, policy="sticky", owner=StaticFeatures()))
    assert other.decision.summary == "closed: hold: held by all"
    store = Store(latch_store=latches, wall=lambda: 7.0, read_holds=lambda: HELD, start=LatchStart(cluster_id="c"))
    late = store.add_gate("eos", lambda: Gate("eos", TXN, policy="sticky", owner=StaticFeatures()))
    assert late.open
    assert "comes too late" in str(late.decision)


def test_a_hold_does_not_stop_the_burn_in() -> None:
    """The burn-in is about the cluster: a gate that is released afterwards opens at once."""
    operator = Operator(open_after=50.0)
    for _ in range(4):
        assert not operator.poll(holds=HELD)
        operator.now += 20
    assert operator.poll(holds=NO_HOLDS)


def test_a_hold_of_the_view_lasts_until_the_next_one_that_brings_holds() -> None:
    """A poll of brokers brings none: those of the relay before go on."""
    operator = Operator()
    operator.store.hooks.notify(*operator.store.commit(OPEN, holds=HELD))
    assert not operator.gate.open
    assert not operator.poll(holds=NO_HOLDS)
    operator.store.commit(OPEN, holds=NO_HOLDS)
    assert operator.gate.open


def test_a_misspelt_hold_is_a_trouble() -> None:
    """The operator believes that the gate is held."""
    operator = Operator()
    operator.poll(holds=named_holds("eoss, unlike", "the test"))
    assert operator.store.troubles() == ["the test holds eoss, and no gate has this name: this holds eos"]
    assert not operator.gate.open


def test_the_first_hold_of_a_gate_gives_the_reason() -> None:
    """Several places name the gate."""
    holds = named_holds("a, ,b,", "here") + explained_holds({"a": "later", "c": "why"}, "there")
    assert (holds.why("a"), holds.why("c"), holds.why("d")) == ("held by here", "held by there: why", None)


def test_invariant_18_a_hold_with_any_bytes_can_be_sent() -> None:
    """The environment and paths may have bytes that are not UTF-8, and a relay sends each hold with its view."""
    sent = relayed(explained_holds({"a\udce9": "by \udce9"}, "f\udce9"))
    assert sent.found == ((r"a\udce9", "by ?", r"the relay: f\udce9"),)


def test_a_file_has_a_gate_in_each_line() -> None:
    """With a reason or without; the rest is skipped."""
    text = "# comment\n\n  # indented\n  eos-v2 :  wait: INC-12 \nkip848\n*: freeze\n"
    assert written_holds(text, "f").found == (
        Hold("eos-v2", "wait: INC-12", "f"),
        Hold("kip848", "", "f"),
        Hold("*", "freeze", "f"),
    )
    with pytest.raises(ValueError, match="line 2 names no gate"):
        written_holds("a\n: why", "f")


@given(st.lists(st.sampled_from(["hold", "release", "open", "closed"])))
def test_a_hold_wins_until_the_gate_has_latched(script: list[str]) -> None:
    """In any order of holds and views: the gate opens at a view that proves it while it is not held, and stays so."""
    operator = Operator()
    held = latched = False
    for event in script:
        if event in ("hold", "release"):
            held = event == "hold"
            operator.holds = HELD if held else NO_HOLDS
            continue
        latched = latched or (event == "open" and not held)
        update(operator.store, OPEN if event == "open" else CLOSED)
        assert operator.gate.open is latched


SLIPS = {
    "a byte order mark": "\ufeffeos-v2: not before the audit",
    "quotes": '"eos-v2": not before the audit',
    "other quotes": "\u2018eos-v2\u2019",
    "a list": "- eos-v2: not before the audit",
    "a list of quoted names": "  * 'eos-v2' : wait",
    "capitals": "EOS-V2: wait",
    "another dash": "eos_v2: wait",
    "no dash": "eosv2",
    "a letter too many": "eos-v22: wait",
    "two letters exchanged": "oes-v2: wait",
    "no colon": "eos-v2 not before the audit",
    "a blank between names": "other-gate eos-v2",
    "TOML": 'eos-v2 = "not before the audit"',
    "JSON": '{"eos-v2": "not before the audit"}',
    "a comma at the end": "eos-v2,",
    "a semicolon": "eos-v2;elsewhere",
    "a dash of a text processor": "eos\u2011v2: wait",
    "a dash before the reason": "eos-v2 - not before the audit",
    "a key of YAML": "hold: eos-v2",
    "a list of YAML in one line": "holds: [zstd, eos-v2]",
    "a list of gates with fields": "- name: eos-v2\n  reason: wait",
    "a sentence behind a key": "gate: eos-v2 not before the audit",
    "all behind a key": "gates: '*'",
    "a word for all": "All gates: freeze",
    "an app before the name": "orders/eos-v2: wait",
    "two names of a path": "zstd:eos-v2",
    "full width": "\uff45\uff4f\uff53-v2: wait",
    "a comment in quotes": "'# eos-v2'",
    "UTF-16 without a mark": "\0".join("eos-v2"),
    "the end of a document of YAML": "...",
    "a date before the name": "2026-12-01 10:00:00 hold eos-v2",
    "the begin of a name": "eos: wait",
    "the begin of a name, and a dash": "eos_: wait",
    "letters that look alike": "\u0435\u043e\u0455-v2: wait",
    "digits that look alike": "eos-v\u06f2 again: wait",
}


def held(holds: Holds, *gates: str) -> list[str]:
    return [gate for gate in gates if holds.widened(gates).why(gate) is not None]


@pytest.mark.parametrize("slip", SLIPS)
def test_invariant_17_a_slip_of_the_pen_in_a_file_holds(slip: str) -> None:
    """Whoever wrote the line meant to hold this gate, and a latch is for good."""
    assert "eos-v2" in held(written_holds(f"# frozen\n{SLIPS[slip]}\n", "f"), "eos-v2", "zstd")


IN_VARIABLES = (
    '"eos-v2"',
    "'eos-v2'",
    "eos-v2;other",
    "other eos-v2",
    "a\neos-v2",
    "eos-v2: why",
    "eos_v2",
    "[eos-v2]",
    "* ",
    "zstd, * ",
    "zstd - eos-v2",
    "zstd+eos-v2",
    "zstd:eos-v2",
    "all",
    "true",
    "y",
    "enabled",
    "any",
    "/etc/featuregate/holds",
    "@holds.txt",
    "file:/etc/featuregate/holds",
)


@pytest.mark.parametrize("names", IN_VARIABLES)
def test_invariant_17_a_slip_of_the_pen_in_a_variable_holds(names: str) -> None:
    """Such as the quotes that Docker keeps in a file of variables."""
    assert "eos-v2" in held(named_holds(names, "e"), "eos-v2", "zstd")


WRAPPED = ("{}", '"{}"', "'{}'", " {} ", "\ufeff{}", '\ufeff"{}"', "- {}", "* {}", "-  '{}'", "{}:", "{} : x", "\t{}\r")
NAMES = st.from_regex(r"[a-z0-9]{1,4}([-_.][a-z0-9]{1,4}){1,3}", fullmatch=True)


@given(NAMES, st.lists(st.sampled_from(WRAPPED), max_size=3), st.data())
def test_invariant_17_however_a_name_is_wrapped_and_misspelt_it_holds(
    name: str, wraps: list[str], data: st.DataObject
) -> None:
    """One letter that is missing, another or twice still means the gate, where no other has the name."""
    at = data.draw(st.integers(0, len(name) - 1))
    slips = [name[:at] + name[at + 1 :], name[: at + 1] + name[at:], name.upper()] if len(name) >= 8 else []
    written = data.draw(st.sampled_from([name, *slips]))
    for wrap in wraps:
        written = wrap.format(written)
    try:
        found = held(written_holds(written, "f"), name)
    except ValueError:  # for which every gate is held
        found = [name]
    assert name in found


def relayed(holds: Holds) -> Holds:
    return holds_from_json(with_latched('{"a": 1}', (), holds.found))


LISTING = ("hold: {}", "hold: {} until the audit", "{}: wait", "{}", "gates: kip-932, {}", f"{'kip-932, ' * 30}{{}}")


@given(NAMES, NAMES, st.lists(st.sampled_from(LISTING), min_size=2, max_size=2))
def test_invariant_17_clients_of_a_relay_hold_what_it_would(name: str, other: str, lines: list[str]) -> None:
    """Two lines may begin alike, a long one may list many gates, and the name of one gate may begin that of another."""
    holds = written_holds("\n".join(line.format(each) for line, each in zip(lines, (name, other), strict=True)), "f")
    gates = name, other, f"{name}:{other}", "zstd"
    assert held(relayed(holds), *gates) == held(holds, *gates)
    both = written_holds(f"{name}:{other}: wait", "f")
    assert held(relayed(both), *gates) == held(both, *gates)


def test_a_hold_on_a_gate_that_exists_holds_no_gate_with_a_similar_name() -> None:
    """``eos-v3`` is that gate, and no slip for ``eos-v2``."""
    holds = written_holds("eos-v3: INC-12\norders:eos: wait", "f")
    assert held(holds, "eos-v2", "eos-v3", "orders:eos") == ["eos-v3", "orders:eos"]
    assert held(holds, "eos-v2") == ["eos-v2"]
    assert holds.widened(["eos-v2"]).why("eos-v2") == "held by f: INC-12; no gate is named eos-v3"


@pytest.mark.parametrize("name", ["eos-v2;other", "", "eos*", "zstd,eos-v2", "ALL"])
def test_invariant_17_a_slip_of_the_pen_in_a_mapping_holds(name: str) -> None:
    """The configuration of an app has names as a variable has them."""
    assert "eos-v2" in held(explained_holds({name: ""}, "c"), "eos-v2", "zstd")


def test_a_gate_that_the_text_of_a_named_one_lists_is_held_for_that() -> None:
    """Sentences of a reason may speak of other gates."""
    holds = written_holds("zstd:eos-v2\nother: until zstd is off", "f").widened(["zstd", "eos-v2"])
    assert holds.why("eos-v2") == "held by f: eos-v2; listed behind zstd"
    assert held(written_holds("other: until zstd is off", "f"), "zstd") == []


def test_what_cannot_be_a_name_is_no_name_of_a_mapping() -> None:
    """A relay sends names of gates that other apps have."""
    holds = explained_holds({"EOS (v2)": "wait", "new groups": ""}, "the relay")
    assert held(holds, "zstd", "eos-v2", "EOS (v2)") == ["EOS (v2)"]
    (every,) = written_holds("EOS (v2): wait", "f").found
    assert (every.gate, every.text) == ("*", "f: 'EOS (v2): wait' cannot be the name of a gate, so every gate is held")


def test_the_begin_of_a_name_may_have_other_dashes() -> None:
    """As the whole name may. Only whole words count."""
    assert held(written_holds("kip-848: wait", "f"), "kip848-consumer", "kip8481-x", "zstd") == ["kip848-consumer"]


def test_a_letter_outside_ascii_that_a_gate_has_is_no_look_alike() -> None:
    """Such a name is compared as any other is."""
    holds = written_holds("\u00fcbersicht: wait", "f")
    assert held(holds, "\u00dcbersicht-v2", "zstd") == ["\u00dcbersicht-v2"]
    assert held(holds, "eos-v2", "zstd") == ["eos-v2", "zstd"]


def test_each_gate_is_compared_with_each_part_of_a_hold_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poll, and each gate that is made, renews the holds: only what is new is compared."""
    pairs = []
    are_similar = holds_module._are_similar

    def counted(name: str, other: str) -> bool:
        pairs.append((name, other))
        return are_similar(name, other)

    monkeypatch.setattr(holds_module, "_are_similar", counted)
    text = "team-1: wait\nteam-2: wait\n*: freeze"
    current = CurrentHolds(lambda: written_holds(text, "f"))
    gates = [f"orders-eos-{number:02}" for number in range(20)]
    for made in range(1, 21):
        current.renew(gates[:made])
    current.renew(gates)
    assert list(current.found.misspelt(gates)) == []
    assert sorted(pairs) == sorted((part, gate) for part in ("team-1", "team-2", "wait") for gate in gates)
    text = "team-3"
    current.renew(gates[:2])
    assert pairs[60:] == [("team-3", each) for _, each in pairs[60:]]
    assert len(pairs) == 62


def test_many_holds_of_every_gate_become_one_for_each_gate() -> None:
    """Decisions look through these holds, one after the other."""
    holds = written_holds("...: first\n..-: later", "f").widened(["eos", "zstd"])
    assert [hold.gate for hold in holds.found[2:]] == ["eos", "zstd"]
    assert holds.why("eos") == "held by f: first; no gate is named ..."


def test_gates_that_have_gone_are_forgotten() -> None:
    """An app may make gates of many names, one after the other."""
    holds = written_holds("eos: wait", "f")
    for number in range(9):
        holds.widened([f"eos-{number}"])
    assert len(holds._compared) <= 3


@pytest.mark.parametrize(
    ("most", "more"),
    [
        ("team-x\n" * 1000, "team-x\n"),
        (f"team-x: {'x' * 99_994}", "x"),
    ],
    ids=["holds", "characters"],
)
def test_invariant_14_more_holds_than_can_be_compared_hold_every_gate(most: str, more: str) -> None:
    """The reason says how many are too many."""
    text = most
    current = CurrentHolds(lambda: written_holds(text, "f"))
    current.renew(["zstd"])
    assert current.why("zstd") is None
    text += more
    current.renew(["zstd"])
    assert "at most 1,000 with 100,000 characters are compared with gates, so every gate is held" in str(
        current.why("zstd")
    )
    assert [hold.gate for hold in current.found.found] == ["*"]


@given(st.text("abc_- ", max_size=8), st.text("abc_- ", max_size=8))
def test_no_pair_that_difflib_finds_close_is_skipped(name: str, other: str) -> None:
    """The letters of a pair are counted first, which is faster."""
    if close_to(name, [other]):
        assert holds_module._may_be_close(name, other)


def test_a_slip_among_letters_that_repeat_is_one() -> None:
    """difflib finds ``00000`` less than 0.8 like ``001000``."""
    assert held(written_holds("0_0_000: INC-12", "f"), "0_0_1000", "zstd") == ["0_0_1000"]
