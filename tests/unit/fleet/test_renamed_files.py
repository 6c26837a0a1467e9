"""Logs that are renamed, replaced or compressed between the look at them and the reading: each request counts once."""

import gzip
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from fleet_runs import Runs, append, lines

from featuregate_fleet.evidence.paths import IN_UTC
from featuregate_fleet.files import pieces as pieces_module
from featuregate_fleet.files.pieces import Piece, pieces_of
from featuregate_fleet.runs.log_files import LogFolder

OLD, NEWER, NEWEST, LATE = (range(first, first + 40) for first in (0, 100, 200, 300))
SHORT = range(100, 102)
"""The lines of a text with fewer bytes than those by which texts are told apart."""
MANY = range(2000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "1").mkdir()
    return tmp_path / "1"


@pytest.fixture
def runs(folder: Path) -> Runs:
    return Runs(folder.parent)


def once(*numbers: Iterable[int]) -> Counter[str]:
    return Counter(f"c{number}" for each in numbers for number in each)


def check_a_run_ends_with(runs: Runs, *numbers: Iterable[int]) -> None:
    """Run once more: then each of some lines was read once, and nothing is missing."""
    runs.run()
    assert (runs.clients, runs.missing) == (once(*numbers), set())


def by_number(folder: Path) -> None:
    for number in (2, 1):
        if (folder / f"log.{number}").exists():
            (folder / f"log.{number}").rename(folder / f"log.{number + 1}")
    (folder / "log").rename(folder / "log.1")
    (folder / "log").write_bytes(lines(*NEWEST))


def by_number_and_gzip(folder: Path) -> None:
    by_number(folder)
    (folder / "log.1.gz").write_bytes(gzip.compress((folder / "log.1").read_bytes()))
    (folder / "log.1").unlink()


def by_copy(folder: Path) -> None:
    shutil.copy(folder / "log", folder / "log.1")
    (folder / "log").write_bytes(lines(*NEWEST))


@pytest.mark.parametrize("newer", [NEWER, SHORT])
@pytest.mark.parametrize("rotate", [by_number, by_number_and_gzip, by_copy])
def test_a_log_that_is_rotated_before_it_is_read_counts_once(
    runs: Runs, folder: Path, rotate: Callable[[Path], None], newer: range
) -> None:
    """Its name is that of another text by now. The next run finds both."""
    (folder / "log").write_bytes(lines(*newer))
    if rotate is not by_copy:
        (folder / "log.1").write_bytes(lines(*OLD))
    runs.run(lambda: rotate(folder))
    check_a_run_ends_with(runs, newer, NEWEST, OLD if rotate is not by_copy else ())
    assert runs.run() == []


@pytest.mark.parametrize("rotate", [by_number, by_number_and_gzip, by_copy])
def test_a_log_of_which_a_part_is_read_is_rotated_before_the_rest_is(
    runs: Runs, folder: Path, rotate: Callable[[Path], None]
) -> None:
    """What was read of it is not read again, although nothing was found under its name."""
    (folder / "log").write_bytes(lines(*OLD))
    runs.run()
    append(folder / "log", lines(*NEWER))
    runs.run(lambda: rotate(folder))
    check_a_run_ends_with(runs, OLD, NEWER, NEWEST)


