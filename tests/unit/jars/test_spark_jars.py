"""The class path of a local Spark: jars that are at hand, and what to do where none can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from featuregate.errors import LocalKafkaError
from featuregate.jars.spark import CONNECTOR, DELTA, FOLDER, class_path

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = {"spark-sql-kafka": "-0-10_2.13-4.0.0", "spark-token-provider-kafka": "-0-10_2.13-4.0.0"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with all jars of Spark 4.0.0 and Delta Lake 4.0.0."""
    for prefix in (*DELTA, *CONNECTOR):
        (tmp_path / f"{prefix}{VERSIONS.get(prefix, '-4.0.0')}.jar").touch()
    return tmp_path


def test_jars_at_hand_are_taken_from_the_option_or_from_the_environment(folder: Path) -> None:
    """The option wins."""
    assert class_path("4.0.0", "4.0.0", folder, {FOLDER: "/elsewhere"}) == f"{folder}/*"
    assert class_path("4.0.0", "4.0.0", None, {FOLDER: str(folder)}) == f"{folder}/*"


@pytest.mark.parametrize("prefix", [*DELTA, *CONNECTOR])
def test_a_folder_that_lacks_a_jar_is_refused_by_its_name(folder: Path, prefix: str) -> None:
    """Spark would say it in a hundred lines, and late."""
    next(folder.glob(f"{prefix}*")).unlink()
    with pytest.raises(LocalKafkaError, match=rf"the folder of jars .* has no {prefix}"):
        class_path("4.0.0", "4.0.0", folder, {})


def test_jars_of_another_release_are_refused(folder: Path) -> None:
    """They must be those of the installed PySpark."""
    with pytest.raises(LocalKafkaError, match=r"has no spark-sql-kafka\*-4\.0\.1\.jar"):
        class_path("4.0.0", "4.0.1", folder, {})


def test_jars_that_cannot_be_had_name_every_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option, the environment, a mirror, and spark-submit."""
    pytest.importorskip("jgo")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEATUREGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / ".jgorc").write_text("[repositories]\nmirror = http://127.0.0.1:1/maven2\n")
    with pytest.raises(LocalKafkaError, match=r"could not download Delta Lake 4\.0\.0 .*--jars, or FEATUREGATE_JARS"):
        class_path("4.0.0", "4.0.0", None, {})
