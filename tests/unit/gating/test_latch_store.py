"""Latches on disk: whole, durable, shared, readable, and never silently reset."""

import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from waiting import BOUND

from featuregate import files
from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.gating.latch_store import FileLatchStore, read_latch_file
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState, join

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def kept(*gates: str, cluster_id: str | None = CLUSTER, **levels: int) -> LatchState:
    latched = [LatchedGate(gate=name, requirement="a>=1", opened_at=1_700_000_000.25, epoch=7) for name in gates]
    return LatchState(cluster_id=cluster_id, levels=levels, gates={gate.key: gate for gate in latched})


@pytest.fixture
def latch_store(tmp_path: Path) -> FileLatchStore:
    return FileLatchStore(tmp_path / "latches")


def test_what_is_saved_is_loaded(latch_store: FileLatchStore) -> None:
    """Levels, gates and burn-ins, and a requirement that this release cannot parse is kept as it is."""
    counted = [
        BurnIn(gate="a", requirement="a>=1", attempt=2, seconds=1.25, since=1_700_000_000.5),
        BurnIn(gate="b", requirement="a>=1", attempt=1, seconds=0.0, since=None),
    ]
    state = replace(kept("eos", "zstd", a=2, b=1), burn_ins={each.key: each for each in counted})
    latch_store.save(state)
    assert FileLatchStore(latch_store.folder).load(CLUSTER) == state


def test_one_file_can_be_read_without_its_store(latch_store: FileLatchStore, tmp_path: Path) -> None:
    """For commands that look at the latches of an app: nothing is moved away, and the error names the file."""
    latch_store.save(kept("eos", a=2))
    (path,) = latch_store.folder.glob("*.json")
    assert read_latch_file(path) == kept("eos", a=2)
    path.write_text("{")
    with pytest.raises(LatchStoreError, match=rf"^{re.escape(str(path))}: damaged \(latches: this is not JSON: .+\)$"):
        read_latch_file(path)
    assert path.read_text() == "{"
    with pytest.raises(FileNotFoundError):
        read_latch_file(tmp_path / "none.json")
    with pytest.raises(LatchStoreError, match=rf"^{re.escape(str(tmp_path))}: Is a directory$"):
        read_latch_file(tmp_path)


def test_a_damaged_source_is_an_error_that_the_next_answer_mends(latch_store: FileLatchStore) -> None:
    """It never counts as a cluster."""
    latch_store.note_cluster("b1:9092", CLUSTER)
    (path,) = latch_store.folder.glob("*.source")
    path.write_text('{"source": "b1')
    damaged = rf"{re.escape(str(path))}: damaged \(source: .+\); delete it, and the next answer writes it again"
    with pytest.raises(LatchStoreError, match=f"^{damaged}$"):
        latch_store.last_cluster("b1:9092")
    latch_store.note_cluster("b1:9092", CLUSTER)
    assert latch_store.last_cluster("b1:9092") == CLUSTER
    path.unlink()
    path.mkdir()
    there = rf"^{re.escape(str(path))}: Is a directory$"
    with pytest.raises(LatchStoreError, match=there):
        latch_store.last_cluster("b1:9092")
    with pytest.raises(LatchStoreError, match=there):
        latch_store.note_cluster("b1:9092", CLUSTER)


def _save_many(folder: Path, who: int) -> None:
    mine = FileLatchStore(folder)
    for number in range(20):
        _save(mine, kept(f"gate-{who}-{number}"))


def _save(latch_store: FileLatchStore, record: LatchState) -> None:
    """Save as the poll loop does: a turn that did not come within seconds, on a busy machine, is asked for again."""
    until = time.monotonic() + BOUND
    while True:
        try:
            latch_store.save(record)
        except LatchStoreError as error:
            if time.monotonic() > until or "another process has held its lock" not in str(error):
                raise
        else:
            return


