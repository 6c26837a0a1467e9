"""Where holds come from, and what a discoverer does with them."""

import os
import re
from pathlib import Path

import pytest
from relay_on_socket import serving

import featuregate as fg
from featuregate.errors import ConfigError, ViewJsonError
from featuregate.gating.holds import Hold
from featuregate.polling.hold_sources import HoldSources
from featuregate.sources.relay_responses import holds_from_json, with_latched
from featuregate.testing import FakeCluster, StaticFeatures, release_view

BOUND = 30.0
HOUR = 3600.0
TXN = "TxnOffsetCommit>=3"


def test_the_environment_and_the_file_hold_gates(tmp_path: Path) -> None:
    file = tmp_path / "holds"
    file.write_text("c: why")
    sources = HoldSources({"FEATUREGATE_HOLD": "a,b", "FEATUREGATE_HOLD_FILE": str(file)}, file)
    named = "FEATUREGATE_HOLD in the environment"
    assert sources.read().found == (("a", "", named), ("b", "", named), ("c", "why", str(file)))
    file.write_text("")
    assert sources.read().why("c") is None
    assert HoldSources({}, {"d": "x"}).read().why("d") == "held by the configuration: x"


def test_a_file_of_holds_is_the_one_that_was_named_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon changes the current folder, where a file of the same name may hold nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holds").write_text("a: why")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "holds").write_text("")
    sources = HoldSources({"FEATUREGATE_HOLD_FILE": "holds"}, "holds")
    monkeypatch.chdir(tmp_path / "other")
    assert sources.read().found == (("a", "why", str(tmp_path / "holds")),)


@pytest.mark.parametrize(
    "name",
    ["FEATUREGATE_HOLDS", "FEATUREGATE_HOLD_GATES", "featuregate_hold", "FEATURE_GATE_HOLD", "FEATUREGATE_HOLDFILE"],
)
def test_invariant_17_a_slip_of_the_pen_in_the_name_of_a_variable_holds(name: str) -> None:
    """Nothing reads the variable, and whoever set it believes that the gate is held. An empty one is unset."""
    held = HoldSources({name: "eos-v2"}).read().why("eos-v2")
    assert held is not None
    assert f"held by {name} in the environment: this variable is not read, so every gate is held" in held
    assert HoldSources({name: " ", "FEATUREGATE_HOOK": "a"}).read().found == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "No such file"), (b"\xff", "can't decode"), (b"a\n:b", "line 2 names no gate")],
    ids=["missing", "not UTF-8", "no name"],
)
def test_a_file_that_cannot_be_read_holds_every_gate(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """It might name each of them."""
    file = tmp_path / "holds"
    if content is not None:
        file.write_bytes(content)
    why = HoldSources({}, file).read().why("any")
    assert why is not None
    said = re.fullmatch(
        rf"held by {re.escape(str(file))}: the file cannot be read \((.*)\), so every gate is held; "
        "an empty file holds none",
        why,
    )
    assert said is not None
    assert problem in said[1]


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "open"])
def test_invariant_17_the_pipe_of_a_command_holds_every_gate(*, ended: bool) -> None:
    """``FEATUREGATE_HOLD_FILE=<(command)`` can be read once, and the next poll would find nothing.

    Nor is a writer waited for that has not ended.
    """
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb") as pipe:
        pipe.write(b"eos-v2: INC-42")
        pipe.flush()
        if ended:
            pipe.close()
        sources = HoldSources({"FEATUREGATE_HOLD_FILE": f"/dev/fd/{reader}"})
        for _ in range(2):
            assert "it is a pipe" in (sources.read().why("any") or "")


def test_a_file_of_another_machine_is_refused() -> None:
    """As a latch store is."""
    with pytest.raises(ConfigError, match="hold: is a URI"):
        fg.Discoverer("localhost:9092", hold="s3://bucket/holds")


