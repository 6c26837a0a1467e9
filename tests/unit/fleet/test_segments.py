"""Collecting from a live log: each line in one segment, whatever happens to the log and to the process."""

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from fleet_lines import document, line_of
from hypothesis import given
from hypothesis import strategies as st
from waiting import eventually

from featuregate_fleet import LogTruncated
from featuregate_fleet.errors import BodiesUncut, TablesBusy
from featuregate_fleet.files import segments as module
from featuregate_fleet.files.bodies import cut_bodies
from featuregate_fleet.files.segments import Segmenter


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the log of a broker."""
    return tmp_path / "kafka-request.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the broker's segments."""
    return tmp_path / "logs" / "1"


@pytest.fixture
def segmenter(log: Path, folder: Path) -> Iterator[Segmenter]:
    """Return a segmenter of the log."""
    made = Segmenter(log, folder)
    yield made
    made.close()


def append(log: Path, text: str) -> None:
    """Append text, as a broker does."""
    with log.open("a") as file:
        file.write(text)


def restarted(log: Path, folder: Path) -> list[str]:
    """Collect once in a new segmenter."""
    segmenter = Segmenter(log, folder)
    try:
        return segmenter.collect()
    finally:
        segmenter.close()


def collected(folder: Path) -> str:
    """Return what is in segments, by log and place; nothing else may be seen in the folder."""

    def place(path: Path) -> tuple[str, int, int]:
        of_log, start, end = path.name.split("-")
        return of_log, int(start), int(end)

    shown = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return "".join(path.read_text() for path in sorted(shown, key=place))


def log_in(folder: Path) -> str:
    """Return how the names of the segments of the current log begin."""
    progress = json.loads((folder / ".progress.json").read_text())
    return f"{progress['inode']}{progress['mark']}"


def test_whole_lines_go_into_segments(log: Path, folder: Path, segmenter: Segmenter):
    """A line that is not complete waits for its end."""
    assert segmenter.collect() == []  # no log yet
    append(log, "one\ntwo\nthr")
    assert segmenter.collect() == [f"{log_in(folder)}-0-8"]
    assert segmenter.collect() == []
    append(log, "ee\n")
    assert segmenter.collect() == [f"{log_in(folder)}-8-14"]
    assert log_in(folder).startswith(f"{log.stat().st_ino}.")
    assert collected(folder) == "one\ntwo\nthree\n"


def test_a_long_log_becomes_several_segments(log: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A line that is longer than a segment is cut, and the parser says so."""
    monkeypatch.setattr(module, "_LONGEST", 8)
    append(log, "one\ntwo\nthree\n" + "x" * 20 + "\n")
    assert len(restarted(log, folder)) > 3
    assert collected(folder) == log.read_text()


def compress(log: Path, *, mtime: float) -> None:
    """Compress a rotated log, as a rotation does."""
    compressed = log.with_name(f"{log.name}.gz")
    compressed.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(compressed, (mtime, mtime))
    log.unlink()


def test_a_log_that_was_compressed_before_it_was_collected_is_an_error(log: Path, segmenter: Segmenter):
    """Two rotations came between two looks. The log that was collected may be compressed, with the time of the file."""
    append(log, "one\n")
    segmenter.collect()
    first = log.rename(log.with_name(f"{log.name}.1"))
    os.utime(first, (2e9, 2e9))
    compress(first, mtime=2e9 + 1)
    append(log, "two\n")
    assert len(segmenter.collect()) == 1
    second = log.rename(log.with_name(f"{log.name}.2"))
    os.utime(second, (2e9 + 2, 2e9 + 2))
    append(log, "three\n")
    third = log.rename(log.with_name(f"{log.name}.3"))
    compress(third, mtime=2e9 + 3)
    append(log, "four\n")
    with pytest.raises(LogTruncated, match=r"kafka-request\.log\.3\.gz was compressed before it was collected"):
        segmenter.collect()


@pytest.mark.parametrize("written", [0, 8])
def test_a_log_that_is_being_compressed_is_there_until_then(log: Path, segmenter: Segmenter, written: int):
    """Half a file in gzip's format says nothing, nor does one that was made just now."""
    append(log, "one\n")
    segmenter.collect()
    for number, text in enumerate(["two\n", "three\n"], start=1):
        rotated = log.rename(log.with_name(f"{log.name}.{number}"))
        os.utime(rotated, (2e9 + number, 2e9 + number))
        append(log, text)
    half = log.with_name(f"{log.name}.2.gz")
    half.write_bytes(gzip.compress(b"two\n")[:written])
    os.utime(half, (2e9 + 3, 2e9 + 3))
    assert len(segmenter.collect()) == 2


@pytest.mark.parametrize("restart", [False, True])
def test_a_rotation_loses_no_line(log: Path, folder: Path, segmenter: Segmenter, restart: bool):  # noqa: FBT001
    """The rest of the renamed log comes first, with a last line that has no line break, then its successors."""
    append(log, "one\ntwo\n")
    segmenter.collect()
    append(log, "three\nfour")
    log.rename(log.with_name("kafka-request.log.2026-11-22-21"))
    names = [] if restart else segmenter.collect()  # its successor is not there yet
    for hour, text in enumerate(["five\n", "six\n"], start=22):
        append(log, text)
        rotated = log.rename(log.with_name(f"kafka-request.log.2026-11-22-{hour}"))
        os.utime(rotated, (2e9 + hour, 2e9 + hour))
    append(log, "seven\n")
    os.utime(log, (3e9, 3e9))
    names += restarted(log, folder) if restart else segmenter.collect()
    texts = [(folder / name).read_text() for name in names]
    assert "".join(texts) == "three\nfourfive\nsix\nseven\n"
    assert restarted(log, folder) == []


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("later", ["", "new\n", "another log that is longer than before\n"])
def test_copytruncate_is_refused(log: Path, folder: Path, segmenter: Segmenter, restart: bool, later: str):  # noqa: FBT001
    """Lines may be lost between the copy and the cut, and the collector cannot say which. The error says what to do."""
    append(log, "one\ntwo\n")
    segmenter.collect()
    os.truncate(log, 0)
    append(log, later)
    with pytest.raises(LogTruncated, match=r"copytruncate loses lines. Rotate it by renaming"):
        restarted(log, folder) if restart else segmenter.collect()
    assert collected(folder) == "one\ntwo\n"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"inode": 1}', '{"other": 1}'])
