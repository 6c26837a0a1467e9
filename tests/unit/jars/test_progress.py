"""The line that says what a command waits for."""

import io
import sys

import pytest
from waiting import eventually

from featuregate.jars.progress import shown_on_a_terminal


class Terminal(io.StringIO):
    """Standard error of somebody who watches."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_line_with_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn again in place, and vanishes when the work is done."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    files = iter(range(1000))
    with shown_on_a_terminal("reading", lambda: f"{next(files)} files"):
        eventually(lambda: "reading ... 0 s (0 files)" in terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "\n" not in terminal.getvalue()


def test_a_failure_is_said_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed follows as the command's own message."""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(ValueError, match="broken"), shown_on_a_terminal("reading", str):
        raise ValueError("broken")
    assert terminal.getvalue().endswith(" s (failed)\n")


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_a_script_sees_no_line(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None) -> None:
    """Standard error is a file, or closed: the exit code and the messages say what a script has to know."""
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_on_a_terminal("reading", str):
        pass
    assert stream is None or not stream.getvalue()
