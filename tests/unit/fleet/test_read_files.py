"""What a run knows of the files that it has read, without asking the tables or Spark's whole list each time."""

import gzip
import json
import os
from errno import ENOSPC
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from featuregate_fleet.evidence.paths import IN_UTC, LogFile
from featuregate_fleet.evidence.unread import UNLISTED
from featuregate_fleet.files.contents import content_of
from featuregate_fleet.stream import other_contents
from featuregate_fleet.stream import read_files as module
from featuregate_fleet.stream.accounted_files import AccountedFiles
from featuregate_fleet.stream.last_look import LastLook
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.tables.folder import BatchId


def uri_of(name: str) -> str:
    """Return the URI of a file of broker 1."""
    return f"file:///logs/1/{name}"


def read(*names: str, size: int = 4) -> ReadFiles:
    """Return files that one micro-batch has read."""
    return ReadFiles(("query", 0, uri_of(name), f"1/{name}", size) for name in names)


def add(files: ReadFiles, batch: BatchId, uri: str, path: str, size: int, content: str | None = None) -> None:
    """Add a file that a micro-batch has read."""
    files.add_all(batch, [LogFile(uri, path, "1", size, content=content)], 0)


def lists(checkpoint: Path, log: str, *entries: tuple[int, str]) -> None:
    """Write what Spark has listed: files, with the numbers of the lists in which they were new."""
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": uri_of(name), "timestamp": 1, "batchId": number}) for number, name in entries]
    (folder / log).write_text("\n".join(["v1", *lines]))


def test_a_file_that_was_listed_and_not_read_is_missed(tmp_path: Path):
    """Both ways in which Spark spells a name count as that file."""
    lists(tmp_path, "0", (0, "a"), (0, "b%2520c"), (0, "gone"))
    assert read("a", "b%20c").missed(tmp_path) == [uri_of("gone")]


def test_a_later_call_looks_at_what_was_listed_since(tmp_path: Path):
    """Lists of before are not parsed again, neither by themselves nor in one that has them all."""
    files = read("a")
    lists(tmp_path, "0", (0, "a"))
    lists(tmp_path, "1", (1, "gone"))
    assert files.missed(tmp_path) == [uri_of("gone")]
    for log in (tmp_path / "sources" / "0").iterdir():
        log.write_text("v1\nno JSON")
    lists(tmp_path, "2.compact", (0, "a"), (1, "gone"), (2, "new"), (2, "also gone"))
    add(files, BatchId("query", 2), uri_of("new"), "1/new", 4)
    assert files.missed(tmp_path) == [uri_of("also gone")]
    assert files.missed(tmp_path) == []


