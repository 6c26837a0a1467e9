"""Show which client an upgrade breaks before it breaks, on a real Kafka.

Run it with ``make demo-fleet``. Two apps send records to a broker of 3.9.2, which logs each request. One of them still
has the settings by which librdkafka talked to brokers of 0.9. ``featuregate fleet`` reads the log, and says which app
Kafka 4.2 would break. Then the demo upgrades the broker, and lets both apps send again.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import shutil
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from demo_apps import wait_for
from rich.console import Console
from rich.table import Table

from featuregate.cli import main as featuregate
from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Sequence

REPORT = Path("build/demo/fleet.html")
OLD, NEW, TARGET = "3.9.2", "4.2.0", "4.2"
APPS: dict[str, dict[str, Any]] = {
    "orders": {},
    "billing": {"api.version.request": False, "broker.version.fallback": "0.9.0"},
}
"""By client id, the settings beside the address."""
BOUND = 120.0


def delivers(kafka: LocalKafka, app: str) -> bool:
    """Return whether the broker takes a record of an app."""
    taken: list[bool] = []
    own = {"client.id": app, "message.timeout.ms": 20_000, "log_level": 0, **APPS[app]}
    producer = Producer(kafka.client_config(own))
    producer.produce("payments", b"10 EUR", on_delivery=lambda error, _: taken.append(error is None))
    producer.flush(BOUND)
    return taken == [True]


def run(arguments: Sequence[str], *, printed: bool = True) -> tuple[int, str]:
    """Run a command of featuregate as a person would, and return its exit code and its output."""
    say(f"$ {shlex.join(['featuregate', *arguments])}")
    output = io.StringIO()
    with redirect_stdout(output):
        code = featuregate(arguments)
    if printed:
        print(output.getvalue(), end="", flush=True)
    return code, output.getvalue()


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"demo | {text}", flush=True)


def logged(log: Path, request: re.Pattern[str]) -> bool:
    """Return whether a broker has logged a request."""
    return request.search(log.read_text(errors="replace")) is not None


def evidence(kafka: LocalKafka, folder: Path) -> Path:
    """Let the apps send while the broker logs, and return the folder with its log."""
    log = kafka.node(1).log
    for app in APPS:
        if not delivers(kafka, app):
            raise RuntimeError(f"the broker took no record of {app}")
        produced = re.compile(rf'"clientId":"{app}","requestApiKeyName":"PRODUCE"')
        wait_for(f"the broker logs {app}", partial(logged, log, produced), BOUND)
    (folder / "logs" / "1").mkdir(parents=True)
    shutil.copy(log, folder / "logs" / "1" / "requests.log")
    return folder / "logs"


def play(folder: Path, page: Path) -> dict[str, tuple[str, bool]]:
    """Ask whether the upgrade is safe, upgrade all the same, and return of each app what was said and what came."""
    say(f"starting a real Kafka broker of {OLD}, which logs each request; two apps send records")
    with LocalKafka(OLD, log_levels={"kafka.request.logger": "DEBUG"}) as kafka:
        logs = evidence(kafka, folder)
        tables = ["--tables", str(folder / "tables"), "--cluster", "demo"]
        code, _ = run(["fleet", "run", "--once", "--logs", str(logs), *tables, "--bootstrap-server", kafka.bootstrap])
        if code:
            raise RuntimeError(f"featuregate fleet run ended with {code}")
        asked = ["fleet", "readiness", *tables, "--to", TARGET, "--output", "json", "--html", str(page)]
        code, text = run(asked, printed=False)
        report = json.loads(text)
        say(f"the verdict is {report['verdict']}, and the exit code {code}; the report is {page}")
        said = dict.fromkeys(APPS, "ok")
        said |= {row["client_id"]: row["why"] for row in report["rows"] if row["verdict"] == "block"}
        say(f"upgrading the broker to {NEW} all the same")
        kafka.roll(1, NEW)
        return {app: (said[app], delivers(kafka, app)) for app in APPS}


def print_table(outcome: dict[str, tuple[str, bool]]) -> None:
    """Print what was said of each app, and what came of it."""
    table = Table("app", f"said before the upgrade to {NEW}", "after it")
    for app, (said, works) in outcome.items():
        table.add_row(app, said, "[green]goes on[/]" if works else "[bold red]is broken[/]")
    Console().print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the story, and fail if what was said did not come true."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, default=REPORT, help="where to write it (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory() as folder:
            outcome = play(Path(folder), options.report)
    except (TimeoutError, RuntimeError) as failure:
        sys.exit(f"demo: {failure}")
    print_table(outcome)
    if wrong := [app for app, (said, works) in outcome.items() if works is not (said == "ok")]:
        sys.exit(f"demo: it came otherwise for {', '.join(wrong)}")


if __name__ == "__main__":
    main()
