"""Counts that a collector hands in: those of the full log, and nothing of its requests."""

import gzip
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fleet_lines import document, line_of
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from featuregate_fleet.evidence.aggregates import from_text  # noqa: E402 - after the check for the extra
from featuregate_fleet.evidence.paths import LogTimes, log_file  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import aggregate, parse_pieces  # noqa: E402 - likewise
from featuregate_fleet.files.pieces import Piece, pieces_of  # noqa: E402 - likewise
from featuregate_fleet.files.segments import Segmenter  # noqa: E402 - likewise

REFUSED = (
    "[2026-11-22 21:08:17,583] ERROR Closing socket for 1.2.3.4:9-10.0.0.7:48912-8 because of error "
    "(kafka.network.Processor)\norg.apache.kafka.common.errors.UnsupportedVersionException: Received request for api "
    "with key 3 (Metadata) and unsupported version 99"
)
LINES = [
    line_of(document()),
    line_of(document(), head="[2026-11-22 22:08:39,958] DEBUG"),
    line_of(document(clientId='bill"ing')),
    line_of(document(requestApiVersion=3)),
    line_of(document())[:99],
    "gar\u2028bage \U0001f600",
    "\x00",
    "",
    REFUSED,
]


def parsed(path: Path, broker: str = "1", zone: str = "UTC") -> dict[str, Counter[tuple[Any, ...]]]:
    """Read a file as ``run`` does, and return what each table says without the place of the file, added up."""
    file = log_file("/logs", f"file:/logs/{broker}/a", path.stat().st_size, {"others": LogTimes(zone)})
    pieces = pieces_of(file._replace(uri=path.as_uri()))
    numbers = pa.RecordBatch.from_pylist([{"id": number} for number in range(len(pieces))])
    found: dict[str, Counter[tuple[Any, ...]]] = {"api_usage": Counter(), "quarantine": Counter(), "lines": Counter()}
    for batch in parse_pieces([numbers], pieces=pieces):
        for row in batch.to_pylist():
            if usage := row["api_usage"]:
                who = tuple(value for name, value in usage.items() if name not in ("count", "first_seen", "last_seen"))
                found["api_usage"][who] += usage["count"]
            elif line := row["quarantine"]:
                found["quarantine"][line["at"], line["reason"], line["raw"], line["whole"], line["broker"]] += 1
            else:
                for name in ("read", "rows", "quarantined"):
                    found["lines"][(name,)] += row["evidence_files"][name]
    return found


@given(st.lists(st.sampled_from(LINES)), st.sampled_from(["UTC", "Asia/Kolkata"]))
def test_counts_are_those_of_the_full_log(tmp_path_factory: pytest.TempPathFactory, lines: list[str], zone: str):
    """Lines may be garbage, and the broker may log in any time zone."""
    folder = tmp_path_factory.mktemp("counts")
    text = "".join(f"{line}\n" for line in lines).encode()
    (folder / "full").write_bytes(text)
    (folder / "counts").write_bytes(aggregate(text, LogTimes(zone)))
    assert parsed(folder / "counts") == parsed(folder / "full", zone=zone)


def test_counts_of_a_real_log_are_those_of_its_lines(tmp_path: Path, real_lines: Sequence[str]):
    """Also of the refused requests in it, and of a file that was compressed later."""
    text = "".join(f"{line}\n" for line in real_lines).encode()
    (tmp_path / "full").write_bytes(text)
    (tmp_path / "counts").write_bytes(aggregate(text))
    (tmp_path / "counts.gz").write_bytes(gzip.compress(aggregate(text)))
    assert parsed(tmp_path / "counts") == parsed(tmp_path / "counts.gz") == parsed(tmp_path / "full")


def test_no_body_is_handed_in():
    """Topics and groups stay on the host; only lines that were not understood are kept as they are."""
    assert b"orders" not in aggregate(line_of(document()).encode())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'counts": 1}', b'counts": 2}', "this release reads"),
        (b'"count":2', b'"count":200', "do not add up"),
        (b'"count":2', b'"count":"2"', "another type"),
        (b'"api_key":1,', b"", "line 2 has no row"),
        (b'{"api_usage"', b'{"api_usages"', "line 2 has no row"),
        (b'"hour":"2026', b'"hour":"x', "line 2 has no row"),
        (b'{"evidence_files"', b"", "has no row"),
    ],
)
def test_counts_that_cannot_be_read_are_in_quarantine(tmp_path: Path, old: bytes, new: bytes, why: str):
    """As one line: half of them would hide clients. A newer release reads the file by a replay."""
    counts = aggregate(f"{line_of(document())}\n{line_of(document())}\ngarbage\n".encode())
    assert old in counts
    (tmp_path / "counts").write_bytes(counts.replace(old, new))
    found = parsed(tmp_path / "counts")
    ((_, reason, raw, _, broker),) = found["quarantine"]
    assert (reason, why in raw, broker) == ("unreadable", True, "1")
    assert found["lines"] == {("read",): 1, ("rows",): 0, ("quarantined",): 1}


def test_counts_that_were_cut_are_in_quarantine(tmp_path: Path):
    """The last line has the counts of the lines."""
    whole = aggregate(f"{line_of(document())}\ngarbage\n".encode()).splitlines(keepends=True)
    (tmp_path / "counts").write_bytes(b"".join(whole[:-1]))
    ((_, _, raw, _, _),) = parsed(tmp_path / "counts")["quarantine"]
    assert "not whole" in raw


def test_counts_of_an_unknown_broker_are_in_quarantine(tmp_path: Path):
    """As are lines outside of the brokers' folders."""
    (tmp_path / "counts").write_bytes(aggregate(line_of(document()).encode()))
    ((_, reason, _, _, broker),) = parsed(tmp_path / "counts", broker="others")["quarantine"]
    assert (reason, broker) == ("unknown-broker", None)


def test_counts_in_several_pieces_count_once(tmp_path: Path):
    """A large file is cut into pieces, and only the first one reads the counts."""
    (tmp_path / "counts").write_bytes(aggregate(line_of(document()).encode()))
    file = log_file("/logs", "file:/logs/1/a", 9)._replace(uri=(tmp_path / "counts").as_uri())
    numbers = pa.RecordBatch.from_pylist([{"id": 0}, {"id": 1}])
    rows = [
        row["evidence_files"]
        for batch in parse_pieces([numbers], pieces=[Piece(file, 0, 5), Piece(file, 5, 9)])
        for row in batch.to_pylist()
        if row["evidence_files"]
    ]
    assert [row["read"] for row in rows] == [1]


def test_the_collector_hands_in_counts(tmp_path: Path):
    """Segments have the same names as those of lines."""
    log = tmp_path / "kafka-request.log"
    log.write_text(f"{line_of(document())}\n{line_of(document())}\n")
    segmenter = Segmenter(log, tmp_path / "logs" / "1", aggregate)
    (name,) = segmenter.collect()
    segmenter.close()
    assert sum(parsed(tmp_path / "logs" / "1" / name)["api_usage"].values()) == 2


def test_times_are_texts_of_counts():
    """Each text has the zone of the time."""
    lines = aggregate(line_of(document()).encode(), LogTimes("Europe/Berlin")).decode().splitlines()
    (batch, *_) = from_text(log_file("/logs", "file:/logs/1/a", 9), lines)
    assert '"hour":"2026-11-22T20:00:00+00:00"' in lines[1]
    assert batch["api_usage"][0]["hour"].as_py().hour == 20