def test_a_damaged_progress_is_an_error_with_its_file(log: Path, folder: Path, segmenter: Segmenter, content: str):
    """A collector that began again would write the lines of its segments twice."""
    append(log, "one\n")
    segmenter.collect()
    (folder / ".progress.json").write_text(content)
    with pytest.raises(LogTruncated, match=r"\.progress\.json is damaged, .* take another folder"):
        restarted(log, folder)
    assert collected(folder) == "one\n"


def test_a_log_that_was_deleted_meanwhile_is_said(log: Path, folder: Path, segmenter: Segmenter):
    """Its last lines may be lost."""
    append(log, "one\n")
    segmenter.collect()
    log.rename(log.with_name("other"))
    append(log, "two\n")
    with pytest.raises(LogTruncated, match="did not keep the log that was collected before, up to byte 4"):
        restarted(log, folder)


def test_a_segment_whose_progress_was_not_kept_counts_once(log: Path, folder: Path, segmenter: Segmenter):
    """The process was killed in between; the name of the segment says where it ends."""
    append(log, "one\n")
    segmenter.collect()
    kept = (folder / ".progress.json").read_text()
    append(log, "two\n")
    segmenter.collect()
    (folder / ".progress.json").write_text(kept)
    append(log, "three\n")
    assert restarted(log, folder) == [f"{log_in(folder)}-8-14"]
    assert collected(folder) == "one\ntwo\nthree\n"


@pytest.mark.parametrize("seen_empty", [False, True])
def test_a_log_with_the_inode_of_a_deleted_one_is_collected_from_its_beginning(
    log: Path,
    folder: Path,
    seen_empty: bool,  # noqa: FBT001
):
    """Segments of the deleted one are there still: the new one neither continues them, nor has their names."""
    append(log, "one\n")
    restarted(log, folder)
    deleted = log.rename(log.with_name("kafka-request.log.1"))
    append(log, "two\n")
    restarted(log, folder)
    log.rename(log.with_name("kafka-request.log.2"))
    os.truncate(deleted, 0)  # the inode of a new log
    deleted.rename(log)
    if seen_empty:
        restarted(log, folder)
    append(log, "six\n")
    restarted(log, folder)
    assert sorted(collected(folder).splitlines()) == ["one", "six", "two"]


def test_a_log_that_an_older_release_has_begun_keeps_its_name(log: Path, folder: Path):
    """Its segments have no mark: the one whose progress was not kept counts once, too."""
    append(log, "one\ntwo\nsix\n")
    restarted(log, folder)
    (segment,) = [path for path in folder.iterdir() if not path.name.startswith(".")]
    segment.unlink()
    inode, digest = log.stat().st_ino, sha256(b"one\n").hexdigest()
    progress = {"inode": inode, "end": 4, "head": 4, "digest": digest}
    (folder / ".progress.json").write_text(json.dumps(progress))
    (folder / f"{inode}-0-4").write_text("one\n")
    (folder / f"{inode}-4-8").write_text("two\n")
    assert restarted(log, folder) == [f"{inode}-8-12"]
    assert collected(folder) == log.read_text()


