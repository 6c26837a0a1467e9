"""Measure what releases of Kafka clients send, and where they work: the catalog's table of clients.

Installs each release into an environment of its own below a temporary folder, starts a real broker of each release in
`BROKERS` behind a recorder, and runs the client's program of ``scripts/client_programs`` against it: it produces,
consumes, commits, looks up offsets, shares partitions, calls admin APIs, commits transactions and logs in. A row says
what became of each of these steps and which API versions the client sent in all of them.

``python scripts/clients.py`` measures all clients, ``python scripts/clients.py confluent-kafka==2.6.0`` one row of the
table: rows of other clients stay. ``--offer newest`` measures what clients fall back to where a broker offers other
versions than it serves (``client_offers``), for the releases of ``REPRESENTATIVES``. With ``--check`` the rows are
compared with those in the table, and nothing is written. A release that cannot be installed here gets no row.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import client_table
from client_brokers import MECHANISMS, RecordedBroker
from client_installers import CLIENTS, REPRESENTATIVES, Installed, install
from client_offers import OFFERS

TABLE = Path(__file__).parent.parent / "featuregate" / "catalog" / "data" / "clients.json"
BROKERS = ("2.8.2", "3.9.2", "4.0.0", "4.2.0", "4.4.0")
"""Before and after the APIs that 4.0 removed (KIP-896), and the newest release."""
STEPS = (
    *("produce", "consume", "commit", "offsets", "rebalance"),
    *("admin", "zstd", "transactions", "kip848", "kip848-describe", "share", "tls"),
    *(f"sasl-{mechanism}" for mechanism in MECHANISMS),
)
PINNED = ("kafka-python", "aiokafka")
"""The clients with a setting ``api_version``, which decides in place of the broker's answer."""
PINS = ("0.10.0", "0.10.2", "0.11.0", "1.0")
PINNED_STEPS = ("produce", "consume", "commit")
OFFERED_STEPS = ("produce", "consume", "commit", "offsets", "rebalance", "admin", "transactions")
AT_A_TIME = 4
WAITING = 24
"""Clients that run at the same time where most of them wait in vain."""
RUN_LIMIT = 400.0
"""Seconds; each step has its own limit, which is shorter."""


def main(arguments: Sequence[str]) -> int:
    """Measure, and write or compare the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client", nargs="*", help=f"such as confluent-kafka==2.6.0; by default all of {list(CLIENTS)}")
    parser.add_argument("--broker", action="append", help=f"by default {' '.join(BROKERS)}")
    parser.add_argument("--check", action="store_true", help="compare with the table in place of writing it")
    parser.add_argument("--step", action="append", choices=STEPS, help="by default all; what is known of others stays")
    parser.add_argument("--pins", action="store_true", help="measure api_version of the clients of PINNED alone")
    parser.add_argument(
        "--offer", action="append", choices=OFFERS, help="measure alone what clients send where brokers offer this"
    )
    parser.add_argument("--environments", type=Path, help="keep the installed clients in this folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.environments or Path(temporary)
        wanted = wanted_releases(options.client, offers=bool(options.offer))
        installed = [found for each in wanted if (found := install(*each, folder))]
        rows = measured(options, installed)
    table = client_table.read(TABLE)
    if options.check:
        differences = list(client_table.differences(table, rows))
        print("\n".join(differences) or "The table says the same.")
        return 1 if differences else 0
    client_table.write(TABLE, client_table.merged(table, rows))
    return 0


def measured(options: argparse.Namespace, installed: Sequence[Installed]) -> dict[str, dict[str, Any]]:
    """Return rows with what the options ask for."""
    brokers = options.broker or BROKERS
    if options.offer:
        return measure_offers(installed, options.offer)
    return measure_pins(installed, brokers) if options.pins else measure(installed, brokers, options.step or STEPS)


def wanted_releases(named: Iterable[str], *, offers: bool) -> list[tuple[str, str]]:
    """Return the clients and releases to measure; for offers those that stand for others, unless they are named."""
    all_of = REPRESENTATIVES if offers else {client: each.releases for client, each in CLIENTS.items()}
    found = []
    for one in named or all_of:
        client, _, version = one.partition("==")
        found += [(client, each) for each in ([version] if version else all_of[client])]
    return found


def measure(
    installed: Sequence[Installed], brokers: Iterable[str], steps: Sequence[str] = STEPS
) -> dict[str, dict[str, Any]]:
    """Return the rows by client and release."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    rows = {each.name: client_table.new_row(each, today) for each in installed}
    installed = [each for each in installed if each.command]
    for release in brokers if installed else ():
        with RecordedBroker(release) as broker, concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            for each, outcomes in zip(installed, pool.map(lambda one: run(one, broker, steps), installed), strict=True):
                client_table.add(rows[each.name], broker, each, outcomes)
                said(f"Kafka {release}", each, outcomes)
    return rows


