"""Reading files of logs: every line once, whatever is damaged."""

import bz2
import gzip
import lzma
import os
import random
import zlib
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.paths import LogFile, log_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.text import Unreadable  # noqa: E402 - likewise
from featuregate_fleet.files import formats  # noqa: E402 - likewise
from featuregate_fleet.files import pieces as module  # noqa: E402 - likewise
from featuregate_fleet.files.contents import begins_with  # noqa: E402 - likewise
from featuregate_fleet.files.opening import is_refused  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import parse_pieces  # noqa: E402 - likewise
from featuregate_fleet.files.pieces import Piece, pieces_of, read_piece, rest_of  # noqa: E402 - likewise

LINE = line_of(document())


def file_of(path: Path, size: int | None = None) -> LogFile:
    """Return a file as the stream lists it."""
    return log_file(str(path.parent.parent), path.as_uri(), path.stat().st_size if size is None else size)


def read(*pieces: Piece) -> tuple[list[tuple[int, str, int]], list[Unreadable]]:
    """Return all lines with their places and lengths, and what could not be read."""
    lines, failures = [], []
    for piece in pieces:
        for part in read_piece(piece):
            if isinstance(part, Unreadable):
                failures.append(part)
            else:
                of_piece = [row for row in part.to_pylist() if row["at"] >= piece.start]
                lines += [(row["at"], row["value"], row["length"]) for row in of_piece]
    return lines, failures


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the name of a file of broker 1."""
    (tmp_path / "1").mkdir()
    return tmp_path / "1" / "a b%.log"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything small, so that each boundary is met."""
    for name, size in {"_PIECE": 7, "_BATCH": 2, "LONGEST": 4, "_HEADER": 4}.items():
        monkeypatch.setattr(module, name, size)
    for name, size in {"_BLOCK": 3, "_COMPRESSED_BLOCK": 5}.items():
        monkeypatch.setattr(formats, name, size)


@given(
    st.lists(st.text(st.sampled_from("ab\u00e9"), max_size=6), max_size=8),
    st.sampled_from([b"\n", b""]),
    st.sampled_from(["a", "a.gz"]),
)
@pytest.mark.usefixtures("small")
def test_each_line_is_read_once(tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: bytes, name: str):
    """However a file is cut into pieces and blocks, compressed or not, with a line break at its end or without."""
    folder = tmp_path_factory.mktemp("logs") / "1"
    folder.mkdir()
    path = folder / name
    text = "\n".join(lines).encode() + end
    half = len(text) // 2
    path.write_bytes(gzip.compress(text[:half]) + gzip.compress(text[half:]) + b"\0\0" if name == "a.gz" else text)
    found, failures = read(*pieces_of(file_of(path)))
    expected = text.split(b"\n")[: None if text and not text.endswith(b"\n") else -1]
    assert failures == []
    assert [length for _, _, length in found] == [len(line) for line in expected]
    assert [value for _, value, _ in found] == [line[:4].decode("utf-8", "replace") for line in expected]
    assert all(before + length + 1 == at for (before, _, length), (at, _, _) in pairwise(found))


REFUSED = """\
2026-11-22 21:08:17,583 ERROR Closing socket for 10.0.0.1:9092-10.0.0.7:48912-8 because of error (kafka.network.Processor)
org.apache.kafka.common.errors.InvalidRequestException: Received request api key METADATA with version 99 which is not enabled
2026-11-22 21:08:17,589 ERROR Exception while processing request from 10.0.0.1:9092-10.0.0.7:48912-8 (kafka.network.Processor)
org.apache.kafka.common.errors.InvalidRequestException: Received request api key METADATA with version 99 which is not enabled
"""  # noqa: E501 - as a broker of 3.9.2 has logged it


def parsed(*pieces: Piece) -> list[dict[str, Any]]:
    """Return the rows of the tables."""
    numbers = pa.RecordBatch.from_pydict({"id": range(len(pieces))})
    return [row for batch in parse_pieces([numbers], pieces=pieces) for row in batch.to_pylist()]


