"""``featuregate rehearse`` as a process, and the app that tests give it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

COPYING = f"{sys.executable} {Path(__file__).parent / 'live/rehearsal/copying_app.py'}"


class Rehearsed(NamedTuple):
    code: int
    runbook: dict[str, Any]
    printed: str

    @property
    def names(self) -> list[str]:
        return [step["name"] for step in self.runbook["steps"]]

    def said(self, verdict: str) -> list[str]:
        found = (each for step in self.runbook["steps"] for each in step["findings"])
        return [each["text"] for each in found if each["verdict"] == verdict]


def rehearse(folder: Path, *options: str) -> Rehearsed:
    command = [sys.executable, "-m", "featuregate", "rehearse", "--folder", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    return Rehearsed(done.returncode, json.loads((folder / "runbook.json").read_text()), done.stdout + done.stderr)
