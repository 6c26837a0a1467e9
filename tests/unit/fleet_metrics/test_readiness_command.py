"""``featuregate readiness``: its options, exit codes and output."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from http_serving import serving_http
from metrics_pages import PAGES, USUAL, page

from featuregate.cli.app import main
from featuregate.version import how_to_install

NOW = datetime.now(UTC)
NEW = ("CLIENT", "confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
STRIMZI = str(PAGES / "3.9.2-strimzi-1.0.1.txt")
KNOWN = ("--listener", "CLIENT=SCRAM-SHA-256", "--brokers", "1")


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "page.txt"
    path.write_bytes(page(USUAL, {NEW: 2}, started=NOW - timedelta(days=30)))
    return str(path)


def run(*arguments: str) -> int:
    return main(["readiness", "--to", "4.2", *arguments])


def test_the_exit_code_tells_the_verdict(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown without the mechanisms of listeners, without the number of brokers, for a longer time, or a lost page."""
    assert run("--metrics", f"1={good}", *KNOWN) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith(" UTC: ok")
    assert "No metric shows:\n- requests that a broker refused" in said
    assert run("--metrics", STRIMZI) == 1
    said = capsys.readouterr().out
    assert "block    api-versions     librdkafka 1.9.2 and clients without a name" in said
    assert "Upgrade librdkafka 1.9.2, or stop it, before the brokers move to 4.2." in said
    for code, arguments in (
        (3, ("--brokers", "1")),
        (3, ("--listener", "CLIENT=none")),
        (3, (*KNOWN, "--since", "90d")),
        (3, (*KNOWN, "--metrics", "2=nowhere.txt")),
        (0, (*KNOWN, "--since", f"{NOW - timedelta(days=20):%Y-%m-%dT%H:00}")),
        (3, (*KNOWN, "--since", f"{NOW - timedelta(days=40):%Y-%m-%dT%H:00}")),
    ):
        assert run("--metrics", good, *arguments) == code


def test_the_time_that_is_judged_ends_with_the_oldest_page(good: str) -> None:
    """What came after it is on no page: of an hour, this one of 50 minutes ago would show ten minutes."""
    Path(good).write_bytes(page(USUAL, {NEW: 2}, started=NOW - timedelta(minutes=80)))
    os.utime(good, times=(0, (NOW - timedelta(minutes=50)).timestamp()))
    assert run("--metrics", good, *KNOWN, "--since", "1h") == 3
    Path(good).touch()
    assert run("--metrics", good, *KNOWN, "--since", "1h") == 0


def test_json_has_rows_coverage_and_blind_spots(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--metrics", f"7={STRIMZI}", "--output", "json") == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["move"]) == ("block", {"kind": "to", "target": "4.2"})
    assert {row["api"] for row in said["rows"] if row["verdict"] == "block"} == {"Fetch", "Produce"}
    assert said["coverage"][0]["broker"] == "7"
    assert datetime.fromisoformat(said["until"]) - datetime.fromisoformat(said["since"]) == timedelta(days=7)
    assert said["no_metric_shows"]


def test_a_url_is_read(good: str) -> None:
    """Each page by its own request, and the same page twice is one broker."""

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = Path(good).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Exporter) as url:
        assert run("--metrics", f"{url}/metrics", *KNOWN) == 0
        assert run("--metrics", f"1={url}/metrics", "--metrics", f"2={url}/metrics", *KNOWN) == 0


def in_a_process(code: str) -> tuple[int, str]:
    """Run the command on a page where ``code`` has its place."""
    whole = f"import sys; from featuregate.cli.app import main; {code}"
    command = [sys.executable, "-c", whole, "readiness", "--metrics", STRIMZI, "--to", "4.2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stderr


def test_neither_spark_nor_arrow_is_imported() -> None:
    code = "sys.exit(', '.join({'pyspark', 'pyarrow', 'pandas', 'jinja2'} & sys.modules.keys()))"
    assert in_a_process(f"main(sys.argv[1:]); {code}") == (1, "\n")


def test_what_judges_is_imported_when_a_move_is_judged() -> None:
    """The help of all commands is written from their modules."""
    judges = "{'report', 'evidence', 'checks'}"
    code = f"sys.exit(', '.join(one for one in {judges} if f'featuregate_fleet.readiness.{{one}}' in sys.modules))"
    assert in_a_process(f"import featuregate_fleet.commands.readiness; {code}") == (1, "\n")


def test_without_its_extra_it_names_the_extra() -> None:
    said = f"featuregate: this needs prometheus_client: {how_to_install('readiness')}\n"
    assert in_a_process("sys.modules['prometheus_client'] = None; sys.exit(main(sys.argv[1:]))") == (64, said)
