"""What ``fleet run`` prints while it goes on."""

import argparse
import json
from collections.abc import Sequence

import pytest

from featuregate_fleet.commands.progress import Progress
from featuregate_fleet.evidence.line_counts import LineCounts

ROUNDS = (LineCounts(0, 0, 0), LineCounts(5, 4, 1), LineCounts(5, 4, 1))
TEXT = ["c: 0 lines read: 0 rows, 0 in quarantine", "c: 5 lines read: 4 rows, 1 in quarantine"]


def shown(
    rounds: Sequence[LineCounts], capsys: pytest.CaptureFixture[str], *, progress: str | None = None, once: bool = False
) -> list[str]:
    """Return the lines that are printed after some rounds, not to a terminal."""
    shows = Progress(argparse.Namespace(cluster="c", progress=progress, once=once))
    for found in rounds:
        shows.show(found)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("progress", ["json", None])
def test_a_program_gets_a_line_of_json_each_time(progress: str | None, capsys: pytest.CaptureFixture[str]):
    """Also where nothing was read, so that a supervisor sees that the stream is alive."""
    lines = [json.loads(line) for line in shown(ROUNDS, capsys, progress=progress)]
    assert [(line["cluster"], line["read"], line["rows"], line["quarantined"]) for line in lines] == [
        ("c", 0, 0, 0),
        ("c", 5, 4, 1),
        ("c", 5, 4, 1),
    ]
    assert all(line["time"].endswith("+00:00") for line in lines)


def test_people_get_a_line_when_something_was_read(capsys: pytest.CaptureFixture[str]):
    """Otherwise the terminal would scroll each minute."""
    assert shown(ROUNDS, capsys, progress="text") == TEXT


def test_a_run_that_ends_prints_json_for_programs_too(capsys: pytest.CaptureFixture[str]):
    """A run that cron starts prints the same as one that goes on."""
    (line,) = shown(ROUNDS[1:2], capsys, once=True)
    assert json.loads(line)["read"] == 5
