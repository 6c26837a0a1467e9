"""Logs that grow, are rotated, copied, cut, compressed and damaged between runs: each line is read, and once."""

import gzip
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO

import pytest
from fleet_runs import AN_HOUR_AGO, Broker, Runs, append, line, lines

from featuregate_fleet.evidence.paths import LogTimes
from featuregate_fleet.files import pieces as pieces_module
from featuregate_fleet.files import storage
from featuregate_fleet.files.storage import Listed

SEED = int(os.environ.get("LOGS_SEED", random.SystemRandom().randrange(10**6)))


@pytest.mark.parametrize("number", range(25))
def test_each_line_is_read_and_once(tmp_path: Path, number: int) -> None:
    """Whatever a broker and its rotation do between runs, and wherever these are killed."""
    rng = random.Random(f"{SEED} {number}")
    logs = tmp_path / "logs"
    (logs / "1").mkdir(parents=True)
    runs = Runs(logs)
    numbers = count()
    broker = Broker(logs / "1", rng, lambda: line(next(numbers)), runs.run)
    steps = [broker.write, broker.write, broker.rename, broker.copy_and_truncate, broker.compress, runs.run]
    for step in rng.choices([*steps, lambda: runs.run(parse=False)], k=40):
        step()
    broker.end_line()
    broker.age()
    runs.run()
    assert runs.clients == Counter({f"c{each}": 1 for each in range(next(numbers))}), f"LOGS_SEED={SEED}"
    assert runs.run() == []


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs" / "1").mkdir(parents=True)
    return tmp_path / "logs"


@pytest.mark.parametrize("step", [97, 613, 4096])
def test_a_log_that_grows_from_its_first_byte_is_read_once(logs: Path, step: int) -> None:
    """However little of its beginning was there when it was read first."""
    runs, text = Runs(logs), lines(*range(9))
    for end in (*range(step, len(text), step), len(text)):
        (logs / "1" / "a.log").write_bytes(text[:end])
        runs.run()
    assert runs.clients == Counter({f"c{number}": 1 for number in range(9)})
    assert sum(int(str(row["read"])) for row in runs.sources) == 9


def test_two_logs_that_begin_alike_are_both_read(logs: Path) -> None:
    """Where the same four kilobytes go on in another way, what was read of one is not left out of the other."""
    runs, same = Runs(logs), lines(*range(10))
    assert len(same) > 4096
    (logs / "1" / "a.log").write_bytes(same + lines(*range(10, 40)))
    runs.run()
    (logs / "1" / "a.log").unlink()
    (logs / "1" / "b.log").write_bytes(same + lines(*range(50, 90)))
    runs.run()
    assert runs.clients >= Counter(f"c{number}" for number in (*range(40), *range(50, 90)))


@pytest.mark.parametrize("packed", [False, True])
def test_two_logs_without_a_time_are_both_read(logs: Path, packed: bool) -> None:  # noqa: FBT001 - both
    """The banner of a broker may be all that is in a log, and the same in each of them."""
    banner = b"starting, and nothing has a time\n" * 40
    runs = Runs(logs)
    for name in ("a.log", "b.log"):
        text = gzip.compress(banner) if packed else banner
        (logs / "1" / (f"{name}.gz" if packed else name)).write_bytes(text)
        runs.run()
    assert [row["read"] for row in runs.sources] == [40, 40]


def test_a_log_without_a_time_that_is_replaced_is_read_from_its_beginning(logs: Path) -> None:
    """By another file of the same size, or by a shorter text in the same file."""
    runs, log = Runs(logs), logs / "1" / "a.log"
    for text in (b"one\ntwo\n", b"six\nten\n", b"six\nten\nnew\n", b"x\n"):
        if text.startswith(b"six\nten\n") and log.read_bytes() == b"one\ntwo\n":
            log.unlink()
        log.write_bytes(text)
        runs.run()
    assert [row["read"] for row in runs.sources] == [2, 2, 1, 1]


def test_a_line_that_stands_still_in_its_middle_waits_for_its_end(logs: Path) -> None:
    """A machine may stop for ten minutes between two writes. An hour later the line has no end any more."""
    runs, log = Runs(logs), logs / "1" / "a.log"
    log.write_bytes(line(0) + line(1)[:300])
    runs.run()
    past = log.stat().st_mtime - 600
    os.utime(log, (past, past))
    runs.run()
    assert runs.clients == {"c0": 1}
    append(log, line(1)[300:])
    runs.run()
    assert runs.clients == {"c0": 1, "c1": 1}
    append(log, line(2)[:-1])
    past = log.stat().st_mtime - AN_HOUR_AGO
    os.utime(log, (past, past))
    runs.run()
    assert runs.clients == {"c0": 1, "c1": 1, "c2": 1}