def test_a_later_run_looks_at_what_was_listed_since(tmp_path: Path):
    """A number is beside Spark's list, and goes with it."""
    lists(tmp_path, "0", (0, "a"), (0, "b"))
    files = read("a", "b")
    files.account_for(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["sources"], "nothing was looked at"
    assert files.missed(tmp_path) == []
    files.account_for(tmp_path, [])
    lists(tmp_path, "1", (1, "gone"))
    assert read("a").missed(tmp_path) == [uri_of("gone")]


def test_a_file_that_was_left_out_is_looked_at_again(tmp_path: Path):
    """It was behind a link: a file that gets its name later is listed no more."""
    lists(tmp_path, "0", (0, "a"), (0, "linked"), (0, "also\u2028linked"))
    files = read("a")
    left_out = files.missed(tmp_path)
    files.account_for(tmp_path, left_out)
    assert files.missed(tmp_path) == left_out, "in the same run"
    assert files.left_out == set(left_out)
    later = read("a", "linked")
    assert later.missed(tmp_path) == [uri_of("also\u2028linked")]


def test_a_name_that_is_no_text_is_one_that_was_not_read(tmp_path: Path):
    """As an archive of another encoding leaves it: Python keeps the byte as half of a surrogate pair."""
    (tmp_path / "1").mkdir()
    for name in (b"1/_caf\xe9", b"1/_caf\xea"):
        (tmp_path / os.fsdecode(name)).write_text("a line")
    found = read("a").unlisted(tmp_path, "utf-8")
    assert found == dict.fromkeys((r"1/_caf\xe9", r"1/_caf\xea"), UNLISTED), "two names, which a table can keep"
    assert read("_é").has_path("1/_é")


def test_a_full_folder_of_temporary_files_is_said(tmp_path: Path):
    """A million files take 500 MB there."""
    files = read("a")
    files._files.execute("pragma max_page_count = 12")
    with pytest.raises(OSError, match="the list of files that were read does not fit below TMPDIR") as found:
        files.add_all(BatchId("query", 1), [LogFile(uri_of(f"{n}"), f"1/{n}", "1", 4) for n in range(1000)], 0)
    assert found.value.errno == ENOSPC


@pytest.mark.parametrize("mark", [None, "", "{", "[]", '{"number": 0}', '{"number": "", "left_out": []}'])
@pytest.mark.parametrize("shortened", [True, False])
def test_without_its_number_a_run_compares_all_but_not_what_was_forgotten(
    tmp_path: Path, mark: str | None, *, shortened: bool
):
    """Damaged or deleted: files that `fleet retain` took from the list did not vanish. The run keeps a new one."""
    lists(tmp_path, "0", (0, "a"), (0, "forgotten or vanished"))
    if mark is not None:
        (tmp_path / "files_accounted_for").write_text(mark)
    files = read("a")
    files.shortened = 1 if shortened else None
    assert files.missed(tmp_path) == [uri_of("forgotten or vanished")] * (not shortened)
    files.account_for(tmp_path, [])
    assert AccountedFiles.kept_in(tmp_path) == (0, ())


@pytest.mark.parametrize("shortened", [True, False])
def test_a_file_with_a_forgotten_name_is_found(tmp_path: Path, shortened: bool):  # noqa: FBT001
    """Spark lists it no more, because it has listed one with this name. The run reads it, once."""
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    (logs / "1").mkdir(parents=True)
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True)
    entry = {"path": (logs / "1" / "forgotten").as_uri(), "timestamp": 1, "batchId": 0}
    (folder / "0").write_text(f"v1\n{json.dumps(entry)}")
    (checkpoint / "files_accounted_for").write_text('{"number": 0, "left_out": []}')
    files = ReadFiles()
    files.shortened = 1 if shortened else None
    assert files.missed(checkpoint) == []
    assert files.replaced(logs, IN_UTC) == []
    (logs / "1" / "forgotten").write_text(LONG)
    found = files.replaced(logs, IN_UTC)
    assert [file.path for file in found] == ["1/forgotten"] * shortened
    files.add_all(BatchId("replaced", 0), found, 0)
    assert files.replaced(logs, IN_UTC) == []