def test_invariant_2_processes_that_write_at_once_lose_nothing(latch_store: FileLatchStore) -> None:
    """Four processes, twenty latches each, one file."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_save_many, args=(latch_store.folder, who)) for who in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(BOUND)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    loaded = latch_store.load(CLUSTER)
    assert loaded is not None
    assert len(loaded.gates) == 80


def test_invariant_2_a_latch_is_found_by_the_name_that_a_newer_catalog_knows(latch_store: FileLatchStore) -> None:
    """An upgrade of featuregate that learns a name must not lose a latch."""
    latch_store.save(kept("eos"))
    path = latch_store.path(CLUSTER)
    path.write_text(path.read_text().replace("a>=1", "api:28>=3"))
    loaded = latch_store.load(CLUSTER)
    assert loaded is not None
    assert list(loaded.gates) == [("eos", "TxnOffsetCommit>=3")]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "cluster_id": "x", "levels": ["a"], "gates": []}',
        b'{"schema_version": 1, "cluster_id": "x", "levels": {}, "gates": {"gate": "g"}}',
        b'{"schema_version": 1, "cluster_id": 5, "levels": {}, "gates": []}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_set_aside_and_reported(latch_store: FileLatchStore, damage: bytes) -> None:
    """Never silently reset: the bytes stay for people to read, and the next load finds an empty place."""
    latch_store.save(kept("eos"))
    latch_store.path(CLUSTER).write_bytes(damage)
    with pytest.raises(LatchStoreCorrupt) as caught:
        latch_store.load(CLUSTER)
    assert Path(caught.value.aside).read_bytes() == damage
    assert str(caught.value.aside) in str(caught.value)
    assert latch_store.load(CLUSTER) is None


@pytest.mark.parametrize(
    ("part", "changed", "says"),
    [
        ("levels", {"a": 2, "b": "1"}, "latches.levels.b: expected an integer, not '1'"),
        ("gates", {"opened_at": "2026-13-01"}, "latches.gates[1]: month must be in 1..12"),
        ("gates", {"opened_at": 1e18}, "latches.gates[1]: opened_at is not a time of the years 1 to 9999: 1e+18"),
        ("gates", {"epoch": None}, "latches.gates[1].epoch: expected an integer, not None"),
        ("burn_ins", {"attempt": 0}, "latches.burn_ins[1]: attempt is not a number from 1 on: 0"),
    ],
)
def test_invariants_2_and_18_a_damaged_row_closes_no_other_gate(
    latch_store: FileLatchStore, caplog: pytest.LogCaptureFixture, part: str, changed: dict[str, Any], says: str
) -> None:
    """It is said as long as the process lives, and a copy of the file is kept before the file is written again."""
    counted = BurnIn(gate="a", requirement="a>=1", attempt=2, seconds=1.25, since=None)
    whole = replace(kept("eos", a=2), burn_ins={counted.key: counted})
    latch_store.save(whole)
    path = latch_store.path(CLUSTER)
    document = json.loads(path.read_text())
    document[part] = changed if part == "levels" else [document[part][0], document[part][0] | {"gate": "b"} | changed]
    path.write_text(damaged := json.dumps(document))
    assert latch_store.unread is None
    for _ in range(2):
        assert latch_store.load(CLUSTER) == whole
        assert latch_store.save(whole) == whole
        assert path.read_text() == damaged
    said = f"{path}: damaged ({says}): its other latches count"
    assert latch_store.unread == said
    latch_store.save(more := join(whole, kept("zstd")))
    aside = path.with_suffix(".damaged-1")
    assert aside.read_text() == damaged
    assert latch_store.load(CLUSTER) == more
    assert latch_store.unread == f"{said}; a copy is {aside}"
    assert [record.getMessage() for record in caplog.records] == [said, latch_store.unread]
    with pytest.raises(LatchStoreError, match=re.escape(says)):
        read_latch_file(aside)


def test_a_newer_file_is_left_alone(latch_store: FileLatchStore) -> None:
    """An older featuregate must not set aside what a newer one wrote."""
    latch_store.save(kept("eos"))
    newer = b'{"schema_version": 2}'
    latch_store.path(CLUSTER).write_bytes(newer)
    with pytest.raises(LatchStoreError) as raised:
        latch_store.load(CLUSTER)
    assert str(raised.value) == (
        f"{latch_store.path(CLUSTER)}: written by a newer featuregate (schema version 2); upgrade this one"
    )
    assert latch_store.path(CLUSTER).read_bytes() == newer


def test_a_file_of_another_cluster_is_refused(latch_store: FileLatchStore) -> None:
    """A copied file does not open the gates of another cluster."""
    latch_store.save(kept("eos"))
    latch_store.path(CLUSTER).rename(latch_store.path("other"))
    with pytest.raises(LatchStoreError) as raised:
        latch_store.load("other")
    assert str(raised.value) == f"{latch_store.path('other')}: belongs to cluster {CLUSTER}, not to other"


def test_a_cluster_without_an_id_has_no_place(latch_store: FileLatchStore) -> None:
    """Two clusters without ids could not be told apart."""
    with pytest.raises(LatchStoreError) as raised:
        latch_store.save(kept("eos", cluster_id=None))
    assert str(raised.value) == f"{latch_store.folder}: a cluster without an id has no place on a latch store"


@given(st.text(min_size=1, max_size=400))
def test_invariant_7_a_hostile_cluster_id_stays_in_the_folder(cluster_id: str) -> None:
    """The id came over the network: no separator, no parent, no name that is too long."""
    folder = Path("/latches")
    path = FileLatchStore(folder).path(cluster_id)
    assert path.parent == folder
    assert path.suffix == ".json"
    assert len(os.fsencode(path.name)) <= 250


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(LatchStoreError, match="file"):
        FileLatchStore(tmp_path / "file" / "latches").save(kept("eos"))


def test_invariant_2_what_is_latched_is_read_without_a_turn(latch_store: FileLatchStore) -> None:
    """On a read-only folder, and while another process holds the lock for ever."""
    latch_store.save(kept("eos"))
    with FileLock(latch_store.path(CLUSTER).with_suffix(".lock")):
        assert latch_store.load(CLUSTER) == kept("eos")


def test_looking_at_an_empty_shelf_makes_no_folder(latch_store: FileLatchStore) -> None:
    assert latch_store.load(CLUSTER) is None
    assert not latch_store.folder.exists()


def test_a_file_that_cannot_be_read_is_one_clear_error(latch_store: FileLatchStore) -> None:
    """A folder stands in place of the file here."""
    latch_store.path(CLUSTER).mkdir(parents=True)
    with pytest.raises(LatchStoreError, match=rf"^{re.escape(str(latch_store.path(CLUSTER)))}: Is a directory$"):
        latch_store.load(CLUSTER)


def test_a_lock_that_is_never_released_costs_a_bounded_wait(
    latch_store: FileLatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may hang while it holds the lock."""
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.01)
    latch_store.save(kept("eos"))
    with (
        FileLock(latch_store.path(CLUSTER).with_suffix(".lock")),
        pytest.raises(LatchStoreError, match="another process"),
    ):
        latch_store.save(kept("zstd"))


