"""Small files are parsed together, and say what each of them says alone."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import REFUSED, TEXT, document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.columns import KINDS  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes, log_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.usage import add_up  # noqa: E402 - likewise
from featuregate_fleet.files import pieces, storage  # noqa: E402 - likewise
from featuregate_fleet.files.opening import open_log  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import parse_pieces  # noqa: E402 - likewise
from featuregate_fleet.files.pieces import Piece  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

GOOD = line_of(document())
CRI = "2026-11-22T21:08:39.958123456Z stdout"
LINES = [
    GOOD,
    line_of(document(clientId="billing", softwareName="unknown"), head="[2026-10-25 02:30:00,000] DEBUG"),
    line_of(document(clientId='a"b'), head="2026-03-29T02:30:00,000 INFO"),
    line_of(document(isForwarded=True), head="2026-02-30T21:08:39,958 DEBUG"),
    line_of(document(), head="[11-22 21:08:39,958] DEBUG"),
    *REFUSED,
    f"{CRI} F {GOOD}",
    f"{CRI} P {GOOD[:200]}",
    f"{CRI} F {GOOD[200:]}",
    TEXT,
    GOOD[:240],
    "garbage",
    "caf\u00e9",
    "",
    " ",
]
TIMES = {
    "2": LogTimes("Europe/Berlin"),
    "3": LogTimes("UTC", "%Y-%d-%m %H:%M:%S"),
    "4": LogTimes("Europe/Berlin", "%m-%d %H:%M:%S"),
}


class Made(NamedTuple):
    """A file of a log."""

    folder: str
    lines: list[str]
    end: bytes
    kind: str
    lost: int
    """Bytes at its end."""

    def write(self, logs: Path, number: int) -> Piece:
        path = logs / self.folder / f"{number}{'.gz' if self.kind == 'gzip' else ''}"
        path.parent.mkdir(exist_ok=True)
        text = "\n".join(self.lines).encode() + self.end
        text = gzip.compress(text) if self.kind == "gzip" else text
        path.write_bytes(text[: max(0, len(text) - self.lost)])
        size = len(text) if self.kind == "cut" else path.stat().st_size
        piece = Piece(log_file(logs.as_uri(), path.as_uri(), size, TIMES.get(self.folder, IN_UTC)))
        return piece if self.kind == "gzip" else piece._replace(end=size)


FILES = st.builds(
    Made,
    st.sampled_from(["1", "1", "2", "3", "4", "5", "old"]),
    st.lists(st.sampled_from(LINES), max_size=6),
    st.sampled_from([b"\n", b"", b"\xff\r\n", b"\n\n"]),
    st.sampled_from(["plain", "plain", "gzip", "cut"]),
    st.sampled_from([0, 0, 1, 30]),
)


def added_up(batches: Iterable[Any]) -> dict[str, Counter[str]]:
    found = {kind: Counter[str]() for kind in KINDS}
    for batch in add_up(batches):
        (kind,) = set(batch["kind"].to_pylist())
        found[kind].update(map(repr, batch[kind].to_pylist()))
    return found


@given(st.lists(FILES, max_size=4))
def test_files_that_are_parsed_together_say_what_each_says_alone(
    tmp_path_factory: pytest.TempPathFactory, made: list[Made]
):
    """Whatever they hold, whoever wrote them, in whatever zone and layout, compressed, damaged or empty."""
    logs = tmp_path_factory.mktemp("logs")
    files = [file.write(logs, number) for number, file in enumerate(made)]
    alone = [batch for file in files for batch in parse_pieces([file])]
    assert added_up(parse_pieces(files)) == added_up(alone)


def test_small_files_of_a_broker_are_sent_on_together(tmp_path: Path):
    """Each batch is a message to the JVM, and costs more than some lines."""
    files = [Made("1", [GOOD, TEXT, "garbage"], b"\n", "plain", 0).write(tmp_path, number) for number in range(100)]
    assert len(list(parse_pieces(files))) == len({"usage", "hour", "quarantine", "source"})


def test_a_file_is_opened_once_to_be_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On a storage each time is a request."""
    made = [Made("1", lines, b"\n", kind, 0) for lines in ([GOOD], []) for kind in ("plain", "gzip")]
    files = [file.write(tmp_path, number) for number, file in enumerate(made)]
    opened: list[str] = []
    monkeypatch.setattr(pieces, "open_log", lambda file: opened.append(file.path) or open_log(file))
    list(parse_pieces(files))
    assert opened == [piece.file.path for piece in files]


@pytest.mark.parametrize("kind", ["plain", "gzip"])
def test_a_time_that_no_calendar_has_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    """Whoever may write a file may say when it was written."""
    piece = Made("4", [GOOD], b"\n", kind, 0).write(tmp_path, 0)
    monkeypatch.setattr(storage, "is_local", lambda _: datetime.fromtimestamp(300_000_000_000, UTC))
    rows = [row for batch in parse_pieces([piece]) for row in batch["usage"].drop_null().to_pylist()]
    assert [row["count"] for row in rows] == [1]
