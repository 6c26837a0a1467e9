"""``featuregate fleet tidy``: it does nothing that nobody has agreed to."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from featuregate.cli import main
from featuregate_fleet.tables.tidying import TidyPlan

SHOWN = TidyPlan({"usage": 7, "source": 2}, {"quarantine": 1}, 9, 90_000)


class Tidied:
    """A fleet that remembers what it was asked."""

    asked: list[dict[str, Any]]

    def __init__(self, *_: object, **__: object) -> None: ...

    def tidy(self, *, yes: bool = False, **wanted: Any) -> TidyPlan:
        self.asked.append({"yes": yes, **wanted})
        return SHOWN._replace(files_after=5, bytes_after=80_000) if yes else SHOWN


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Tidied.asked = []
    monkeypatch.setattr("featuregate_fleet.runs.session.local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("featuregate_fleet.api.fleet.Fleet", Tidied)
    return ["fleet", "tidy", "--tables", str(tmp_path), "--cluster", "c", "--older-than", "90", "--forget", "User:a"]


def test_without_a_terminal_nothing_is_changed(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A job that lacks the option says what it would do."""
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        "c: usage: 7 rows are too old",
        "c: source: 2 rows are too old",
        "c: quarantine: 1 rows lose their names",
        "c: 9 files, 90000 bytes, are joined",
        "c: nothing was changed; to do it, add --yes",
    ]
    assert Tidied.asked == [{"yes": False, "older_than": 90, "logs": None, "forget": "User:a"}]


def test_with_the_option_it_is_done(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """And says what was done."""
    assert main([*command, "--yes"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert (said[0], said[-1]) == ("c: usage: 7 rows are too old", "c: it has 5 files now, 80000 bytes")
    assert [asked["yes"] for asked in Tidied.asked] == [True]


@pytest.mark.parametrize(("answer", "done"), [("y", True), ("yes", True), ("", False), ("n", False), (None, False)])
def test_a_terminal_is_asked(
    command: list[str],
    answer: str | None,
    done: bool,  # noqa: FBT001 - a parameter of pytest
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is gone cannot be had back; the end of the input is no agreement."""

    def answered(question: str) -> str:
        assert "cannot be had back" in question
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", answered)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert main(command) == 0
    assert ("nothing was changed" in capsys.readouterr().out) is not done
    assert [asked["yes"] for asked in Tidied.asked] == [False, True][: 1 + done]