def test_a_full_disk_leaves_the_old_file_whole(latch_store: FileLatchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    latch_store.save(kept("eos"))

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LatchStoreError, match="No space left"):
        latch_store.save(kept("zstd"))
    monkeypatch.undo()
    assert latch_store.load(CLUSTER) == kept("eos")
    assert sorted(path.suffix for path in latch_store.folder.iterdir()) in ([".json"], [".json", ".lock"])


def test_it_shows_its_folder() -> None:
    """Logs and debuggers show the repr."""
    assert repr(FileLatchStore("/latches")) == "FileLatchStore('/latches')"


LIES = """
#include <stdio.h>
int rename(const char *from, const char *to) { (void)to; return %s; }
"""
LATCH = """
import sys
from featuregate.errors import LatchStoreError
from featuregate.gating.latch_store import FileLatchStore, read_latch_file
from featuregate.gating.latches import LatchState
try:
    FileLatchStore(sys.argv[1]).save(LatchState(cluster_id="c", levels={"group.version": 2}))
except LatchStoreError as error:
    print(error)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler for a file system that lies")
@pytest.mark.parametrize("lie", ["0", "remove(from)"])
@pytest.mark.parametrize("before", [True, False])
def test_invariant_2_a_rename_that_is_reported_and_not_made_is_an_error(
    tmp_path: Path,
    lie: str,
    before: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Whether the old file is there still, or none: a gate would open, and be closed after a restart."""
    (tmp_path / "lies.c").write_text(LIES % lie)
    library = tmp_path / "lies.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "lies.c"], check=True)
    folder = tmp_path / "latches"
    if before:
        FileLatchStore(folder).save(kept("a", cluster_id="c"))
    run = subprocess.run(
        [sys.executable, "-c", LATCH, folder],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(FileLatchStore(folder).path("c")) in run.stdout, run.stderr
    assert ("and did not" if before else "No such file") in run.stdout


def test_latches_stay_where_the_app_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon changes the current folder: what it latches later must be found at the next start."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    latch_store = FileLatchStore("latches")
    latch_store.save(kept("eos"))
    monkeypatch.chdir(tmp_path / "other")
    latch_store.save(kept("zstd"))
    latch_store.note_cluster("b1:9092", CLUSTER)
    monkeypatch.chdir(tmp_path)
    found = FileLatchStore("latches")
    assert found.load(CLUSTER) == join(kept("eos"), kept("zstd"))
    assert found.last_cluster("b1:9092") == CLUSTER