@pytest.mark.parametrize("still", [True, False])
def test_a_log_that_is_cut_while_it_is_read_goes_on_where_it_ended(runs: Runs, folder: Path, *, still: bool) -> None:
    """A transfer may replace it by a part of it, which ends within a line, and then by the whole."""
    text, log = lines(*MANY), folder / "log"
    log.write_bytes(text)
    if still:
        os.utime(log, (1, 1))
    runs.run(lambda: os.truncate(log, len(text) // 2 + 7))
    assert runs.missing == ({"unreadable"} if still else set())
    log.write_bytes(text)
    check_a_run_ends_with(runs, MANY)


def test_a_log_that_is_rotated_while_its_pieces_are_read_counts_once(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever task reads them, and whenever."""
    text = lines(*MANY)
    monkeypatch.setattr(pieces_module, "_PIECE", len(text) // 5)
    (folder / "log").write_bytes(text)

    def read(pieces: list[Piece]) -> Iterator[Piece]:
        for number, piece in enumerate(part for whole in pieces for part in pieces_of(whole)):
            if number == 3:
                by_number(folder)
            yield piece

    runs.commit(read(runs.folder.look(runs.known)[0]))
    assert runs.missing == {"vanished"}
    check_a_run_ends_with(runs, MANY, NEWEST)


def test_an_empty_log_that_gives_its_name_to_another_one_before_it_is_read(runs: Runs, folder: Path) -> None:
    """It has no time, and is known by its name. What has that name by then is known by its own text."""
    (folder / "log.1.gz").write_bytes(gzip.compress(b""))

    def rotate() -> None:
        (folder / "log.1.gz").rename(folder / "log.2.gz")
        (folder / "log.1.gz").write_bytes(gzip.compress(lines(*OLD)))

    runs.run(rotate)
    runs.run()
    (folder / "log.1.gz").rename(folder / "log.3.gz")
    runs.run()
    assert runs.clients == once(OLD)


def test_a_text_that_was_replaced_is_missing(runs: Runs, folder: Path) -> None:
    """Nothing has it any more. Those of the new one count once, and those of other files."""
    (folder / "log").write_bytes(lines(*OLD))
    (folder / "other").write_bytes(lines(*NEWER))
    runs.run(lambda: (folder / "log").write_bytes(lines(*NEWEST)))
    runs.run()
    assert runs.clients == once(NEWER, NEWEST)
    assert runs.missing == {"vanished"}
    (row,) = [row for row in runs.sources if row["reason"]]
    assert row["path"] == "1/log"
    assert "another file has its name" in str(row["why"])


@pytest.mark.parametrize("numbers", [OLD, SHORT])
@pytest.mark.parametrize("moment", ["before", "during", "after", "never"])
def test_a_log_at_which_gzip_works_counts_once(runs: Runs, folder: Path, moment: str, numbers: range) -> None:
    """Both its input and its output are listed. gzip removes the first before it is read, or later, or keeps it."""
    (folder / "log").write_bytes(lines(*numbers))
    (folder / "log.gz").write_bytes(gzip.compress(lines(*numbers)))
    if moment == "before":
        (folder / "log").unlink()
    runs.run((folder / "log").unlink if moment == "during" else lambda: None)
    if moment == "after":
        (folder / "log").unlink()
    check_a_run_ends_with(runs, numbers)


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("output", [b"", gzip.compress(lines(*OLD))[:20]], ids=["nothing", "a header"])
def test_what_gzip_has_begun_to_write_is_looked_at_again(runs: Runs, folder: Path, output: bytes, *, is_read: bool):
    """It has nothing, or a header, until its buffer is full. It is whole by the time at which it is read."""
    (folder / "log").write_bytes(lines(*OLD))
    if is_read:
        runs.run()
    (folder / "log.gz").write_bytes(output)
    runs.run(lambda: (folder / "log.gz").write_bytes(gzip.compress(lines(*OLD))))
    (folder / "log").unlink()
    check_a_run_ends_with(runs, OLD)


@pytest.mark.parametrize("before", [[], [3000]], ids=["a new name", "a known name"])
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("ends", ["in time", "too late", "never"])
def test_half_of_what_gzip_writes_is_no_damaged_file(
    runs: Runs, folder: Path, ends: str, before: list[int], *, is_read: bool
) -> None:
    """A rotation at each full hour, and a run at each full hour. A gzip that was killed is one, after some time."""
    text, log, output = lines(*MANY), folder / "log", folder / "log.gz"
    if before:  # as from the second rotation on
        output.write_bytes(gzip.compress(lines(*before)))
        runs.run()
        output.rename(folder / "log.2.gz")
    log.write_bytes(text)
    if is_read:
        runs.run()
    output.write_bytes(gzip.compress(text)[:3000])
    runs.run()
    assert runs.missing == set()
    if ends == "in time":
        output.write_bytes(gzip.compress(text))
        log.unlink()
    if ends == "never":
        os.utime(output, (1, 1))
    runs.run()
    assert runs.clients == once(MANY, before)
    assert runs.missing == ({"unreadable"} if ends == "never" else set())
    output.write_bytes(gzip.compress(text + lines(9999)))
    log.unlink(missing_ok=True)
    check_a_run_ends_with(runs, MANY, [9999], before)


@pytest.mark.parametrize("input_now", ["new text", "longer", "gone"])
def test_what_gzip_has_written_is_read_where_its_input_is_another_one(runs: Runs, folder: Path, input_now: str) -> None:
    """It was read in part alone, and what is new in it may be nowhere else by the next run."""
    log, text = folder / "log", lines(*OLD, *LATE)
    log.write_bytes(lines(*OLD))
    runs.run()
    (folder / "log.gz").write_bytes(gzip.compress(text))
    log.write_bytes(lines(*NEWEST) if input_now == "new text" else text)
    if input_now == "gone":
        log.unlink()
    check_a_run_ends_with(runs, OLD, LATE, NEWEST if input_now == "new text" else ())


@pytest.mark.parametrize("other", ["link", "pipe", "folder"])
def test_a_log_whose_name_cannot_be_read_now_is_read_under_its_other_one(runs: Runs, folder: Path, other: str) -> None:
    """What is behind a link is not read, and nobody waits for the writer of a pipe."""
    log = folder / "log"
    log.write_bytes(lines(*OLD))

    def rotate() -> None:
        log.rename(folder / "log.1")
        {"link": lambda: log.symlink_to(folder / "log.1"), "pipe": lambda: os.mkfifo(log), "folder": log.mkdir}[other]()

    runs.run(rotate)
    check_a_run_ends_with(runs, OLD)


def test_the_larger_part_counts_where_a_text_was_read_under_several_names(runs: Runs, folder: Path) -> None:
    """It grew when it had another name than that of its output."""
    log, rotated = folder / "log", folder / "log.1"
    log.write_bytes(lines(*OLD))
    runs.run()
    log.rename(rotated)
    append(rotated, lines(*LATE))
    runs.run()
    (folder / "log.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()
    check_a_run_ends_with(runs, OLD, LATE)


@pytest.mark.parametrize("during", [True, False])
def test_a_text_that_gunzip_has_unpacked_counts_once(runs: Runs, folder: Path, *, during: bool) -> None:
    """Before it is read, or after it was read as a whole."""

    def gunzip() -> None:
        (folder / "log").write_bytes(gzip.decompress((folder / "log.gz").read_bytes()))
        (folder / "log.gz").unlink()

    (folder / "log.gz").write_bytes(gzip.compress(lines(*OLD)))
    runs.run(gunzip if during else lambda: None)
    if not during:
        gunzip()
    check_a_run_ends_with(runs, OLD)


@pytest.mark.parametrize(
    ("before", "after", "read"),
    [
        (lines(*SHORT), lines(*NEWEST), 40),
        (lines(*SHORT), lines(200, 201), 2),
        (lines(*SHORT), lines(200), 1),
        (lines(*OLD), lines(200), 1),
        (gzip.compress(lines(*SHORT)), gzip.compress(lines(*NEWEST)), 40),
        (lines(*OLD), b"(\xb5/\xfd" + bytes(400), 0),
    ],
    ids=["longer", "of the same size", "shorter", "much shorter", "compressed", "of a format that is not read"],
)
def test_a_file_with_the_name_of_another_one_is_read(
    runs: Runs, folder: Path, before: bytes, after: bytes, read: int
) -> None:
    """However short they are."""
    (folder / "log").write_bytes(before)
    runs.run()
    (folder / "log").write_bytes(after)
    os.utime(folder / "log", ns=(1, 1))  # another time than that of the first one, on any file system
    runs.run()
    assert runs.sources[-1]["read"] == read
    assert runs.missing == (set() if read else {"unreadable"})


def test_a_file_that_did_not_change_is_not_opened_again(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder may have very many. One that was renamed is opened, and nothing of it is read again."""
    for name in ("log", "log.1.gz"):
        (folder / name).write_bytes(gzip.compress(lines(*OLD)) if name.endswith("gz") else lines(*NEWER))
    runs.run()
    opened: list[str] = []
    looked = LogFolder._look_at
    monkeypatch.setattr(
        LogFolder, "_look_at", lambda self, some: opened.extend(each.uri for each in some) or looked(self, some)
    )
    runs.folder = LogFolder(folder.parent, IN_UTC)
    assert (runs.run(), opened) == ([], [])
    (folder / "log").rename(folder / "log.1")
    runs.run()
    assert opened == [(folder / "log.1").as_uri()]
    assert runs.clients == once(OLD, NEWER)