def test_a_process_that_is_killed_loses_and_doubles_nothing(log: Path, folder: Path, tmp_path: Path):
    """Again and again, while the broker goes on writing and rotating."""
    arguments = ["fleet", "collect", "--log", log, "--broker", "1", "--logs", folder.parent, "--interval", "0.001"]
    folder.mkdir(parents=True)
    written = ""
    for turn in range(4):
        with subprocess.Popen(
            [sys.executable, "-m", "featuregate", *map(str, arguments)], stdout=subprocess.DEVNULL
        ) as process:
            try:
                for line in range(50):
                    text = f"{turn} {line}\n"
                    append(log, text)
                    written += text
                eventually(
                    lambda last=text: last in collected(folder) or process.poll() is not None,
                    "a segment is there",
                    120,
                )
            finally:
                process.send_signal(signal.SIGTERM if turn == 3 else signal.SIGKILL)
        assert process.returncode == (0 if turn == 3 else -signal.SIGKILL)
        log.rename(tmp_path / f"kafka-request.log.{turn}")
        log.touch()
    restarted(log, folder)
    assert sorted(collected(folder).splitlines()) == sorted(written.splitlines())


def test_a_second_process_is_refused(log: Path, folder: Path):
    """Two processes would write the same segments."""
    from filelock import FileLock  # noqa: PLC0415

    from featuregate_fleet import command  # noqa: PLC0415

    folder.mkdir(parents=True)
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    args = parser.parse_args(["collect", "--log", str(log), "--broker", "1", "--logs", str(folder.parent), "--once"])
    with FileLock(folder / ".lock"), pytest.raises(TablesBusy, match="another process collects into"):
        command.run(args)
    assert command.run(args) == 0


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ['},"request":', ',"connection":"', ") -- ", " from connection ", "Completed request:"]
)


@given(client=TEXTS, principal=TEXTS, body=TEXTS, end=st.integers(0, 2000))
def test_a_line_without_bodies_says_the_same_of_the_client(client: str, principal: str, body: str, end: int):
    """The texts may hold anything, and the line may be cut anywhere."""
    pytest.importorskip("pyarrow")
    from featuregate_fleet.evidence.lines.one_line import read_line  # noqa: PLC0415

    line = line_of(document(clientId=client, principal=principal, request={"a": body}, response={"b": [body]}))
    for whole in (line, line[:end], line[:end] + line):
        try:
            (short,) = cut_bodies(whole.encode()).decode().split("\n")
        except BodiesUncut:  # what is left of one is directly before another one
            assert whole.count("Completed request:") > 1
            assert isinstance(read_line(whole), str)
            continue
        assert read_line(short) == read_line(whole)
        assert len(short) <= len(whole)


def test_bodies_of_real_lines_are_cut(real_lines: Sequence[str]):
    """Most bytes are theirs, and lines without a request stay as they are."""
    pytest.importorskip("pyarrow")
    from featuregate_fleet.evidence.lines.one_line import read_line  # noqa: PLC0415

    text = "\n".join(real_lines)
    short = cut_bodies(text.encode()).decode()
    assert [read_line(line) for line in short.split("\n")] == [read_line(line) for line in real_lines]
    requests = [line for line in short.split("\n") if "Completed request:" in line]
    assert requests
    empty = (
        '"request":{},"response":{},"connection"',
        " -- {},response:{} from connection",
        "} -- {} from connection",
        "; ReplicaId:  from connection",
        "; BrokerId:  from connection",
    )
    assert all(any(bodies in line for bodies in empty) for line in requests)


def test_a_link_is_not_collected(log: Path, folder: Path, segmenter: Segmenter, tmp_path: Path):
    """Neither in place of the log nor beside it, where a rotated log would be."""
    secret = tmp_path / "key"
    secret.write_text("PRIVATE KEY\n")
    log.symlink_to(secret)
    with pytest.raises(
        OSError, match=r"kafka-request.log is a symbolic link, which is not followed: name the log itself"
    ):
        segmenter.collect()
    log.unlink()
    append(log, "one\n")
    assert segmenter.collect()
    log.rename(log.with_name("kafka-request.log.2"))
    log.with_name("kafka-request.log.1").symlink_to(secret)
    append(log, "two\n")
    os.utime(secret)
    segmenter.collect()
    assert collected(folder) in {"one\ntwo\n", "two\none\n"}
