"""Checkpoints of which files are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.stream.checkpoints import resumed

if TYPE_CHECKING:
    from pathlib import Path


def test_a_checksum_goes_with_its_file(tmp_path: Path):
    """Otherwise Spark cannot write the file again."""
    commits = tmp_path / "commits"
    commits.mkdir()
    for name in ("0", ".0.crc", ".1.crc", "2"):
        (commits / name).touch()
    assert resumed(tmp_path) == str(tmp_path)
    assert {path.name for path in commits.iterdir()} == {"0", ".0.crc", "2"}
    assert resumed(tmp_path / "new") == str(tmp_path / "new")
