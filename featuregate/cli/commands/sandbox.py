"""``sandbox``: a cluster on this machine to try things on, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from featuregate.catalog import captured_releases, release_of
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN, USAGE, CommandError
from featuregate.cli.level_names import name_and_level
from featuregate.cli.output import print_message

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


class _Sandbox(NamedTuple):
    """A cluster that runs."""

    bootstrap: str
    nodes: tuple[int, ...]
    roll: Callable[[int, str], None]
    """Restarts one broker with another release."""
    logs: Mapping[int, Path]
    """The log of each real broker."""
    controllers: str = ""
    """The addresses of controllers that can be asked."""


def run(args: argparse.Namespace) -> int:
    """Start the cluster, roll it if asked to, and wait for Ctrl-C or SIGTERM."""
    try:
        levels = dict(name_and_level(text) for text in ",".join(args.features).split(",") if text)
    except CommandError as error:
        raise CommandError(f"--features: {error}", USAGE) from error
    topics = {name: 1 for name, _ in args.records} | dict(args.topic)
    if args.fake and topics:
        raise CommandError("--topic and --records need real Kafka: leave out --fake", USAGE)
    try:
        with _interruptible(), (_fake if args.fake else _real)(args, levels) as sandbox:
            _fill(args, topics, sandbox)
            print(_welcome(args, sandbox, topics), flush=True)
            if args.roll_to is not None:
                _roll(sandbox, args.roll_to)
            _wait_for_a_signal()
    except (KeyboardInterrupt, EOFError):  # EOFError: Ctrl-D, where it waits for Enter
        pass
    return OK


def _wait_for_a_signal() -> None:
    while True:
        time.sleep(3600)  # no lock of Python's: a second Ctrl-C amid its release would fail in its own way


@contextmanager
def _interruptible() -> Iterator[None]:
    """End by SIGTERM as by Ctrl-C: the cluster stops, and its files are deleted."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _taking_ports(args: argparse.Namespace) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        last = args.port + args.nodes - 1
        ports = f"port {args.port}" if args.nodes == 1 else f"the ports {args.port} to {last}"
        raise CommandError(f"{ports} cannot be used: {error.strerror}; give another --port", UNKNOWN) from error


@contextmanager
def _real(args: argparse.Namespace, levels: Mapping[str, int]) -> Iterator[_Sandbox]:
    try:
        from featuregate.testing import LocalKafka  # noqa: PLC0415 - an extra

        with _taking_ports(args):
            kafka = LocalKafka(args.version, nodes=args.nodes, port=args.port, features=levels)
        if args.roll_to is not None:
            kafka.prepare(args.roll_to)
        print_message(f"starting {_brokers(args.nodes)} of Kafka {args.version}; the first time, jars are downloaded")
        with kafka:
            logs = {node: kafka.node(node).log for node in kafka.nodes}
            yield _Sandbox(kafka.bootstrap, kafka.nodes, kafka.roll, logs, kafka.controller_bootstrap)
    except ImportError as error:
        problem = f"a sandbox of real Kafka needs the extra 'testing' ({error.name} is missing); --fake needs nothing"
        raise CommandError(problem, USAGE) from error


def _fill(args: argparse.Namespace, topics: Mapping[str, int], sandbox: _Sandbox) -> None:
    """Create the topics and write the records that the options name."""
    if not topics:
        return
    try:
        from featuregate.testing.local_kafka.topics import create_topics, write_records  # noqa: PLC0415 - an extra

        config = {"bootstrap.servers": sandbox.bootstrap}
        create_topics(config, topics, brokers=len(sandbox.nodes))
        for name, count in args.records:
            write_records(config, name, count)
    except ImportError as error:
        raise CommandError(
            f"--topic and --records need the extra 'confluent' ({error.name} is missing)", USAGE
        ) from error


@contextmanager
def _fake(args: argparse.Namespace, levels: Mapping[str, int]) -> Iterator[_Sandbox]:
    from featuregate.testing import FakeCluster  # noqa: PLC0415 - only this command needs it

    for version in (args.version, args.roll_to):
        if version is not None and release_of(version) not in captured_releases():
            raise CommandError(
                f"there are no fake brokers of {version}, but of {', '.join(captured_releases())}", USAGE
            )
    cluster = FakeCluster(args.nodes, release=release_of(args.version), port=args.port)
    with _taking_ports(args):
        cluster.start()
    with cluster:
        if levels:
            cluster.finalize({**cluster.finalized, **levels})

        def roll(node_id: int, version: str) -> None:
            cluster.roll(node_id, release_of(version))
            if problem := cluster.broker(node_id).problem:
                raise CommandError(f"broker {node_id} does not start: {problem}", FAILED)

        yield _Sandbox(cluster.bootstrap, tuple(broker.node_id for broker in cluster.brokers), roll, {})


def _brokers(count: int) -> str:
    return f"{count} broker{'s' if count > 1 else ''}"


def _welcome(args: argparse.Namespace, sandbox: _Sandbox, topics: Mapping[str, int]) -> str:
    address = f"localhost:{args.port}"
    counts = Counter[str]()
    for name, count in args.records:
        counts[name] += count
    made = [f"topic {name}: partitions: {parts}, records: {counts[name]}" for name, parts in topics.items()]
    made += [f"log of broker {node}: {log}" for node, log in sandbox.logs.items()]
    kind = "fake brokers: they tell what they can do, and take no records" if args.fake else "real Kafka"
    return f"""\
{_brokers(args.nodes)} of {args.version} ({kind}) at {sandbox.bootstrap}
{"".join(f"{line}{chr(10)}" for line in made)}
Try, in another terminal:
  featuregate describe --bootstrap-server {address}
  featuregate check kip848 --bootstrap-server {address}
  featuregate watch --gate groups=kip848 --bootstrap-server {address}

Ctrl-C ends it, and deletes its files."""


def _where(sandbox: _Sandbox) -> str:
    """Return the options that name the brokers, and the controllers where there are some to ask."""
    controllers = f" --controllers {sandbox.controllers}" if sandbox.controllers else ""
    return f"--bootstrap-server {sandbox.bootstrap}{controllers}"


def _roll(sandbox: _Sandbox, version: str) -> None:
    """Upgrade one broker after the other; on a terminal, when the user says so."""
    if sys.stdin is not None and sys.stdin.isatty():
        input(f"Press Enter to roll the brokers to {version}: ")
    for node_id in sandbox.nodes:
        print(f"broker {node_id} stops, and starts with {version}", flush=True)
        sandbox.roll(node_id, version)
    plan = f"featuregate plan upgrade --release-version {release_of(version)} {_where(sandbox)}"
    print(f"all brokers run {version}; finalized levels stay as they are; what comes next: {plan}", flush=True)
