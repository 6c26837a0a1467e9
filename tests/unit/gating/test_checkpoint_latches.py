"""The latches in the pins of a Spark query, which commands read without Spark."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from featuregate.errors import LatchStoreError
from featuregate.gating.latch_documents import latch_document
from featuregate.gating.latch_store import batch_of, latches_in, newest_pin
from featuregate.gating.latches import LatchedGate, LatchState

EOS = LatchedGate(gate="eos", requirement="TxnOffsetCommit>=3", opened_at=1.0, epoch=7)
STATES = [LatchState(cluster_id=each, gates={EOS.key: EOS}) for each in ("c", "d")]


@pytest.mark.parametrize(
    ("name", "number"),
    [("pin-0", 0), ("pin-12", 12), ("pin-", None), ("12", None), ("pin-x", None), ("PIN-1", None), ("pin-1.tmp", None)],
)
def test_a_pin_is_named_by_the_number_of_its_batch(name: str, number: int | None) -> None:
    """Other files lie beside pins."""
    assert batch_of(name) == number


@pytest.mark.parametrize("place", ["", "featuregate"])
def test_the_newest_pin_has_the_highest_number(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    assert newest_pin(tmp_path) is None
    for name in ("pin-9", "pin-10", "pin-8", "pin-", "offsets"):
        (folder / name).touch()
    assert newest_pin(tmp_path) == folder / "pin-10"


def pin_in(folder: Path, **changed: Any) -> Path:
    pin = folder / "pin-3"
    document = {"schema_version": 1, "latch_states": [latch_document(state) for state in STATES], **changed}
    pin.write_text(json.dumps(document))
    return pin


def test_a_pin_has_the_latches_of_each_cluster(tmp_path: Path) -> None:
    assert latches_in(pin_in(tmp_path)) == STATES


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"schema_version": 2}, "written by a newer featuregate (schema version 2); upgrade this one"),
        ({"latch_states": 5}, "damaged (latches.latch_states: expected an array, not 5)"),
    ],
)
def test_a_pin_that_cannot_be_read_is_an_error_with_its_name(
    tmp_path: Path, changed: dict[str, Any], problem: str
) -> None:
    pin = pin_in(tmp_path, **changed)
    with pytest.raises(LatchStoreError) as raised:
        latches_in(pin)
    assert str(raised.value) == f"{pin}: {problem}"


def test_a_pin_that_is_gone_is_an_error_too(tmp_path: Path) -> None:
    """A query removes old pins while a command reads them."""
    with pytest.raises(LatchStoreError, match=rf"^{re.escape(str(tmp_path))}/pin-3: No such file or directory$"):
        latches_in(tmp_path / "pin-3")
