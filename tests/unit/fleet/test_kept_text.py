"""Small texts that a run keeps for later ones, on a storage whose files are seen while they are written."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("upath")

from upath import UPath

from featuregate_fleet.files import kept_text as module
from featuregate_fleet.files.kept_text import keep_text, kept_text


class Killed(BaseException):
    """The end of a process."""


class HadoopLike:
    """Kills the process before one of its calls, or in the middle of one that writes; renames over no file."""

    def __init__(self, backend: Any, kill_at: int | None = None) -> None:
        self._backend = backend
        self._left = kill_at

    def call(self, name: str, *of: Any, **options: Any) -> Any:
        """Make one call, unless the process is killed."""
        if self._left == 0:
            if "w" in options.get("mode", ""):
                self._backend.pipe_file(of[0], b"")
            raise Killed
        if self._left is not None:
            self._left -= 1
        if name == "mv" and self._backend.exists(of[1]):
            raise FileExistsError(of[1])
        return getattr(self._backend, name)(*of, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a method of the backend."""
        found = getattr(self._backend, name)
        return (lambda *of, **options: self.call(name, *of, **options)) if callable(found) else found


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a path of a storage that counts as one of Hadoop."""
    monkeypatch.setattr(module, "OF_HADOOP", frozenset({"memory"}))
    found = UPath("memory://lake/mark")
    found.parent.mkdir(parents=True, exist_ok=True)
    for each in found.parent.iterdir():
        each.unlink()
    return found


def through(path: Path, kill_at: int | None = None) -> Path:
    """Return the path over another backend."""
    of_killed = UPath(path)
    of_killed._fs_cached = HadoopLike(path.fs, kill_at)
    return of_killed


@pytest.mark.parametrize("then", [None, *range(12)])
def test_a_process_that_is_killed_leaves_the_text_before_or_the_new_one(path: Path, then: int | None):
    """At whichever call, the first time and later ones, and after one that was killed at another call."""
    written = {"one"}
    keep_text(through(path), "one")
    for first in count():
        try:
            keep_text(through(path, first), f"killed at {first}")
        except Killed:
            written.add(f"killed at {first}")
        else:
            break
        assert kept_text(path) in written
        if then is not None:
            with suppress(Killed):
                keep_text(through(path, then), f"then at {then}")
            written.add(f"then at {then}")
            assert kept_text(path) in written
    assert first > 3, "it was killed at each call"
    keep_text(through(path), "last")
    assert kept_text(path) == "last"
    assert [each.name for each in path.parent.iterdir()] == ["mark"]


def test_a_process_that_is_killed_at_the_first_text_leaves_none_or_all_of_it(path: Path):
    """None is what a run without one knows how to begin with."""
    for kill_at in range(3):
        with pytest.raises(Killed):
            keep_text(through(path, kill_at), "first")
        assert kept_text(path) in {None, "first"}
    keep_text(through(path), "second")
    assert kept_text(path) == "second"


def test_an_empty_file_of_an_older_release_is_no_text(path: Path):
    """It was killed while it wrote."""
    path.write_text("")
    assert kept_text(path) is None
    keep_text(through(path), "new")
    assert kept_text(path) == "new"