def test_a_gate_is_held_and_released_without_a_restart(tmp_path: Path) -> None:
    """The next poll reads the file; health says what waits."""
    file = tmp_path / "holds"
    file.write_text("txn: INC-12")
    with FakeCluster(1) as cluster, fg.Discoverer(cluster.bootstrap, interval=HOUR, hold=file) as features:
        gate = features.gate("txn", TXN)
        features.refresh(BOUND)
        assert not gate.open
        assert features.holds == (("txn", "INC-12", str(file)),)
        health = features.health()
        assert health["waits"] == {"txn": {"for": "hold", "why": f"held by {file}: INC-12"}}
        assert health["status"] == "ok"
        file.write_text("")
        features.refresh(BOUND)
        assert gate.open
        assert features.health()["waits"] == {}


def test_a_gate_is_held_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a container whose image stays the same."""
    monkeypatch.setenv("FEATUREGATE_HOLD", "eos-v2,kip848")
    features = StaticFeatures(release_view("4.2"))
    assert not features.gate("eos-v2", TXN).open
    assert features.gate("other", TXN).open


def test_what_a_relay_holds_its_clients_hold_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also gates that the relay does not have, until the relay releases them."""
    file = tmp_path / "holds"
    file.write_text("mine: INC-12")
    with monkeypatch.context() as relay_only:
        relay_only.setenv("FEATUREGATE_HOLD_FILE", str(file))
        relay = StaticFeatures(release_view("4.2"))
    with serving({"default": relay}) as url, fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features:
        mine, other = features.gate("mine", TXN), features.gate("other", TXN)
        features.refresh(BOUND)
        features.refresh(BOUND)  # 304, or the same again
        assert (mine.open, other.open) == (False, True)
        assert f"held by the relay: {file}: INC-12" in mine.decision.summary
        file.write_text("")
        relay.show(release_view("4.2"))
        features.refresh(BOUND)
        assert mine.open


def test_invariant_17_a_relay_that_has_gone_holds_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the brokers are asked in its place."""
    with monkeypatch.context() as relay_only:
        relay_only.setenv("FEATUREGATE_HOLD", "mine")
        relay = StaticFeatures(release_view("4.2"))
    with FakeCluster(1) as cluster:
        with serving({"default": relay}) as url:
            features = fg.Discoverer(source=fg.HttpSource(url, fallback=cluster.bootstrap), interval=HOUR)
            mine, other = features.gate("mine", TXN), features.gate("other", TXN)
            features.refresh(BOUND)
        with features:
            assert features.refresh(BOUND).cluster_id == cluster.cluster_id
            assert (mine.open, other.open) == (False, True)
            assert "held by the relay: FEATUREGATE_HOLD" in mine.decision.summary


def test_invariant_17_a_relay_that_was_never_there_may_hold_each_gate() -> None:
    """Also where the brokers are asked in its place; it releases the gates with its first view."""
    with FakeCluster(1) as cluster:
        source = fg.HttpSource("http://127.0.0.1:1", fallback=cluster.bootstrap)
        with fg.Discoverer(source=source, interval=HOUR) as features:
            gate = features.gate("mine", TXN)
            assert features.refresh(BOUND).cluster_id == cluster.cluster_id
            assert not gate.open
            assert "no relay has given a view since the start" in gate.decision.summary
            with serving({"default": StaticFeatures(fg.discover(cluster.bootstrap))}) as url:
                features._poller.source = fg.HttpSource(url)
                features.refresh(BOUND)
            assert gate.open


@pytest.mark.parametrize("name", ["eos\x1b[31m\nforged line", "word " * 100 + "eos-v2"], ids=["steers", "long"])
def test_invariant_17_a_name_of_a_relay_that_is_not_fit_for_a_log_holds_every_gate(name: str) -> None:
    """A part of it may be a gate, and nothing shows the name as it is."""
    holds = holds_from_json(with_latched('{"a": 1}', (), [Hold(name, "INC-12", "f"), Hold("zstd", "wait", "f")]))
    assert "cannot be the name of a gate, so every gate is held" in str(holds.why("other"))
    assert all(each.gate.isprintable() and len(each.gate) <= 203 for each in holds.found)


@pytest.mark.parametrize(
    ("holds", "where"), [("1", "view.holds: expected an array"), ('[{"gate": 1}]', r"view.holds\[0\].gate: expected a")]
)
def test_other_values_in_a_view_are_refused(holds: str, where: str) -> None:
    """And the poll fails, as for any body that is no view."""
    with pytest.raises(ViewJsonError, match=where):
        holds_from_json(f'{{"holds": {holds}}}')