@pytest.mark.parametrize(("later", "size", "opened"), [(3600, 0, 0), (0, 0, 1), (3600, 1, 1)])
def test_a_file_is_opened_where_it_may_have_changed_since_its_row_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, size: int, opened: int
):
    """A run each hour would otherwise open all files that were ever read. Clocks may differ by some minutes."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_text(LONG)
    file = of_broker_1(tmp_path, "log")
    written = (tmp_path / "1" / "log").stat().st_ctime_ns // 1000 + later * 10**6
    of_this_run = ReadFiles()
    of_this_run.add_all(BatchId("query", 0), [file._replace(size=file.size + size)], written)
    looked_at: list[LogFile] = []
    monkeypatch.setattr(other_contents, "content_of", lambda file: looked_at.append(file) or content_of(file))
    for files in (
        ReadFiles([("query", 0, file.uri, file.path, file.size + size, file.content, written)]),
        of_this_run,
    ):
        assert files.replaced(tmp_path, IN_UTC) == []
        assert len(looked_at) == opened
        looked_at.clear()
        assert files.replaced(tmp_path, IN_UTC) == []
        assert not looked_at, "it is the same as a moment ago"


@pytest.mark.parametrize(("later", "opened"), [(3600, 0), (0, 1)])
def test_a_file_that_a_run_has_looked_at_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, opened: int
):
    """One that was read soon after it was written would otherwise be opened by each run, for ever."""
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    (logs / "1").mkdir(parents=True)
    checkpoint.mkdir()
    (logs / "1" / "log").write_text(LONG)
    file = of_broker_1(logs, "log")
    written = (logs / "1" / "log").stat().st_ctime_ns // 1000
    row = ("query", 0, file.uri, file.path, file.size, file.content, written)
    before = ReadFiles([row])
    assert before.replaced(logs, IN_UTC) == []
    before.have_looked(checkpoint, written + later * 10**6)
    files = ReadFiles([row])
    assert files.missed(checkpoint) == []
    looked_at: list[LogFile] = []
    monkeypatch.setattr(other_contents, "content_of", lambda file: looked_at.append(file) or content_of(file))
    assert files.replaced(logs, IN_UTC) == []
    assert len(looked_at) == opened
    (logs / "1" / "log").write_text(OTHER)
    assert [found.path for found in files.replaced(logs, IN_UTC)] == ["1/log"], "it was written since"


def test_a_file_of_a_folder_that_was_renamed_is_opened(tmp_path: Path):
    """It is as old as before, and has the size of the one that was read."""
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    for folder, text in (("1", LONG), ("other", OTHER[: len(LONG)])):
        (logs / folder).mkdir(parents=True)
        (logs / folder / "log").write_text(text)
    checkpoint.mkdir()
    file = of_broker_1(logs, "log")
    assert (logs / "other" / "log").stat().st_size == file.size
    row = ("query", 0, file.uri, file.path, file.size, file.content, 0)
    before = ReadFiles([row])
    assert before.replaced(logs, IN_UTC) == []
    before.have_looked(checkpoint, (logs / "other" / "log").stat().st_ctime_ns // 1000 + 3600 * 10**6)
    (logs / "1").rename(logs / "gone")
    (logs / "other").rename(logs / "1")
    files = ReadFiles([row])
    assert files.missed(checkpoint) == []
    assert [found.path for found in files.replaced(logs, IN_UTC)] == ["1/log"]


def test_the_number_of_files_is_counted_by_name():
    """The thread that shows progress asks for it, while another one adds files."""
    files = read("a", "b")
    add(files, BatchId("query", 1), uri_of("a"), "1/a", 9)
    add(files, BatchId("query", 1), uri_of("c"), "1/c", 9)
    assert files.number == 3


def test_a_file_that_another_query_has_read_is_known():
    """After a lost checkpoint; one of the same query is in a micro-batch that runs again."""
    files = read("a")
    assert files.has_of_others(uri_of("a"), "later query")
    assert not files.has_of_others(uri_of("a"), "query")
    assert files.has_batch(BatchId("query", 0))
    assert not files.has_batch(BatchId("query", 1))


def test_each_file_that_has_changed_is_named_in_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """At first all files are looked at, then the new ones, and a bounded number of the others."""
    monkeypatch.setattr(module, "_IN_A_TURN", 1)
    (tmp_path / "1").mkdir()
    for name in "abc":
        (tmp_path / "1" / name).write_text("one\n")
    files = read("a", "b", "gone")
    assert files.changed(tmp_path) == []
    add(files, BatchId("query", 1), uri_of("c"), "1/c", 3)
    for name in "ab":
        (tmp_path / "1" / name).write_text("one\ntwo\n")
    assert files.changed(tmp_path) == ["1/c"]
    turns = [files.changed(tmp_path) for _ in range(3)]
    assert sorted(turns) == [[], ["1/a"], ["1/b"]]


def test_a_file_whose_name_was_given_to_a_shorter_one_has_changed(tmp_path: Path):
    """As by a rotation that renames each file; one that is gone was read before."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log.1").write_text("new")
    assert read("log.1", "gone").changed(tmp_path) == ["1/log.1"]


LONG, OTHER = (f"{number}" * 2000 for number in range(2))


def of_broker_1(logs: Path, name: str) -> LogFile:
    """Return a file with its content."""
    path = logs / "1" / name
    file = LogFile(path.as_uri(), f"1/{name}", "1", path.stat().st_size)
    return file._replace(content=content_of(file))


