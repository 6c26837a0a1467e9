"""The demo shows the danger, and fails where there is none."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1200)]

DEMO = Path(__file__).parents[3] / "examples" / "exactly_once_demo.py"


@pytest.fixture
def own_tmp(tmp_path):
    """Return a folder for the demo's temporary files; check that no file and no process is left."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []
    found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    assert [words for words in found if any(str(folder) in word for word in words)] == []


def run_demo(own_tmp, *options):
    return subprocess.run(
        [sys.executable, DEMO, "--quick", *options],
        env={**os.environ, "TMPDIR": str(own_tmp)},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )


def test_the_naive_app_duplicates_and_featuregate_does_not(tmp_path, own_tmp):
    """The demo rolls a real cluster from 2.4.1 to 2.8.2, checks its counts and draws them."""
    picture = tmp_path / "folder" / "picture.svg"
    done = run_demo(own_tmp, "--picture", str(picture))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "commit was accepted" in done.stdout
    assert "featuregate has switched to v2" in done.stdout
    (total,) = [line for line in done.stdout.splitlines() if line.startswith("│ together")]
    _, inputs, _, duplicates, lost, *_, naive, _ = [cell.strip() for cell in total.strip("│").split("│")]
    assert int(inputs.replace(",", "")) > 0
    assert (duplicates, lost) == ("0", "0")
    assert int(naive) > 0
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")
    assert str(picture) in done.stdout


def test_a_demo_without_danger_fails(tmp_path, own_tmp):
    """Where every broker checks the group from the start, the naive app does not duplicate."""
    done = run_demo(own_tmp, "--old", "2.8.2", "--picture", str(tmp_path / "picture.svg"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "naive duplicated nothing" in done.stderr, done.stdout + done.stderr
    assert "featuregate duplicated" not in done.stderr, done.stdout + done.stderr
