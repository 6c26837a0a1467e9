"""One line on its way from a file to rows: list, read, parse, sum."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from fleet_runs import Runs, line

EVIDENCE = "featuregate_fleet.evidence."
WHERE = {"lines.fast_path.lines_before", "file_parser.are_empty"}
"""Functions that say where a line is, and whether it is one, and do not read it."""
MARK = "totalTimeMs"
"""Stands in the line, and in nothing that is made of it."""
IN_A_CONTAINER = b"2026-11-01T10:00:00.000000000Z stdout F " + line(7).replace(b"[2026-11-01 ", b"[2026-11-1 ")
"""Its time is for the full parser."""


def has_line(value: object) -> bool:
    if isinstance(value, (pa.Array, pa.RecordBatch)):
        return MARK in str(value.to_pylist())
    return MARK in str(value) if isinstance(value, (str, bytes, tuple)) else False


class Trace:
    """Counts how often each module of `evidence` gets the line from another one."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self._frames: list[FrameType] = []  # a generator that goes on is called once

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith(EVIDENCE) or any(one is frame for one in self._frames):
            return
        self._frames.append(frame)
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        caller = frame.f_back.f_globals.get("__name__") if frame.f_back else None
        short = module.removeprefix(EVIDENCE)
        is_entered = caller != module and f"{short}.{frame.f_code.co_name}" not in WHERE
        if is_entered and any(has_line(frame.f_locals.get(name)) for name in names):
            self.entered[short] += 1


@pytest.mark.parametrize(
    ("text", "parsers"),
    [
        (line(7), {"lines.fast_path"}),
        (IN_A_CONTAINER, {"lines.fast_path", "lines.envelopes", "lines.partial_lines", "lines.one_line"}),
    ],
    ids=["fast", "full"],
)
def test_no_module_reads_a_line_twice(tmp_path: Path, text: bytes, parsers: set[str]) -> None:
    """What reads it later would have to decide again what an earlier one has decided."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "log").write_bytes(text)
    runs, trace = Runs(tmp_path), Trace()
    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        runs.run()
    finally:
        sys.setprofile(before)
    assert runs.clients == {"c7": 1}
    assert trace.entered == dict.fromkeys({"file_parser", *parsers}, 1)
