"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from featuregate.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path


def test_the_last_of_two_writers_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that another one overtakes replaces the file, too, and both writers succeed."""
    path, flush = tmp_path / "file", os.fsync

    def overtaken(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", flush)
        replace_file(path, "of the other")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", overtaken)
    replace_file(path, "of the slower one")
    assert path.read_text() == "of the slower one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays as it was."""
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
