"""What a reused worker is spared, with archives of the test's own."""

import gc
import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest
from pyspark import SparkFiles

from featuregate_spark.reused_worker import ReusedWorkerTask, drop_importers_outside, freeze_once


def archive_on_path(monkeypatch: pytest.MonkeyPatch, archive: Path, package: str) -> None:
    """Make an archive of a package that has one module, and put it on the path."""
    archive.parent.mkdir()
    with ZipFile(archive, "w") as file:
        file.writestr(f"{package}/__init__.py", "")
        file.writestr(f"{package}/late.py", "")
    monkeypatch.syspath_prepend(archive)
    for name in (package, f"{package}.late"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def archives_with_importers() -> set[str]:
    return {finder.archive for finder in sys.path_importer_cache.values() if isinstance(finder, zipimporter)}


def test_importers_of_archives_that_do_not_change_are_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of them would read its archive again before each task; modules of the archive can be imported later."""
    spark, added = tmp_path / "spark" / "spark.zip", tmp_path / "added" / "added.zip"
    archive_on_path(monkeypatch, spark, "of_spark")
    archive_on_path(monkeypatch, added, "of_the_app")
    importlib.import_module("of_spark")
    importlib.import_module("of_the_app")
    assert archives_with_importers() >= {str(spark), str(added)}
    drop_importers_outside(added.parent)
    assert archives_with_importers() & {str(spark), str(added)} == {str(added)}
    assert importlib.import_module("of_spark.late")


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_the_worker_of_a_task_is_spared_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The function travels to the worker, and its rows come back."""
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "added"))
    archive_on_path(monkeypatch, tmp_path / "spark" / "spark.zip", "of_spark")
    importlib.import_module("of_spark")
    task = pickle.loads(pickle.dumps(ReusedWorkerTask(reversed)))
    assert list(task([1, 2])) == [2, 1]
    assert not any(archive.startswith(str(tmp_path)) for archive in archives_with_importers())
    assert gc.get_freeze_count()


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_are_frozen_once() -> None:
    """What later tasks make is collected."""
    freeze_once()
    frozen = gc.get_freeze_count()
    assert frozen
    made_later = [[number] for number in range(10_000)]
    freeze_once()
    assert gc.get_freeze_count() <= frozen < frozen + len(made_later)
