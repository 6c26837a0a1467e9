"""Reading files of logs: every line once, whatever is damaged."""

import bz2
import gzip
import lzma
import os
import random
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra
from fleet_rows import Rows, by_kind  # noqa: E402 - likewise

from featuregate_fleet.evidence.paths import LogFile, log_file  # noqa: E402 - likewise
from featuregate_fleet.files import opening  # noqa: E402 - likewise
from featuregate_fleet.files import pieces as module  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import parse_pieces  # noqa: E402 - likewise
from featuregate_fleet.files.pieces import Piece, PieceReader, pieces_of  # noqa: E402 - likewise
from featuregate_fleet.files.texts import KnownText, beginning_of, tail_hash  # noqa: E402 - likewise

LINE = line_of(document())


def file_of(path: Path, size: int | None = None) -> LogFile:
    return log_file(path.parent.parent.as_uri(), path.as_uri(), path.stat().st_size if size is None else size)


def whole(path: Path, size: int | None = None) -> list[Piece]:
    file = file_of(path, size)
    packed = path.exists() and (path.suffix == ".gz" or path.read_bytes()[:2] == b"\x1f\x8b")
    return pieces_of(Piece(file, end=None if packed else file.size))


class Failure(NamedTuple):
    """What could not be read."""

    at: int
    reason: str
    why: str


def read(*pieces: Piece) -> tuple[list[tuple[int, str, int]], list[Failure]]:
    lines, failures = [], []
    for piece in pieces:
        reader = PieceReader(piece)
        for part in reader.parts():
            of_piece = [row for row in part.to_pylist() if row["at"] >= reader.start]
            lines += [(row["at"], row["value"], row["length"]) for row in of_piece]
        about = reader.about()
        if about["reason"]:
            failures.append(Failure(int(str(about["position"])), str(about["reason"]), str(about["why"])))
    return lines, failures


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "1").mkdir()
    return tmp_path / "1" / "a b%.log"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"_PIECE": 7, "_BATCH": 2, "LONGEST": 4, "_HEADER": 4}.items():
        monkeypatch.setattr(module, name, size)
    for name, size in {"_BLOCK": 3, "_COMPRESSED_BLOCK": 5}.items():
        monkeypatch.setattr(opening, name, size)


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
    found, failures = read(*whole(path))
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


def parsed(*pieces: Piece) -> Rows:
    return by_kind(parse_pieces(pieces))


def outcomes(rows: Rows) -> dict[str, int]:
    """Return how many requests were refused and completed, and how many lines are in quarantine."""
    counts = Counter({"quarantined": len(rows["quarantine"])})
    for usage in rows["usage"]:
        counts[usage["outcome"]] += usage["count"]
    return counts


def test_a_refusal_at_the_border_of_two_pieces_counts_once(log: Path):
    """Its header may be the last line of one piece, and its reason the first one of the next."""
    text = f"{LINE}\n{REFUSED}{LINE}\n".encode()
    log.write_bytes(text)
    begins = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n"))]
    for border in (begin + byte for begin in begins[1:-1] for byte in (-1, 0, 1)):
        rows = parsed(Piece(file_of(log), 0, border), Piece(file_of(log), border, len(text)))
        assert outcomes(rows) == {"completed": 2, "refused": 1, "quarantined": 0}, border
        assert sum(row["read"] for row in rows["source"]) == 6, border


def test_bytes_that_are_no_text_are_replaced(log: Path):
    """And a carriage return is a part of the line break."""
    log.write_bytes(b"\xff\x00\r\nb\n")
    assert read(*whole(log))[0] == [(0, "\ufffd\x00", 3), (4, "b", 1)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "followed"])
def test_a_damaged_gzip_is_read_up_to_the_damage(log: Path, damage: str):
    """Once the file is restored, reading goes on where it ended."""
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
    lines, (failure,) = read(*whole(log))
    all_lines = text.splitlines()
    assert len(all_lines) // 3 < len(lines) <= len(all_lines)
    assert failure.reason == "unreadable"
    if damage == "cut":
        log.write_bytes(packed)
        read_before = KnownText(failure.at, tail_hash(text[: failure.at].encode()), "it")
        rest, failures = read(Piece(file_of(log), known=frozenset({read_before, KnownText(7, "another text", "it")})))
        assert failures == []
        assert [value for _, value, _ in lines + rest] == all_lines


def test_a_file_named_gz_that_is_none_is_unreadable(log: Path):
    """Its first line is not garbage of a broker: all of the file is missing."""
    path = log.with_suffix(".gz")
    for content in (b"", b"plain text\n"):
        path.write_bytes(content)
        lines, (failure,) = read(*whole(path))
        assert (lines, failure.at, failure.reason) == ([], 0, "unreadable")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (bz2.compress(LINE.encode()), "bzip2"),
        (lzma.compress(LINE.encode()), "xz"),
        (zlib.compress(LINE.encode()), "deflate"),
        (LINE.encode("utf-16"), "UTF-16"),
        (b"(\xb5/\xfd\x04", "zstd"),
        (b"PAR1", "Parquet"),
        (b"Obj\x01", "Avro"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
    ],
)
def test_a_file_that_is_neither_text_nor_gzip_is_unreadable(log: Path, content: bytes, name: str):
    """Read as text, it would be lines of another logger, and its clients would be missing from an ok."""
    log.write_bytes(content)
    lines, (failure,) = read(*whole(log))
    assert (lines, failure.at, failure.reason) == ([], 0, "unreadable")
    assert failure.why.startswith(f"this is {name}: ")


