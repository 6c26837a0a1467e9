"""Runs over a folder of logs without Spark: what they list, read and keep, in the order in which a run does."""

import gzip
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from featuregate_fleet.evidence.columns import SOURCE
from featuregate_fleet.evidence.paths import IN_UTC
from featuregate_fleet.files.parsing import parse_pieces
from featuregate_fleet.files.pieces import Piece, pieces_of
from featuregate_fleet.runs.known_sources import KnownSources
from featuregate_fleet.runs.log_files import LogFolder

AN_HOUR_AGO = 3700
"""Seconds, after which nobody writes a file any more."""


def line(number: int) -> bytes:
    """Return a line of a request that no other line has: its client is a number."""
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
    """Return some lines."""
    return b"".join(map(line, numbers))


class Runs:
    """Runs over one folder: what they read, as the table would keep it."""

    def __init__(self, logs: Path) -> None:
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
        """Parse pieces, and keep what a batch keeps."""
        batches = list(parse_pieces(pieces))
        for row in rows("usage", batches):
            self.clients[str(row["client_id"])] += int(str(row["count"]))
        self.quarantine += rows("quarantine", batches)
        found = list(rows("source", batches))
        self.sources += found
        self.known.add(pa.Table.from_pylist(found, SOURCE), self.batch)
        self.batch += 1
        self.folder.have_read({str(row["uri"]) for row in found if row["again"]})

    @property
    def missing(self) -> set[object]:
        """Why texts are not read to their ends, by their newest rows."""
        newest = {row["source"]: row["reason"] for row in self.sources}
        return set(newest.values()) - {None}


def rows(kind: str, batches: list[pa.RecordBatch]) -> Iterator[dict[str, object]]:
    """Yield the rows of one kind."""
    for batch in batches:
        yield from (row for row in batch.column(kind).to_pylist() if row is not None)


class Broker:
    """Writes one log, and rotates it in all the ways that people configure."""

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
        """Append some lines; the last one may be written by halves."""
        text, self.half = self.half, b""
        for _ in range(self.rng.choice([0, 1, 3, 30])):
            text += self.next_line()
        if self.rng.random() < 0.3 and (whole := self.next_line()):
            cut = self.rng.randrange(len(whole))
            text, self.half = text + whole[:cut], whole[cut:]
        with self.live.open("ab") as log:
            log.write(text)

    def end_line(self) -> None:
        """Write the half of a line that is left."""
        if self.half:
            with self.live.open("ab") as log:
                log.write(self.half)
            self.half = b""

    def rotated(self) -> list[Path]:
        """Return the rolled files, the newest first."""
        return sorted(self.live.parent.glob("kafka-request.log.[0-9]*"), key=lambda path: int(path.name.split(".")[2]))

    def rename(self) -> None:
        """Rotate as Log4j and logrotate do: all numbers rise by one."""
        self.end_line()
        for path in reversed(self.rotated()):
            name, ext, number, *packed = path.name.split(".")
            path.rename(path.with_name(".".join([name, ext, str(int(number) + 1), *packed])))
        if self.live.exists():
            self.live.rename(self.live.with_name("kafka-request.log.1"))
        self.texts += 1

    def copy_and_truncate(self) -> None:
        """Rotate as logrotate does with copytruncate."""
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
        """Let all files be old, so that nobody writes them any more."""
        for path in self.live.parent.iterdir():
            past = path.stat().st_mtime - AN_HOUR_AGO
            os.utime(path, (past, past))
