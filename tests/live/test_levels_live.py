"""The tables of levels are what the classes of released jars say."""

import subprocess
import sys
from pathlib import Path

import pytest

from featuregate.testing.local_kafka.java import find_java

pytestmark = [pytest.mark.proof("admin"), pytest.mark.live, pytest.mark.slow]
SCRIPT = Path(__file__).parents[2] / "scripts" / "levels.py"


def test_the_tables_are_what_the_jars_say() -> None:
    """Anybody can read them again, with a Java that can compile."""
    modules = subprocess.run([find_java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler" not in modules:
        pytest.skip("this Java cannot compile")
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "featuregate/catalog/data/levels.json is what the jars say\n"), (
        done.stderr
    )
