"""Show which client an upgrade breaks before it breaks, on a real Kafka.

Run it with ``make demo-fleet``. Two apps send records to three brokers of 3.9.2, which log each request. One of them
still has the settings by which librdkafka talked to brokers of 0.9. ``featuregate fleet`` reads the logs, and says
which app Kafka 4.2 would break. Then the demo upgrades the brokers, one by one, and lets both apps send again.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from featuregate.cli import main as featuregate
from featuregate.testing import LocalKafka
from featuregate.testing.traffic import wait_for

REPORT = Path("build/demo/fleet.html")
OLD, NEW, TARGET = "3.9.2", "4.2.0", "4.2"
APPS: dict[str, dict[str, Any]] = {
    "orders": {},
    "billing": {"api.version.request": False, "broker.version.fallback": "0.9.0"},
}
"""By client id, the settings beside the address."""
REPLICATED = {"num.partitions": 3, "default.replication.factor": 3}
BOUND = 120.0


def delivers(kafka: LocalKafka, app: str) -> bool:
    """Return whether the brokers take a record of an app."""
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


def logged(logs: Iterable[Path], request: re.Pattern[str]) -> bool:
    """Return whether a broker has logged a request."""
    return any(request.search(log.read_text(errors="replace")) for log in logs)


def evidence(kafka: LocalKafka, folder: Path) -> Path:
    """Let the apps send while the brokers log, and return the folder with their logs."""
    logs = {broker: kafka.node(broker).log for broker in kafka.nodes}
    for app in APPS:
        if not delivers(kafka, app):
            raise RuntimeError(f"the brokers took no record of {app}")
        produced = re.compile(rf'"clientId":"{app}","requestApiKeyName":"PRODUCE"')
        wait_for(f"a broker logs {app}", partial(logged, logs.values(), produced), BOUND)
    for broker, log in logs.items():
        (folder / "logs" / str(broker)).mkdir(parents=True)
        shutil.copy(log, folder / "logs" / str(broker) / "requests.log")
    return folder / "logs"


def play(folder: Path, page: Path) -> dict[str, tuple[str, bool]]:
    """Ask whether the upgrade is safe, upgrade all the same, and return of each app what was said and what came."""
    say(f"starting three real Kafka brokers of {OLD}, which log each request; two apps send records")
    with LocalKafka(OLD, nodes=3, log_levels={"kafka.request.logger": "DEBUG"}, properties=REPLICATED) as kafka:
        logs = evidence(kafka, folder)
        tables = ["--tables", str(folder / "tables"), "--cluster", "demo"]
        code, _ = run(["fleet", "run", "--once", "--logs", str(logs), *tables, "--bootstrap-server", kafka.bootstrap])
        if code:
            raise RuntimeError(f"featuregate fleet run ended with {code}")
        asked = ["readiness", *tables, "--to", TARGET, "--output", "json", "--html", str(page)]
        code, text = run(asked, printed=False)
        report = json.loads(text)
        say(f"the verdict is {report['verdict']}, and the exit code {code}; the report is {page}")
        said = dict.fromkeys(APPS, "ok")
        said |= {row["client_id"]: row["why"] for row in report["rows"] if row["verdict"] == "block"}
        say(f"upgrading the brokers to {NEW} all the same, one by one")
        for broker in kafka.nodes:
            kafka.roll(broker, NEW)
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
