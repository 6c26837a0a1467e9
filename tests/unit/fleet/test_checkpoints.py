"""Checkpoints of which files are lost."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.stream.checkpoints import resumed
from featuregate_fleet.stream.request_logs import files_in_a_batch


def test_a_checksum_goes_with_its_file(tmp_path: Path):
    """Otherwise Spark cannot write the file again."""
    commits = tmp_path / "commits"
    commits.mkdir()
    for name in ("0", ".0.crc", ".1.crc", "2"):
        (commits / name).touch()
    assert resumed(tmp_path) == str(tmp_path)
    assert {path.name for path in commits.iterdir()} == {"0", ".0.crc", "2"}
    assert resumed(tmp_path / "new") == str(tmp_path / "new")


@pytest.mark.parametrize(
    ("sizes", "files"),
    [([], 10_000), ([0], 10_000), ([6_000] * 9, 10_000), ([2**23] * 2, 256), ([2**20], 2048), ([2**34, 1], 256)],
)
def test_a_micro_batch_has_more_files_where_they_are_small(sizes: list[int], files: int) -> None:
    """A run that is told to stop ends behind its micro-batch, so the bytes of one are bounded."""
    assert files_in_a_batch(sizes) == files