@pytest.mark.parametrize("count", [1, 20])
def test_a_last_line_that_never_gets_an_end_counts_once(logs: Path, count: int) -> None:
    """Whatever its file is called, and how it is packed: an export may end without a line break, or be one line."""
    runs, log, text = Runs(logs), logs / "1" / "a.log", lines(*range(count))[:-1]
    log.write_bytes(text)
    os.utime(log, (1, 1))
    runs.run()
    log.rename(logs / "1" / "a.log.1")
    runs.run()
    (logs / "1" / "a.log.1.gz").write_bytes(gzip.compress(text))
    (logs / "1" / "a.log.1").unlink()
    runs.run()
    (logs / "1" / "a.log.1.gz").rename(logs / "1" / "a.log.2.gz")
    runs.run()
    log.write_bytes(text)
    os.utime(log, (2, 2))
    runs.run()
    assert len(runs.sources) == 5
    assert runs.clients == Counter(f"c{number}" for number in range(count))


@pytest.mark.parametrize("packed", [False, True])
def test_a_last_line_that_gets_its_end_late_is_read_as_a_whole(logs: Path, packed: bool) -> None:  # noqa: FBT001 - both
    """What was read of it was no request."""
    runs, text = Runs(logs), lines(*range(20))
    for number, end in enumerate((len(text) - len(line(19)) - 300, len(text) - 300, len(text) - 1, len(text))):
        log = logs / "1" / f"a.log.{number}"
        log.write_bytes(gzip.compress(text[:end]) if packed else text[:end])
        os.utime(log, (1, 1))
        runs.run()
    assert set(runs.clients) == {f"c{number}" for number in range(20)}
    assert runs.clients["c17"] == 1


