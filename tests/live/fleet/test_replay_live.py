"""What replays of a file count, whenever it comes back and wherever a replay ends."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fleet_lines import document, line_of

from featuregate_fleet.files import pieces
from featuregate_fleet.stream import request_logs
from featuregate_fleet.stream.quarantine import replay
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.stream.request_logs import drain, pieces_to_read
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_fleet.tables.line_counts import read_line_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from featuregate_fleet.files.pieces import Piece

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

REQUESTS = 50
WHOLE = gzip.compress(f"{line_of(document())}\n".encode() * REQUESTS)


class EndingTables(Tables):
    """Tables whose process ends before the last write of a replay."""

    def replace(self, table: str, kept: DataFrame, added: DataFrame, batch: BatchId) -> None:  # noqa: ARG002 - as there
        """End."""
        raise EOFError(f"the replay ends before {table}")


def counts(tables: Tables) -> tuple[int, int, int]:
    """Return the requests, the lines that became rows, and the lines in quarantine, of which the table has as many."""
    lines = read_line_counts(tables)
    assert lines.read == lines.rows + lines.quarantined
    assert sum(row["lines"] for row in tables.read("quarantine").collect()) == lines.quarantined
    return sum(row["count"] for row in tables.read("api_usage").collect()), lines.rows, lines.quarantined


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a compressed log of which nothing can be read, because a transfer was cut."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    log = tmp_path / "logs" / "1" / "a.gz"
    log.write_bytes(WHOLE[:9])
    return log


@pytest.mark.usefixtures("jvm")
def test_a_file_that_comes_back_after_two_replays_is_counted(tmp_path: Path, log: Path) -> None:
    """It is in quarantine for the same reason both times, and each replay is another one."""
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        drain(spark, log.parents[1], tables)
        log.unlink()
        for _ in range(2):
            assert replay(spark, tables) == 1
            assert counts(tables) == (0, 0, 1)
        log.write_bytes(WHOLE)
        assert replay(spark, tables) == 1
        assert counts(tables) == (REQUESTS, REQUESTS, 0)
        assert replay(spark, tables) == 0


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("back_before", [True, False])
def test_a_replay_that_ends_early_is_finished_by_the_next_one(
    tmp_path: Path,
    log: Path,
    back_before: bool,  # noqa: FBT001
) -> None:
    """Each line counts once, whether the file came back before the first one or between the two."""
    folder = tmp_path / "tables"
    with local_session() as spark:
        drain(spark, log.parents[1], Tables(spark, folder, "c"))
        if back_before:
            log.write_bytes(WHOLE)
        with pytest.raises(EOFError):
            replay(spark, EndingTables(spark, folder, "c"))
        log.write_bytes(WHOLE)
        tables = Tables(spark, folder, "c")
        assert replay(spark, tables) == 1
        assert counts(tables) == (REQUESTS, REQUESTS, 0)


@pytest.mark.usefixtures("jvm")
def test_a_replay_with_a_layout_that_ends_early_is_finished_without_it(tmp_path: Path, log: Path) -> None:
    """The table has the layout: each line counts once."""
    log.unlink()
    head = "[05-11-2026 10:11:12] DEBUG"
    log.with_name("a").write_text(f"{line_of(document(), head=head)}\n" * REQUESTS + "garbage\n")
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        drain(spark, log.parents[1], tables)
        assert counts(tables) == (0, 0, REQUESTS + 1)
        assert replay(spark, tables, {"2": "%m-%d-%Y %H:%M"}) == 0
        with pytest.raises(EOFError):
            replay(spark, EndingTables(spark, tmp_path / "tables", "c"), {"1": "%m-%d-%Y %H:%M:%S"})
        assert replay(spark, tables) == REQUESTS
        assert counts(tables) == (REQUESTS, REQUESTS, 1)
        (row,) = tables.read("api_usage").collect()
        assert row["last_seen"].isoformat() == "2026-05-11T10:11:12"


@pytest.mark.usefixtures("jvm")
def test_a_file_of_which_nothing_was_read_is_read_to_its_end(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in quarantine as one line, and may have several pieces as a text. Later runs do not say that it changed."""
    log.unlink()
    packed = log.with_suffix(".zst")
    packed.write_bytes(b"(\xb5/\xfd")
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        drain(spark, log.parents[1], tables)
        packed.write_bytes(gzip.decompress(WHOLE))
        monkeypatch.setattr(pieces, "_PIECE", len(gzip.decompress(WHOLE)) // 3)
        assert replay(spark, tables) == 1
        assert counts(tables) == (REQUESTS, REQUESTS, 0)
        assert ReadFiles.of(tables).changed(log.parents[1]) == []


@pytest.mark.usefixtures("jvm")
def test_a_file_that_has_the_name_of_a_lost_one_is_not_read_again(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names the text that was replaced before it was read. A replay waits until that text is back."""
    first, second = (f"{line_of(document(clientId=client))}\n" * REQUESTS for client in ("first", "second"))
    log.unlink()
    log.with_name("log").write_text(first)

    def replaced(*found: Any) -> list[Piece]:
        pieces = pieces_to_read(*found)
        monkeypatch.undo()
        log.with_name("log").write_text(second)
        return pieces

    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        monkeypatch.setattr(request_logs, "pieces_to_read", replaced)
        drain(spark, log.parents[1], tables)
        for _ in range(2):
            assert counts(tables) == (REQUESTS, REQUESTS, 1)
            assert replay(spark, tables) == 1
        log.with_name("log").rename(log.with_name("log.1"))
        log.with_name("log").write_text(first)
        assert replay(spark, tables) == 1
        drain(spark, log.parents[1], tables)
        assert counts(tables) == (2 * REQUESTS, 2 * REQUESTS, 0)


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_back_under_another_name_is_read_up_to_the_size_that_it_had(
    tmp_path: Path,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    packed: bool,  # noqa: FBT001
) -> None:
    """It was listed, and away when it was read. It had several pieces, and a short log has its name by now."""
    log.unlink()
    live, text = log.with_name("log"), f"{line_of(document())}\n" * REQUESTS
    live.write_text(text)
    away = tmp_path / "away"

    def unmounted(*found: Any) -> list[Piece]:
        result = pieces_to_read(*found)
        live.rename(away)
        return result

    monkeypatch.setattr(pieces, "_PIECE", len(text) // 3)
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        with monkeypatch.context() as during:
            during.setattr(request_logs, "pieces_to_read", unmounted)
            during.setattr(request_logs, "files_back", lambda *_: [])
            drain(spark, log.parents[1], tables)
        quarantined = counts(tables)[2]
        assert quarantined >= 3  # a piece each
        with away.open("a") as more:
            more.write(f"{line_of(document(clientId='later'))}\n" * 5)
        if packed:
            live.with_name("log.1.gz").write_bytes(gzip.compress(away.read_bytes()))
        else:
            away.rename(live.with_name("log.1"))
        live.write_text(f"{line_of(document(clientId='new'))}\n" * 7)
        assert replay(spark, tables) == quarantined
        assert counts(tables) == (REQUESTS, REQUESTS, 0)
        drain(spark, log.parents[1], tables)
        assert counts(tables) == (REQUESTS + 5 + 7, REQUESTS + 5 + 7, 0)
