"""Runs over a folder of logs without Spark: what they list, read and keep, in the order in which a run does."""

import gzip
import os
import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa

from featuregate_fleet.evidence.columns import SOURCE
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes, ReadAgain
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_fleet.files.pieces import Piece, pieces_of
from featuregate_fleet.runs.known_sources import KnownSources
from featuregate_fleet.runs.log_files import Again, LogFolder

AN_HOUR_AGO = 3700
"""Seconds, after which nobody writes a file any more."""


def line(number: int) -> bytes:
    second, minute = number % 60, number // 60 % 60
    return (
        f"[2026-11-01 10:{minute:02}:{second:02},{number % 1000:03}] DEBUG Completed request:"
        f'{{"isForwarded":false,"requestHeader":{{"requestApiKey":3,"requestApiVersion":9,"correlationId":{number},'
        f'"clientId":"c{number}","requestApiKeyName":"METADATA"}},"request":{{}},"response":{{}},'
        f'"connection":"127.0.0.1:9092-127.0.0.1:{40000 + number % 20000}-0","totalTimeMs":1,"requestQueueTimeMs":0,'
        '"localTimeMs":0,"remoteTimeMs":0,"throttleTimeMs":0,"responseQueueTimeMs":0,"sendTimeMs":0,'
        '"securityProtocol":"PLAINTEXT","principal":"User:ANONYMOUS","listener":"PLAINTEXT",'
        '"clientInformation":{"softwareName":"x","softwareVersion":"1"}} (kafka.request.logger)\n'
    ).encode()


def _nothing() -> None:
    """Do nothing."""


def lines(*numbers: int) -> bytes:
    return b"".join(map(line, numbers))


def append(log: Path, text: bytes) -> None:
    with log.open("ab") as opened:
        opened.write(text)


def lines_read(printed: Path) -> int:
    return sum(map(int, re.findall(r"^c: (\d+) lines read", printed.read_text(), re.MULTILINE)))


class Runs:
    """Runs over one folder: what they read, as the table would keep it."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.folder = LogFolder(logs, IN_UTC)
        self.known = KnownSources.nothing()
        self.clients: Counter[str] = Counter()
        self.sources: list[dict[str, object]] = []
        self.quarantine: list[dict[str, object]] = []
        self.batch = 0

    def run(self, meanwhile: Callable[[], object] = lambda: None, *, parse: bool = True) -> list[Piece]:
        """Read all that is new, and do something between the look at the files and the reading.

        Without ``parse`` the run is killed before its commit.
        """
        done: list[Piece] = []
        while True:
            pieces, more = self.folder.look(self.known)
            meanwhile()
            meanwhile = _nothing
            if not pieces or not parse:
                return done
            done += pieces
            self.commit([part for piece in pieces for part in pieces_of(piece)])
            if not more:
                return done

    def commit(self, pieces: Iterable[Piece]) -> None:
        batches = list(parse_pieces(pieces))
        for row in rows("usage", batches):
            self.clients[str(row["client_id"])] += int(str(row["count"]))
        self.quarantine += rows("quarantine", batches)
        found = list(rows("source", batches))
        self.sources += found
        self.known.add(pa.Table.from_pylist(found, SOURCE), self.batch)
        self.batch += 1
        self.folder.have_read(found)

    def read_again(self, times: LogTimes = IN_UTC) -> None:
        lost = defaultdict[tuple[str, str | None], set[int]](set)
        for row in self.quarantine:
            lost[str(row["source"]), cast("str | None", row["broker"])].add(int(str(row["at"])))
        lines = {text: ReadAgain(tuple(sorted(at)), 2**62, len(at)) for text, at in lost.items()}
        self.folder = LogFolder(self.logs, times, again=Again(self.known.named({text for text, _ in lines}), lines))
        self.quarantine.clear()
        self.run()

    @property
    def missing(self) -> set[object]:
        newest = {row["source"]: row["reason"] for row in self.sources}
        return set(newest.values()) - {None}


def rows(kind: str, batches: list[pa.RecordBatch]) -> Iterator[dict[str, object]]:
    for batch in batches:
        yield from (row for row in batch.column(kind).to_pylist() if row is not None)


class Broker:
    def __init__(
        self,
        folder: Path,
        rng: random.Random,
        next_line: Callable[[], bytes],
        meanwhile: Callable[[], object] = _nothing,
    ) -> None:
        """Begin with no log. ``next_line`` is what it logs next; nothing where it has nothing to log.

        ``meanwhile`` is called while gzip is at work.
        """
        self.meanwhile = meanwhile
        self.next_line = next_line
        self.live = folder / "kafka-request.log"
        self.rng = rng
        self.half = b""
        self.texts = 0
        """How many logs it has begun before this one."""

    def write(self) -> None:
        text, self.half = self.half, b""
        for _ in range(self.rng.choice([0, 1, 3, 30])):
            text += self.next_line()
        if self.rng.random() < 0.3 and (whole := self.next_line()):
            cut = self.rng.randrange(len(whole))
            text, self.half = text + whole[:cut], whole[cut:]
        append(self.live, text)

    def end_line(self) -> None:
        if self.half:
            append(self.live, self.half)
            self.half = b""

    def rotated(self) -> list[Path]:
        return sorted(self.live.parent.glob("kafka-request.log.[0-9]*"), key=lambda path: int(path.name.split(".")[2]))

    def rename(self) -> None:
        self.end_line()
        for path in reversed(self.rotated()):
            name, ext, number, *packed = path.name.split(".")
            path.rename(path.with_name(".".join([name, ext, str(int(number) + 1), *packed])))
        if self.live.exists():
            self.live.rename(self.live.with_name("kafka-request.log.1"))
        self.texts += 1

    def copy_and_truncate(self) -> None:
        self.end_line()
        if self.live.exists():
            inode = self.live.stat().st_ino
            copied = self.live.with_name("copied")
            shutil.copy2(self.live, copied)
            self.live.rename(aside := self.live.with_name(".aside"))
            self.rename()
            aside.rename(self.live)
            copied.rename(self.live.with_name("kafka-request.log.1"))
            with self.live.open("r+b") as log:
                log.truncate()
            assert self.live.stat().st_ino == inode

    def compress(self) -> None:
        """Compress one of the rolled files; gzip may be at work when the folder is listed."""
        plain = [path for path in self.rotated() if path.suffix != ".gz"]
        if plain:
            chosen = self.rng.choice(plain)
            packed = chosen.with_name(chosen.name + ".gz")
            whole = gzip.compress(chosen.read_bytes())
            packed.write_bytes(whole[: self.rng.randrange(len(whole))])
            self.meanwhile()
            packed.write_bytes(whole)
            if self.rng.random() < 0.3:  # as gzip --keep does
                self.meanwhile()
            chosen.unlink()

    def age(self) -> None:
        for path in self.live.parent.iterdir():
            past = path.stat().st_mtime - AN_HOUR_AGO
            os.utime(path, (past, past))