def test_a_line_that_has_no_end_yet_is_in_one_piece(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The piece that begins with it does not know whether its other half is all that the next one has."""
    runs, log, text = Runs(logs), logs / "1" / "a.log", lines(*range(10))
    monkeypatch.setattr(pieces_module, "_PIECE", len(text) + 100)
    log.write_bytes(text + line(10)[:300])
    runs.run()
    assert sum(int(str(row["read"])) for row in runs.sources) == 10
    append(log, line(10)[300:])
    runs.run()
    assert runs.clients == Counter(f"c{number}" for number in range(11))
    assert not runs.quarantine


def test_a_log_that_is_emptied_and_grows_again_while_it_is_read(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may stop for a while after it has opened a log. The copy has what was not read."""
    runs, log, read = Runs(logs), logs / "1" / "a.log", pieces_module.text_in
    log.write_bytes(lines(*range(20)))

    def late(opened: IO[bytes], found: str | None) -> Iterator[bytes | memoryview]:
        if not (logs / "1" / "a.log.1").exists():
            shutil.copy2(log, logs / "1" / "a.log.1")
            log.write_bytes(lines(*range(30, 60)))
        return read(opened, found)

    monkeypatch.setattr(pieces_module, "text_in", late)
    runs.run()
    runs.run()
    assert set(runs.clients) == {f"c{number}" for number in (*range(20), *range(30, 60))}
    assert runs.missing == set()


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_a_file_that_grows_within_one_tick_of_its_clock_is_read(
    logs: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of some file systems are those of seconds: a file may have the same ones before and after."""
    monkeypatch.setattr(storage, "Listed", lambda uri, size, _, still: Listed(uri, size, "1 1 7", still))
    runs, log = Runs(logs), logs / "1" / name
    whole = lines(*range(40))
    begun = lines(*range(20))
    if name.endswith("gz"):
        whole, begun = gzip.compress(whole), gzip.compress(whole)[:500]
    log.write_bytes(begun)
    runs.run()
    log.write_bytes(whole)
    runs.run()
    assert runs.clients == Counter(f"c{number}" for number in range(40))
    assert (runs.missing, runs.run()) == (set(), [])


@pytest.mark.parametrize("packed", [False, True])
def test_what_was_understood_counts_once_where_lines_are_read_again(logs: Path, packed: bool) -> None:  # noqa: FBT001 - both
    """Those in quarantine are read, and what is new. Otherwise each --again would halve the share that is lost."""
    runs, log = Runs(logs), logs / "1" / ("a.log.gz" if packed else "a.log")
    slashes = lines(*range(10, 13)).replace(b"[2026-11-01 ", b"[01/11/2026 ")
    text = lines(0, 1) + slashes + lines(2) + slashes.replace(b'"c1', b'"d1') + lines(3)
    log.write_bytes(gzip.compress(text) if packed else text)
    runs.run()
    assert (runs.known.counts, len(runs.quarantine)) == ((10, 4, 6), 6)
    runs.read_again()
    assert (runs.known.counts, len(runs.quarantine)) == ((10, 4, 6), 6)
    text += lines(4)
    log.write_bytes(gzip.compress(text) if packed else text)
    runs.read_again(LogTimes(layout="%d/%m/%Y %H:%M:%S,%f"))
    names = (*range(5), 10, 11, 12)
    assert runs.clients == Counter([*(f"c{number}" for number in names), "d10", "d11", "d12"])
    assert runs.known.counts == (11, 11, 0)
    assert [row["again"] for row in runs.sources] == [None, 6, 6]
    assert runs.run() == []


def test_pieces_of_a_log_that_is_read_again_count_once(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors read them."""
    runs, log = Runs(logs), logs / "1" / "a.log"
    log.write_bytes(lines(*range(10)) + b"garbage\n" + lines(*range(10, 20)))
    monkeypatch.setattr(pieces_module, "_PIECE", 2000)
    runs.run()
    runs.read_again()
    assert runs.clients == Counter(f"c{number}" for number in range(20))
    assert (runs.known.counts, len(runs.quarantine)) == ((21, 20, 1), 1)


@pytest.mark.parametrize("packed", [False, True])
def test_a_text_keeps_its_name_while_it_grows(logs: Path, packed: bool) -> None:  # noqa: FBT001 - both
    """What its first lines have in quarantine does not count any more once all of it is read again."""
    runs, log = Runs(logs), logs / "1" / "a.log"
    log.write_bytes(lines(0) + b'[2026-11-01 10:00:01,000] DEBUG Completed request:{"requestHeader":}\n')
    runs.run()
    whole = log.read_bytes() + lines(*range(1, 20))
    log.unlink()
    (logs / "1" / "a.log.1").write_bytes(gzip.compress(whole) if packed else whole)
    runs.run()
    (name,) = {row["source"] for row in runs.quarantine}
    runs.read_again()
    assert [(row["source"], row["read"], row["again"]) for row in runs.sources] == [
        (name, 2, None),
        (name, 19, None),
        (name, 1, 1),
    ]
    assert {row["source"] for row in runs.quarantine} == {name}


@pytest.mark.parametrize("is_read", [True, False])
def test_a_short_text_that_was_rotated_while_it_grew_is_not_missing(logs: Path, *, is_read: bool) -> None:
    """It had few bytes when it was listed, and has a longer beginning where it is read under its next name."""
    runs, log = Runs(logs), logs / "1" / "a.log"
    log.write_bytes(lines(0))
    if is_read:
        runs.run()
        append(log, lines(*range(1, 20)))

    def rotate() -> None:
        if not is_read:
            append(log, lines(*range(1, 20)))
        log.rename(logs / "1" / "a.log.1")
        log.write_bytes(lines(30))

    runs.run(rotate)
    assert runs.missing == {"vanished"}
    runs.run()
    assert runs.clients == Counter(f"c{number}" for number in (*range(20), 30))
    assert runs.missing == set()


def test_a_log_that_is_deleted_after_it_was_read_is_not_missing(logs: Path) -> None:
    """A rotation renames all logs, and drops the last one: nothing was left to read of it."""
    runs, log = Runs(logs), logs / "1" / "a.log.6"
    log.write_bytes(lines(*range(20)))
    runs.run()
    log.rename(logs / "1" / "a.log.7")
    runs.run((logs / "1" / "a.log.7").unlink)
    assert runs.missing == set()


def parts(number: int) -> tuple[bytes, bytes]:
    text = line(number).rstrip(b"\n")
    begin = b"2026-11-01T10:00:00.000000000Z stdout "
    return begin + b"P " + text[:200] + b"\n", begin + b"F " + text[200:] + b"\n"


@pytest.mark.parametrize("ends", [True, False])
def test_a_line_that_a_container_runtime_has_split_waits_for_its_end(logs: Path, *, ends: bool) -> None:
    """The first part is read again with the last one, and counts once. An hour later nobody writes its other part."""
    runs, log = Runs(logs), logs / "1" / "0.log"
    log.write_bytes(b"".join(parts(0)) + parts(1)[0])
    runs.run()
    assert runs.clients == {"c0": 1}
    assert runs.run() == []
    if ends:
        append(log, parts(1)[1])
    else:
        past = log.stat().st_mtime - AN_HOUR_AGO
        os.utime(log, (past, past))
    runs.run()
    assert runs.clients == ({"c0": 1, "c1": 1} if ends else {"c0": 1})
    assert sum(int(str(row["read"])) for row in runs.sources) == 3 + ends
    assert [row["reason"] for row in runs.quarantine] == ([] if ends else ["cut"])
