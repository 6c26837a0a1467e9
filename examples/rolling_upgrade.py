"""Show how gates open during a real rolling upgrade of three Apache Kafka nodes from 3.9.2 to 4.2.0.

The brokers run on this machine. The script stops them and starts them again one by one with the newer release, and then
finalizes the features with an operator's commands. A gate opens when the last broker qualifies, and not before. The
table at the end shows what each stale broker answered meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import featuregate as fg
from featuregate.testing import LocalKafka

GATES = {
    # API ranges alone: open as soon as the last broker has been rolled.
    "newer-txn-apis": "TxnOffsetCommit>=5 & EndTxn>=5",
    # API ranges and a finalized level: open only once the operator has finalized the feature, too.
    "kip848": str(fg.presets.kip848),
    "kip890": str(fg.presets.kip890),
}
FEATURES = {"group.version": 1, "transaction.version": 2}
STEP_SECONDS = 240.0


@dataclass(frozen=True)
class Row:
    """One step of the upgrade."""

    step: str
    seconds: float
    gates: dict[str, str]
    stale: str


class Upgrade:
    """Upgrades the cluster, and records the gates after each step."""

    def __init__(self, features: fg.Discoverer) -> None:
        self.features = features
        self.gates = {name: features.gate(name, requirement) for name, requirement in GATES.items()}
        self.began = time.monotonic()
        self.rows: list[Row] = []

    def note(self, step: str) -> None:
        """Poll every broker, and record the gates and the brokers that keep them closed."""
        self.features.refresh(timeout=STEP_SECONDS)
        decisions = {name: gate.decision for name, gate in self.gates.items()}
        stale = next((_lacks(decision) for decision in decisions.values() if not decision.open), "")
        row = Row(
            step=step,
            seconds=time.monotonic() - self.began,
            gates={name: "OPEN" if decision.open else decision.verdict for name, decision in decisions.items()},
            stale=stale,
        )
        self.rows.append(row)
        say(f"{step}: " + ", ".join(f"{name} {state}" for name, state in row.gates.items()))

    def expect(self, **gates: bool) -> None:
        """Stop the demo if a gate is not as expected: a demo that cannot fail would prove nothing."""
        for name, is_open in gates.items():
            gate = self.gates[name.replace("_", "-")]
            if gate.open is not is_open:
                sys.exit(f"demo: gate {gate.name} should be {'open' if is_open else 'closed'} here: {gate.decision}")


def _lacks(decision: fg.Decision) -> str:
    """Return the first unmet condition of each broker that keeps a gate closed, one line for each broker."""
    lacks = [reason for reason in decision.reasons if reason.verdict != "open"]
    by_broker = {reason.node_id: reason for reason in reversed(lacks)}
    return "\n".join(f"{reason.condition}: {reason.text}" for reason in lacks if reason is by_broker[reason.node_id])


def say(text: str) -> None:
    """Print one line without buffering."""
    print(f"demo   | {text}", flush=True)


class Watch:
    """Runs `featuregate watch` meanwhile, as an operator would in another terminal."""

    def __init__(self, bootstrap: str) -> None:
        gates = [word for name, requirement in GATES.items() for word in ("--gate", f"{name}={requirement}")]
        command = [sys.executable, "-m", "featuregate", "watch", "--bootstrap-server", bootstrap, "--interval", "2"]
        self._process = subprocess.Popen([*command, *gates], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
        self._seen: list[str] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    def _relay(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(f"watch  | {line}", end="", flush=True)
            with self._changed:
                self._seen.append(line)
                self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until the command has printed a line with this text: it polls by itself, later than the script."""
        with self._changed:
            if not self._changed.wait_for(lambda: any(text in line for line in self._seen), STEP_SECONDS):
                sys.exit(f"demo: `featuregate watch` should have printed a line with {text!r} by now")

    def close(self) -> None:
        """Stop the command, and print the rest of its output."""
        self._process.terminate()
        self._process.wait(STEP_SECONDS)
        self._thread.join(STEP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def run(old: str, new: str) -> list[Row]:
    """Start, watch, roll and finalize; return one row for each step."""
    say(f"starting three real Kafka {old} nodes")
    with LocalKafka(old, nodes=3) as kafka:
        watch = Watch(kafka.bootstrap)
        try:
            with fg.Discoverer(kafka.client_config(), interval=2) as features:
                rows = upgrade(kafka, Upgrade(features), old, new)
            for name in GATES:
                watch.wait_for(f"gate {name}: open")
        finally:
            watch.close()
    return rows


def upgrade(kafka: LocalKafka, story: Upgrade, old: str, new: str) -> list[Row]:
    """Roll node after node, then finalize, and check the gates at each step."""
    story.note(f"all nodes run {old}")
    story.expect(newer_txn_apis=False, kip848=False, kip890=False)
    nodes = list(kafka.nodes)
    for node in nodes:
        kafka.stop(node)
        story.note(f"node {node} is down")
        story.expect(newer_txn_apis=False)
        kafka.roll(node, new)
        if node != nodes[-1]:
            story.note(f"node {node} runs {new}")
            story.expect(newer_txn_apis=False, kip848=False, kip890=False)
    if not story.gates["newer-txn-apis"].wait(STEP_SECONDS):
        sys.exit(f"demo: every node runs {new}, and still: {story.gates['newer-txn-apis'].decision}")
    story.note(f"node {nodes[-1]} runs {new}")
    story.expect(newer_txn_apis=True, kip848=False, kip890=False)
    say(f"the operator finalizes {new}, and with it {FEATURES}")
    finalize(kafka, new)
    for gate in story.gates.values():
        gate.wait(STEP_SECONDS)
    story.note("the features are finalized")
    story.expect(newer_txn_apis=True, kip848=True, kip890=True)
    return story.rows


def finalize(kafka: LocalKafka, new: str) -> None:
    """Run the operator's command, and again while the controller refuses it.

    A node that runs again answers clients before its controller has registered the new release (KIP-919).
    """
    ends = time.monotonic() + STEP_SECONDS
    release = ".".join(new.split(".")[:2])
    while (done := kafka.kafka_features("upgrade", "--release-version", release, version=new)).returncode:
        if time.monotonic() > ends:
            sys.exit(f"demo: kafka-features did not finalize {release}: {done.stderr or done.stdout}")


def print_table(rows: list[Row]) -> None:
    """Print a row for each step, with a column for each gate."""
    table = Table(title="What the gates said, step by step", title_justify="left")
    table.add_column("seconds", justify="right")
    table.add_column("step")
    for name in GATES:
        table.add_column(name)
    table.add_column("what held them back", overflow="fold")
    for row in rows:
        states = [f"[green]{state}[/]" if state == "OPEN" else state for state in row.gates.values()]
        table.add_row(f"{row.seconds:.1f}", row.step, *states, escape(row.stale))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def main() -> None:
    """Run the upgrade, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", default="3.9.2", help="the release to start with (default: %(default)s)")
    parser.add_argument("--new", default="4.2.0", help="the release to roll to (default: %(default)s)")
    options = parser.parse_args()
    rows = run(options.old, options.new)
    print_table(rows)


if __name__ == "__main__":
    main()
