"""A sample of the table of clients is measured again."""

import subprocess
import sys
from pathlib import Path

import pytest

from featuregate.jars.maven import cache_folder

pytestmark = [pytest.mark.proof("clients"), pytest.mark.live, pytest.mark.slow]
SCRIPT = Path(__file__).parents[2] / "scripts" / "clients.py"


@pytest.mark.parametrize(
    "where", [("--broker", "3.9.2"), ("--broker", "4.2.0"), ("--offer", "newest"), ("--offer", "none")], ids=" ".join
)
def test_the_table_says_what_clients_do(where: tuple[str, str]) -> None:
    """Before and after the releases that look up offsets and log in by SCRAM on brokers from 4.0 on.

    All steps, TLS and GSSAPI too, and what they fall back to where a broker offers other versions than it serves.
    """
    clients = ["confluent-kafka==2.6.0", "confluent-kafka==2.6.1", "kafka-python==2.0.2", "kafka-clients==2.0.1"]
    command = [sys.executable, str(SCRIPT), "--check", *where, "--environments", str(cache_folder() / "clients")]
    done = subprocess.run([*command, *clients], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "The table says the same.\n"), done.stderr
