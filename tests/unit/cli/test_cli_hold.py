"""``hold list``: what an app with this environment would hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from featuregate.gating.latch_store import FileLatchStore, latch_document
from featuregate.gating.latches import LatchedGate, LatchState

if TYPE_CHECKING:
    from conftest import Run


def test_nothing_is_held(run: Run) -> None:
    """One line says where holds would be."""
    said = "no gate is held: FEATUREGATE_HOLD and FEATUREGATE_HOLD_FILE name none, nor does --file\n"
    assert run("hold", "list") == (0, said, "")


def test_each_hold_has_a_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its place, its reason, and whether it comes too late."""
    file = tmp_path / "holds"
    file.write_text("# until Monday\n\nkip848: INC-12\n")
    latched = LatchedGate(gate="eos-v2", requirement="Fetch>=1", opened_at=0.0, epoch=1)
    FileLatchStore(tmp_path / "latches").save(LatchState(cluster_id="c", gates={latched.key: latched}))
    monkeypatch.setenv("FEATUREGATE_HOLD", "eos-v2")
    monkeypatch.setenv("FEATUREGATE_HOLD_FILE", str(file))
    code, out, _ = run("hold", "list", "--latches", str(tmp_path / "latches"))
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        f"kip848 held by {file}: INC-12",
        "eos-v2 held by FEATUREGATE_HOLD in the environment too late: latched in cluster c",
    ]


def test_a_file_that_cannot_be_read_holds_every_gate(run: Run, tmp_path: Path) -> None:
    """The command says so, as the app does; what has latched stays open."""
    latched = LatchedGate(gate="eos-v2", requirement="Fetch>=1", opened_at=0.0, epoch=1)
    FileLatchStore(tmp_path / "latches").save(LatchState(cluster_id="c", gates={latched.key: latched}))
    code, out, _ = run("hold", "list", "--file", str(tmp_path / "none"), "--latches", str(tmp_path / "latches"))
    assert code == 0
    assert "the file cannot be read (No such file or directory), so every gate is held" in out
    assert "too late for eos-v2, which have latched" in out
    assert "too late" not in run("hold", "list", "--file", str(tmp_path / "none")).out


def test_what_a_spark_query_has_latched_is_in_its_checkpoint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a plan: a hold comes too late for it as well."""
    latched = LatchedGate(gate="eos-v2", requirement="Fetch>=1", opened_at=0.0, epoch=1)
    states = [latch_document(LatchState(cluster_id="c", gates={latched.key: latched}))]
    (pins := tmp_path / "checkpoint" / "featuregate").mkdir(parents=True)
    (pins / "pin-7").write_text(json.dumps({"schema_version": 1, "latch_states": states}))
    monkeypatch.setenv("FEATUREGATE_HOLD", "eos-v2")
    code, out, _ = run("hold", "list", "--latches", str(tmp_path / "checkpoint"))
    assert (code, "too late: latched in cluster c" in out) == (0, True)