def test_a_file_that_vanished_is_said(log: Path):
    """The file vanishes after it was listed and before it is read."""
    lines, (failure,) = read(*whole(log, 100))
    assert (lines, failure.at, failure.reason) == ([], 0, "vanished")


@pytest.mark.usefixtures("small")
def test_a_file_that_was_cut_after_it_was_listed_is_said(log: Path):
    """Its first lines are read; each piece behind its end is missing. What is restored is read as before."""
    log.write_bytes(b"aa\nbb\ncc\ndd\n")
    pieces = whole(log)
    all_lines, _ = read(*pieces)
    log.write_bytes(b"aa\n")
    lines, failures = read(*pieces)
    assert (lines, [failure.at for failure in failures]) == (all_lines[:1], [3, 7])
    log.write_bytes(b"aa\nbb\ncc\ndd\n")
    rest, failures = read(*pieces_of(Piece(file_of(log), start=failures[0].at, end=file_of(log).size)))
    assert (lines + rest, failures) == (all_lines, [])


def test_a_pipe_is_no_file(log: Path):
    """To open one would wait for its writer."""
    os.mkfifo(log)
    assert [failure.why for failure in read(Piece(file_of(log), end=9))[1]] == ["this is not a regular file"]


def test_an_error_of_the_disk_ends_one_file_alone(tmp_path: Path):
    """The memory of a process is a file whose first byte cannot be read."""
    (tmp_path / "1").mkdir()
    good = tmp_path / "1" / "good.log"
    good.write_text("good\n")
    lines, (failure,) = read(Piece(file_of(Path(f"/proc/{os.getpid()}/mem")), end=9), *whole(good))
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
    file = log_file(logs.as_uri(), (logs / name).as_uri(), 12)
    assert not beginning_of(file).is_text
    ((lines, (failure,)),) = [read(Piece(file, end=12))]
    assert (lines, failure.reason) == ([], "unreadable")
    assert "symbolic link, which is not followed" in failure.why


def test_the_folder_of_logs_may_be_behind_links_itself(tmp_path: Path):
    """The operator names it, and no broker writes there."""
    (tmp_path / "real" / "1").mkdir(parents=True)
    (tmp_path / "real" / "1" / "a.log").write_text("one\n")
    (tmp_path / "logs").symlink_to("real")
    file = log_file((tmp_path / "logs").as_uri(), (tmp_path / "logs" / "1" / "a.log").as_uri(), 4)
    assert read(Piece(file, end=4)) == ([(0, "one", 3)], [])
    elsewhere = log_file("file:///other", (tmp_path / "logs" / "1" / "a.log").as_uri(), 4)
    assert read(Piece(elsewhere, end=4)) == ([(0, "one", 3)], [])


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("line", [b"\n", b"\r\n", b" \t\n"])
def test_a_run_of_empty_lines_counts_as_one(log: Path, line: bytes, *, compressed: bool):
    """Some kilobytes of gzip hold millions of them, and each would be a row in quarantine."""
    text = LINE.encode() + b"\n" + line * 300_000 + b"junk\n" + line * 2 + LINE.encode() + b"\n"
    log.write_bytes(gzip.compress(text) if compressed else text)
    rows = parsed(*whole(log))
    (counts,) = rows["source"]
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
    rows = parsed(*pieces)
    assert [(row["at"], row["reason"]) for row in rows["quarantine"]] == [(0, "empty"), (10_000, "no-request")]


def test_what_is_read_at_once_is_bounded(log: Path):
    """A block of a compressed file may grow a thousandfold; a text that ends where a bound is is whole."""
    for size in (2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20):
        log.write_bytes(gzip.compress(b"a" * size))
        with log.open("rb") as file:
            blocks = list(opening.inflated(file))
        assert sum(map(len, blocks)) == size
        assert max(map(len, blocks)) <= 2 * 2**20
    log.write_bytes(gzip.compress(b"x\n" * 2_000_000))
    assert max(batch.num_rows for batch in PieceReader(Piece(file_of(log))).parts()) <= 8192


def test_many_members_are_read_as_one_text(log: Path):
    """A batch for each would take a hundred times as long."""
    log.write_bytes(b"".join(gzip.compress(f"{number}\n".encode(), 1) for number in range(5000)))
    batches = list(PieceReader(Piece(file_of(log))).parts())
    assert len(batches) == 1
    assert batches[0]["value"].to_pylist() == [str(number) for number in range(5000)]
    log.write_bytes(log.read_bytes() + b"\x1f\x8bdamage")
    lines, (failure,) = read(*whole(log))
    assert len(lines) == 5000
    assert failure.reason == "unreadable"
