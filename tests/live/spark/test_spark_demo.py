"""``make demo-spark``: drivers are killed, a broker is rolled, and one sink alone loses and doubles nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest
from waiting import BOUND

pytestmark = [pytest.mark.proof("docs"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(4 * BOUND)]

DEMO = Path(__file__).parents[3] / "examples" / "spark_demo.py"


def test_the_demo_counts_nothing_lost_and_nothing_doubled_with_one_sink_alone(tmp_path: Path) -> None:
    """With one broker, so that it is short. No file and no process is left."""
    picture, temporary = tmp_path / "folder" / "picture.svg", tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, DEMO, "--brokers", "1", "--picture", str(picture)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=3.5 * BOUND,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in done.stdout.splitlines()
        if re.search("sink +│", line)
    ]
    counts = {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in rows}
    sent, out, lost, doubled = counts["featuregate's sink"]
    assert (sent, lost, doubled) == (out, 0, 0)
    sent, out, lost, doubled = counts["Spark's own sink"]
    assert doubled > 0
    assert out == sent - lost + doubled
    assert "both jobs write the new format" in done.stdout
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")
    assert list(temporary.glob("featuregate-*")) == []
    found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    assert [words for words in found if any(str(temporary) in word for word in words)] == []
