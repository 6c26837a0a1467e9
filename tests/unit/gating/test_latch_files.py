"""The files of a latch store: their text, their names, and where damaged ones go."""

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

from featuregate.errors import LatchStoreCorrupt
from featuregate.gating.latch_store import ABOUT, FileLatchStore
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState

EOS = LatchedGate(gate="größer", requirement="Fetch>=4", opened_at=0.5, epoch=7)
COUNTED = BurnIn(gate="b", requirement="Fetch>=4", attempt=2, seconds=1.5, since=0.5)
STATE = LatchState(cluster_id="c", levels={"a": 2}, gates={EOS.key: EOS}, burn_ins={COUNTED.key: COUNTED})


def test_a_file_is_indented_and_has_each_character_as_it_is(tmp_path: Path) -> None:
    """It begins with what it is, and a store without burn-ins does not speak of them."""
    store = FileLatchStore(tmp_path)
    store.save(STATE)
    text = (tmp_path / "c.json").read_text(encoding="utf-8")
    latched = {"gate": "größer", "requirement": "Fetch>=4"}
    document = {
        "about": ABOUT,
        "schema_version": 1,
        "cluster_id": "c",
        "levels": {"a": 2},
        "gates": [{**latched, "opened_at": "1970-01-01T00:00:00.500000+00:00", "epoch": 7}],
        "burn_ins": [
            {
                "gate": "b",
                "requirement": "Fetch>=4",
                "attempt": 2,
                "seconds": 1.5,
                "since": "1970-01-01T00:00:00.500000+00:00",
            }
        ],
    }
    assert text == json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    store.save(LatchState(cluster_id="d"))
    assert "burn_ins" not in json.loads((tmp_path / "d.json").read_text())


@pytest.mark.parametrize("step", [1, -1])
def test_of_one_requirement_in_two_spellings_the_later_attempt_counts(tmp_path: Path, step: int) -> None:
    """A release whose catalog lacks a feature spells it in another way, and may share the folder."""
    counts = [
        {"gate": "b", "requirement": "group.version>=1", "attempt": 2, "seconds": 0.0, "since": None},
        {"gate": "b", "requirement": "feature:group.version>=1", "attempt": 1, "seconds": 900.0, "since": 0.5},
    ]
    document = {"schema_version": 1, "cluster_id": "c", "levels": {}, "gates": [], "burn_ins": counts[::step]}
    (tmp_path / "c.json").write_text(json.dumps(document))
    state = FileLatchStore(tmp_path).load("c")
    assert state is not None
    assert [(count.attempt, count.seconds) for count in state.burn_ins.values()] == [(2, 0.0)]


def test_damaged_files_are_numbered_from_one_on(tmp_path: Path) -> None:
    """The error says what is wrong with which file, and where it is now."""
    store, path = FileLatchStore(tmp_path), tmp_path / "c.json"
    for number, find in enumerate((lambda: store.load("c"), lambda: store.save(STATE), lambda: store.load("c")), 1):
        path.write_text("{")
        with pytest.raises(LatchStoreCorrupt) as raised:
            find()
        aside = tmp_path / f"c.damaged-{number}"
        assert (raised.value.place, raised.value.aside) == (str(path), str(aside))
        assert aside.read_text() == "{"
        assert re.search(r"latches: this is not JSON: Expecting", str(raised.value))


def test_a_source_has_a_file_of_one_length_in_a_folder_that_is_made(tmp_path: Path) -> None:
    """Its bootstrap list may be longer than the name of a file, and a path may be no text in UTF-8."""
    store, source = FileLatchStore(tmp_path / "a" / "b"), "b1é:9092," * 100
    for cluster_id in ("before", "c"):
        store.note_cluster(source, cluster_id)
    (path,) = store.folder.iterdir()
    assert path.name == f"{sha256(source.encode()).hexdigest()[:32]}.source"
    assert path.read_text(encoding="utf-8") == f'{{"source": "{source}", "cluster_id": "c"}}\n'
    assert (store.last_cluster(source), store.last_cluster("\udcff")) == ("c", None)
    path.write_text('{"source": "other", "cluster_id": "c"}')
    assert store.last_cluster(source) is None


@pytest.mark.parametrize(
    ("cluster_id", "name"),
    [("a/../é", "a%2F..%2F%C3%A9.json"), ("x" * 300, f"{'x' * 200}.json"), ("A-_b", "A-_b.json")],
)
def test_a_cluster_id_names_a_file(tmp_path: Path, cluster_id: str, name: str) -> None:
    assert FileLatchStore(tmp_path).path(cluster_id) == tmp_path / name