def test_a_file_is_known_by_its_content_under_another_name(tmp_path: Path):
    """Up to the size that it had, or as a whole if it was compressed. A short text may be that of another file."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_text(LONG)
    (tmp_path / "1" / "log.1.gz").write_bytes(gzip.compress(LONG.encode()))
    (tmp_path / "1" / "short").write_text(LONG[:1023])
    (tmp_path / "1" / "damaged.gz").write_bytes(b"no gzip")
    (tmp_path / "1" / "7.5d0f3a9c-0-2000").write_text(LONG)
    plain, packed = (of_broker_1(tmp_path, name) for name in ("log", "log.1.gz"))
    assert plain.content is not None
    assert packed.content == f"{plain.content}+gzip"
    assert [of_broker_1(tmp_path, name).content for name in ("damaged.gz", "7.5d0f3a9c-0-2000")] == [None] * 2
    short = of_broker_1(tmp_path, "short")
    files = ReadFiles([("query", 0, plain.uri, plain.path, 1500, plain.content)])
    assert files.read_up_to(packed, tmp_path) == 0  # a copy of what is there still
    (tmp_path / "1" / "log").write_text(OTHER)
    assert files.read_up_to(packed, tmp_path) == files.read_up_to(plain, tmp_path) == 1500
    add(files, BatchId("query", 0), short.uri, short.path, 1023, short.content)
    (tmp_path / "1" / "short").unlink()
    for other in (plain._replace(broker="2"), plain._replace(content=None), short):
        assert files.read_up_to(other, tmp_path) == 0
    add(files, BatchId("query", 1), packed.uri, packed.path, 9, packed.content)
    (tmp_path / "1" / "log.1.gz").unlink()
    assert files.read_up_to(plain, tmp_path) > 2**60


def test_a_file_with_the_name_of_another_one_is_found(tmp_path: Path):
    """Once: after it was read, it is the one of this name. One that has grown, and one that is gone, are none."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_text(LONG)
    before = of_broker_1(tmp_path, "log")
    files = ReadFiles([("query", 0, before.uri, before.path, before.size, before.content)])
    add(files, BatchId("query", 0), uri_of("gone"), "1/gone", 9, before.content)
    assert files.replaced(tmp_path, IN_UTC) == []
    (tmp_path / "1" / "log").write_text(LONG + LONG)
    assert files.replaced(tmp_path, IN_UTC) == []
    (tmp_path / "1" / "log").write_text(OTHER[:1500])
    (found,) = files.replaced(tmp_path, IN_UTC)
    assert (found.path, found.size, found.broker) == ("1/log", 1500, "1")
    assert found.content not in {None, before.content}
    add(files, BatchId("replaced", 0), found.uri, found.path, found.size, found.content)
    assert files.replaced(tmp_path, IN_UTC) == []
    assert files.changed(tmp_path) == []


def compressed(text: str) -> bytes:
    """Return a text as gzip, without the time."""
    return gzip.compress(text.encode(), mtime=0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(LONG[:500].encode(), OTHER[:600].encode(), id="short and longer"),
        pytest.param(LONG[:500].encode(), OTHER[:500].encode(), id="short and of the same size"),
        pytest.param(LONG[:500].encode(), OTHER[:400].encode(), id="short and shorter"),
        pytest.param(LONG[:500].encode(), OTHER.encode(), id="short and long"),
        pytest.param(LONG.encode(), OTHER[:500].encode(), id="long and short"),
        pytest.param(compressed(LONG[:500]), compressed(OTHER[:600]), id="short and compressed"),
        pytest.param(compressed(LONG), compressed(OTHER)[:-9], id="damaged"),
        pytest.param(LONG.encode(), b"(\xb5/\xfd" + bytes(400), id="of a format that is not read"),
    ],
)
def test_short_and_damaged_files_with_the_name_of_another_one_are_found(tmp_path: Path, before: bytes, after: bytes):
    """Their lines were never read, or are in no table; a reader says what is damaged."""
    path = tmp_path / "1" / "log"
    path.parent.mkdir()
    path.write_bytes(before)
    first = of_broker_1(tmp_path, "log")
    files = ReadFiles([("query", 0, first.uri, first.path, first.size, first.content)])
    assert files.replaced(tmp_path, IN_UTC) == []
    path.write_bytes(after)
    os.utime(path, ns=(1, 1))  # another time than that of the first one, on any file system
    (found,) = files.replaced(tmp_path, IN_UTC)
    assert (found.path, found.size, found.content) == ("1/log", len(after), of_broker_1(tmp_path, "log").content)