def outcomes(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many requests were refused and completed, and how many lines are in quarantine."""
    counts = Counter({"quarantined": sum(row["quarantine"] is not None for row in rows)})
    for usage in (row["api_usage"] for row in rows if row["api_usage"]):
        counts[usage["outcome"]] += usage["count"]
    return counts


@pytest.mark.parametrize("name", ["a.log", "a.gz"])
def test_a_refusal_at_the_border_of_two_pieces_counts_once(log: Path, name: str):
    """Its header may be the last line of one piece, and its reason the first one of the next."""
    path = log.with_name(name)
    text = f"{LINE}\n{REFUSED}{LINE}\n".encode()
    path.write_bytes(gzip.compress(text) if name == "a.gz" else text)
    begins = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n"))]
    for border in (begin + byte for begin in begins[1:-1] for byte in (-1, 0, 1)):
        rows = parsed(Piece(file_of(path), 0, border), Piece(file_of(path), border, len(text)))
        assert outcomes(rows) == {"completed": 2, "refused": 1, "quarantined": 0}, border
        assert sum(row["evidence_files"]["read"] for row in rows if row["evidence_files"]) == 6, border


def test_bytes_that_are_no_text_are_replaced(log: Path):
    """And a carriage return is a part of the line break."""
    log.write_bytes(b"\xff\x00\r\nb\n")
    assert read(*pieces_of(file_of(log)))[0] == [(0, "\ufffd\x00", 3), (4, "b", 1)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "followed"])
def test_a_damaged_gzip_is_read_up_to_the_damage(log: Path, damage: str):
    """The rest counts as one line; once the file is restored, reading goes on where it ended."""
    random_bytes = random.Random(7)
    text = "".join(f"{number} {random_bytes.randbytes(40).hex()}\n" for number in range(5000))
    packed = gzip.compress(text.encode())
    middle = len(packed) // 2
    damaged = {
        "cut": packed[:middle],
        "flipped": packed[:middle]
        + bytes(byte ^ 0xFF for byte in packed[middle : middle + 99])
        + packed[middle + 99 :],
        "followed": packed + b"no gzip",
    }
    log.write_bytes(damaged[damage])
    lines, (failure,) = read(*pieces_of(file_of(log)))
    whole = text.splitlines()
    read_before = len(lines)
    assert len(whole) // 3 < read_before <= len(whole)
    assert failure.reason == "unreadable"
    if damage == "cut":
        assert [value for _, value, _ in lines] == whole[:read_before]
        log.write_bytes(packed)
        rest, failures = read(rest_of(file_of(log), failure.at))
        assert failures == []
        assert [value for _, value, _ in lines + rest] == whole


def test_a_file_named_gz_that_is_none_is_unreadable(log: Path):
    """Its first line is not garbage of a broker: all of the file is missing."""
    path = log.with_suffix(".gz")
    for content in (b"", b"plain text\n"):
        path.write_bytes(content)
        lines, (failure,) = read(*pieces_of(file_of(path)))
        assert (lines, failure.at, failure.reason) == ([], 0, "unreadable")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (bz2.compress(LINE.encode()), "bzip2"),
        (lzma.compress(LINE.encode()), "xz"),
        (zlib.compress(LINE.encode()), "deflate"),
        (LINE.encode("utf-16"), "UTF-16"),
        (b"(\xb5/\xfd\x04", "zstd"),
    ],
)
def test_a_file_that_is_neither_text_nor_gzip_is_unreadable(log: Path, content: bytes, name: str):
    """Read as text, it would be lines of another logger, and its clients would be missing from an ok."""
    log.write_bytes(content)
    lines, (failure,) = read(*pieces_of(file_of(log)))
    assert (lines, failure.at, failure.reason) == ([], 0, "unreadable")
    assert failure.why.startswith(f"this is {name}: ")


def test_a_file_that_vanished_is_said(log: Path):
    """Between the moment when Spark listed it and the moment when it is read."""
    lines, (failure,) = read(*pieces_of(file_of(log, size=100)))
    assert (lines, failure.at, failure.reason) == ([], 0, "vanished")


@pytest.mark.usefixtures("small")
def test_a_file_that_was_cut_after_it_was_listed_is_said(log: Path):
    """Its first lines are read; each piece behind its end is missing. What is restored is read as before."""
    log.write_bytes(b"aa\nbb\ncc\ndd\n")
    pieces = pieces_of(file_of(log))
    whole, _ = read(*pieces)
    log.write_bytes(b"aa\n")
    lines, failures = read(*pieces)
    assert (lines, [failure.at for failure in failures]) == (whole[:1], [3, 7])
    log.write_bytes(b"aa\nbb\ncc\ndd\n")
    rest, failures = read(*(rest_of(file_of(log), failure.at) for failure in failures))
    assert (lines + rest, failures) == (whole, [])


def test_a_pipe_is_no_file(log: Path):
    """To open one would wait for its writer."""
    os.mkfifo(log)
    assert [failure.why for failure in read(Piece(file_of(log)))[1]] == ["this is not a regular file"]


def test_an_error_of_the_disk_ends_one_file_alone(tmp_path: Path):
    """The memory of a process is a file whose first byte cannot be read."""
    (tmp_path / "1").mkdir()
    good = tmp_path / "1" / "good.log"
    good.write_text("good\n")
    lines, (failure,) = read(Piece(file_of(Path(f"/proc/{os.getpid()}/mem"))), Piece(file_of(good)))
    assert ([value for _, value, _ in lines], failure.reason) == (["good"], "unreadable")
    assert "error" in failure.why.lower()


@pytest.mark.parametrize("name", ["1/link.log", "1/folder/key", "1/deep/link.gz", "2/key", "link.log"])
def test_a_link_below_the_folder_of_logs_is_not_followed(tmp_path: Path, name: str):
    """A broker that makes one would read files of this host, such as a private key."""
    logs, secret = tmp_path / "logs", tmp_path / "secret"
    (logs / "1" / "deep").mkdir(parents=True)
    secret.mkdir()
    (secret / "key").write_text("PRIVATE KEY\n")
    for link, target in {"1/folder": secret, "2": secret}.items():
        (logs / link).symlink_to(target)
    for link in ("1/link.log", "1/deep/link.gz", "link.log"):
        (logs / link).symlink_to(secret / "key")
    file = log_file(str(logs), (logs / name).as_uri(), 12)
    assert is_refused(logs, name)
    assert pieces_of(file)
    assert not begins_with(file, b"PRIVATE")
    ((lines, (failure,)),) = [read(Piece(file))]
    assert (lines, failure.reason) == ([], "unreadable")
    assert "symbolic link, which is not followed" in failure.why


@pytest.mark.timeout(10)
def test_what_is_no_file_is_not_opened(tmp_path: Path):
    """A pipe would wait for its writer. A folder has taken the place of a file, which is lost."""
    os.mkfifo(tmp_path / "pipe")
    with socket(AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    (tmp_path / "folder").mkdir()
    found = {name: is_refused(tmp_path, name) for name in ("pipe", "socket", "folder", "gone")}
    assert found == {"pipe": True, "socket": True, "folder": False, "gone": False}


def test_the_folder_of_logs_may_be_behind_links_itself(tmp_path: Path):
    """The operator names it, and no broker writes there."""
    (tmp_path / "real" / "1").mkdir(parents=True)
    (tmp_path / "real" / "1" / "a.log").write_text("one\n")
    (tmp_path / "logs").symlink_to("real")
    file = log_file(str(tmp_path / "logs"), (tmp_path / "logs" / "1" / "a.log").as_uri(), 4)
    assert read(Piece(file)) == ([(0, "one", 3)], [])
    assert not is_refused(tmp_path / "logs", "1/a.log")
    elsewhere = log_file("/other", (tmp_path / "logs" / "1" / "a.log").as_uri(), 4)
    assert read(Piece(elsewhere)) == ([(0, "one", 3)], [])


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.no_cover
def test_lines_in_are_rows_and_quarantined_lines(log: Path, share: float):
    """Some of the lines may be garbage, and the log may be compressed and cut."""
    chance = random.Random(share)
    kinds = [
        b"\xff\xfe\x00",
        b"",
        LINE[:200].encode(),
        LINE[40:].encode(),
        LINE.replace("16", '"16"').encode(),
        b"x" * 99_999,
    ]
    lines = [chance.choice(kinds) if chance.random() < share else LINE.encode() for _ in range(1200)]
    garbage = sum(line != LINE.encode() for line in lines)
    log.write_bytes(b"\n".join(lines))
    cut = log.with_suffix(".gz")
    cut.write_bytes(gzip.compress(b"\n".join(lines))[:-9])
    pieces = [*pieces_of(file_of(log)), *pieces_of(file_of(cut))]
    rows = parsed(*pieces)
    plain, packed = [row["evidence_files"] for row in rows if row["evidence_files"]]
    again = sum(line == before == b"" for before, line in pairwise(lines))  # of a run the first one counts
    assert (plain["read"], plain["quarantined"]) == (len(lines) - again, garbage - again)
    assert packed["read"] <= len(lines) + 1
    for file in (plain, packed):
        assert file["read"] == file["rows"] + file["quarantined"]
    assert sum(row["api_usage"]["count"] for row in rows if row["api_usage"]) == plain["rows"] + packed["rows"]
    assert (
        sum(row["quarantine"]["lines"] for row in rows if row["quarantine"])
        == plain["quarantined"] + packed["quarantined"]
    )


def table(parsed: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return rows by table."""
    rows: dict[str, list[dict[str, Any]]] = {"quarantine": [], "evidence_files": []}
    for batch in parsed:
        for row in batch.to_pylist():
            for name in rows:
                rows[name] += [row[name]] if row[name] else []
    return rows


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("line", [b"\n", b"\r\n", b" \t\n"])
def test_a_run_of_empty_lines_counts_as_one(log: Path, line: bytes, *, compressed: bool):
    """Some kilobytes of gzip hold millions of them, and each would be a row in quarantine."""
    text = LINE.encode() + b"\n" + line * 300_000 + b"junk\n" + line * 2 + LINE.encode() + b"\n"
    log.write_bytes(gzip.compress(text) if compressed else text)
    rows = table(parse_pieces([pa.RecordBatch.from_pydict({"number": [0]})], pieces=[Piece(file_of(log))]))
    (counts,) = rows["evidence_files"]
    assert (counts["read"], counts["rows"], counts["quarantined"]) == (5, 2, 3)
    ends = [len(LINE) + 1, len(text) - 2 * len(line) - len(LINE) - 6, len(text) - 2 * len(line) - len(LINE) - 1]
    assert [(row["at"], row["reason"]) for row in rows["quarantine"]] == [
        (ends[0], "empty"),
        (ends[1], "no-request"),
        (ends[2], "empty"),
    ]


def test_a_run_that_begins_in_the_piece_before_has_its_row_there(log: Path):
    """The second piece knows the line before its first one. A file may begin with an empty line."""
    log.write_bytes(b"\n" * 10_000 + b"junk\n")
    pieces = [Piece(file_of(log), 0, 6000), Piece(file_of(log), 6000, 10_005)]
    rows = table(parse_pieces([pa.RecordBatch.from_pydict({"number": [0, 1]})], pieces=pieces))
    assert [(row["at"], row["reason"]) for row in rows["quarantine"]] == [(0, "empty"), (10_000, "no-request")]


def test_what_is_read_at_once_is_bounded(log: Path):
    """A block of a compressed file may grow a thousandfold; a text that ends where a bound is is whole."""
    for size in (2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20):
        log.write_bytes(gzip.compress(b"a" * size))
        with log.open("rb") as file:
            blocks = list(formats.inflated(file))
        assert sum(map(len, blocks)) == size
        assert max(map(len, blocks)) <= 2 * 2**20
    log.write_bytes(gzip.compress(b"x\n" * 2_000_000))
    assert max(batch.num_rows for batch in read_piece(Piece(file_of(log)))) <= 8192


def test_many_members_are_read_as_one_text(log: Path):
    """A batch for each would take a hundred times as long."""
    log.write_bytes(b"".join(gzip.compress(f"{number}\n".encode(), 1) for number in range(5000)))
    batches = list(read_piece(Piece(file_of(log))))
    assert len(batches) == 1
    assert batches[0]["value"].to_pylist() == [str(number) for number in range(5000)]
    log.write_bytes(log.read_bytes() + b"\x1f\x8bdamage")
    *batches, failure = read_piece(Piece(file_of(log)))
    assert [batch.num_rows for batch in batches] == [5000]
    assert isinstance(failure, Unreadable)
