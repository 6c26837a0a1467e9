"""``hold list``: what an app with this environment would hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run


def test_nothing_is_held(run: Run) -> None:
    said = "no gate is held: FEATUREGATE_HOLD and FEATUREGATE_HOLD_FILE name none, nor does --file\n"
    assert run("hold", "list") == (0, said, "")


def test_each_hold_has_a_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "holds"
    file.write_text("# until Monday\n\nkip848: INC-12\n")
    monkeypatch.setenv("FEATUREGATE_HOLD", "eos-v2")
    code, out, _ = run("hold", "list", "--file", str(file))
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "eos-v2 held by FEATUREGATE_HOLD in the environment",
        f"kip848 held by {file}: INC-12",
    ]