@pytest.mark.parametrize("text", [LONG[:600], LONG, ""])
def test_a_short_file_that_has_grown_is_no_other_one(tmp_path: Path, text: str):
    """It is named as one that has changed, and so is one that was emptied."""
    path = tmp_path / "1" / "log"
    path.parent.mkdir()
    path.write_text(LONG[:500])
    first = of_broker_1(tmp_path, "log")
    files = ReadFiles([("query", 0, first.uri, first.path, first.size, first.content)])
    path.write_text(text)
    assert files.replaced(tmp_path, IN_UTC) == []
    assert files.changed(tmp_path) == ["1/log"]


def test_files_that_spark_does_not_list_are_named(tmp_path: Path):
    """Unless they are read, or nothing is in them, as in markers of writers. The progress of a collector is no log."""
    (tmp_path / "1" / "_old" / "b").mkdir(parents=True)
    for name in ("_a", ".c", "d._COPYING_", "_old/b/e", "listed", "_metadata", ".progress.json"):
        (tmp_path / "1" / name).write_text("one\n")
    (tmp_path / "1" / "_SUCCESS").touch()
    names = [".c", "_a", "_old/b/e", "d._COPYING_"]
    assert read("listed", "_metadata").unlisted(tmp_path, "utf-8") == {f"1/{name}": "unlisted" for name in names}


@pytest.mark.parametrize(
    ("encoding", "undecoded"),
    [
        ("UTF-8", {r"caf\xe9", r"d\xe9/a"}),
        ("ANSI_X3.4-1968", {r"caf\xe9", r"d\xe9/a", "café"}),  # of LC_ALL=C
        ("ISO-8859-1", set()),
        ("of another platform", {r"caf\xe9", r"d\xe9/a", "café"}),
    ],
)
def test_files_whose_names_java_cannot_decode_are_named(tmp_path: Path, encoding: str, undecoded: set[str]):
    """It lists them under another name, finds no file of that name, and says nothing."""
    for name in (b"caf\xe9", b"d\xe9/a", "café".encode(), b"plain"):
        path = tmp_path / "1" / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n")
    found = read("plain").unlisted(tmp_path, encoding)
    assert found == {f"1/{name}": "undecoded" for name in undecoded}


def test_links_are_named_and_not_followed(tmp_path: Path):
    """A link to a folder may lead to itself, or to all files of the host. One that an older release has read is not."""
    (tmp_path / "1" / "old").mkdir(parents=True)
    (tmp_path / "else" / "_hidden").mkdir(parents=True)
    (tmp_path / "else" / "_hidden" / "a").write_text("one\n")
    links = {"1/link": "listed", "1/dangling": "gone", "1/loop": ".", "1/old/to": tmp_path / "else", "2": "1"}
    for name, target in {**links, "1/read": "listed"}.items():
        (tmp_path / name).symlink_to(target)
    found = read("read").unlisted(tmp_path, "utf-8")
    assert {path: reason for path, reason in found.items() if reason == "linked"} == dict.fromkeys(links, "linked")
    assert set(found) - set(links) == {"else/_hidden/a"}


@pytest.mark.parametrize("text", [b"", b"17", b"{", b"[]", b'{"at": 1}', b'{"at": "x", "folders": {}}', b"\xff"])
def test_a_damaged_mark_of_a_look_is_none(tmp_path: Path, text: bytes):
    """A crash may leave it so. Then files are opened as if nobody had looked."""
    (tmp_path / "files_looked_at").write_bytes(text)
    assert LastLook.kept_in(tmp_path) == LastLook()