def measure_pins(installed: Sequence[Installed], brokers: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return rows with the oldest ``api_version`` that each client of `PINNED` works with on each broker, alone."""
    pinned = [each for each in installed if each.client in PINNED]
    rows: dict[str, dict[str, Any]] = {each.name: {"pins": {}} for each in pinned}
    for release in brokers:
        with RecordedBroker(release) as broker, concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            for each, pin in zip(pinned, pool.map(lambda one: oldest_pin(one, broker), pinned), strict=True):
                rows[each.name]["pins"][release] = pin
                print(f"Kafka {release}, {each.name}: works with api_version {pin or 'none'}", file=sys.stderr)
    return rows


def oldest_pin(client: Installed, broker: RecordedBroker) -> str:
    """Return the oldest ``api_version`` with which a client works; empty where it works with none."""
    for pin in PINS:
        pinned = client.with_settings({"api_version": pin})
        if all(does(pinned, broker, f"{client.run_id}-pin-{pin}-{step}", step) for step in PINNED_STEPS):
            return pin
    return ""


def measure_offers(installed: Sequence[Installed], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return rows with what clients fall back to where brokers offer other versions than they serve."""
    chosen = [each for each in installed if each.command]
    rows: dict[str, dict[str, Any]] = {each.name: {"offers": {}} for each in chosen}
    for offer in (OFFERS[name] for name in names):
        under = [replace(each, beside=f"-{offer.name}") for each in chosen]
        with (
            RecordedBroker(offer.release, offer=offer) as broker,
            concurrent.futures.ThreadPoolExecutor(WAITING) as pool,
        ):
            for each, outcomes in zip(under, pool.map(lambda one: run(one, broker, OFFERED_STEPS), under), strict=True):
                client_table.add(rows[each.name], broker, each, outcomes)
                said(f"{offer.name} versions of Kafka {offer.release}", each, outcomes)
    return rows


def said(where: str, client: Installed, outcomes: Mapping[str, Mapping[str, str]]) -> None:
    """Say how far the measure is."""
    failed = [step for step, outcome in outcomes.items() if outcome["fate"] == "fails"]
    print(f"{where}, {client.name}: {len(outcomes)} steps, failed: {failed}", file=sys.stderr)


def does(client: Installed, broker: RecordedBroker, run_id: str, step: str) -> bool:
    """Return whether a step works, at the second attempt at least."""
    attempts = (attempt(client, broker, each, [step]) for each in (run_id, f"{run_id}-again"))
    return any(outcomes[step]["fate"] == "works" for outcomes in attempts)


def run(client: Installed, broker: RecordedBroker, wanted: Sequence[str]) -> dict[str, dict[str, str]]:
    """Run the program of a client; return what became of each wanted step.

    What failed is run once more: a step works that works on a busy machine at the second attempt. Where a broker offers
    other versions and nothing works at all, it is not the machine.
    """
    steps = [step for step in wanted if step not in client.without | broker.without]
    outcomes = attempt(client, broker, client.run_id, steps)
    failed = [step for step, outcome in outcomes.items() if outcome["fate"] == "fails"]
    if failed and (broker.offer is None or len(failed) < len(steps)):
        outcomes |= attempt(client, broker, client.second_run_id, failed)
    return outcomes


def attempt(client: Installed, broker: RecordedBroker, run_id: str, steps: Sequence[str]) -> dict[str, dict[str, str]]:
    """Run some steps of a client with new topics and groups."""
    broker.prepare(run_id)
    command = [*client.command, broker.bootstrap, broker.sasl_bootstrap, run_id, *steps]
    try:
        done = subprocess.run(  # noqa: S603 - the programs of this folder
            command,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT,
            check=False,
            env={**(client.environment or os.environ), **broker.environment},
        )
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"{client.name} did not end: {late.stdout!r} {late.stderr!r}") from late
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    if missing := set(steps) - {line["step"] for line in lines}:
        raise RuntimeError(f"{client.name} on {broker.release} left out {sorted(missing)}: {done.stderr[-2000:]}")
    return {line["step"]: {**line, "why": line.get("why", "").replace(run_id, "TOPIC")} for line in lines}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
