"""``sandbox``: a cluster on this machine to try things on, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import captured_as, captured_releases, close_to, release_of
from featuregate.cli.exit_codes import OK, UNKNOWN, CommandError
from featuregate.cli.output import print_message
from featuregate.cli.updates import name_and_level
from featuregate.errors import LocalKafkaError
from featuregate.version import how_to_install

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


_SOON: Final = {"metadata.log.max.snapshot.interval.ms": 20_000}
"""Without a snapshot after a level was lowered older software does not start; by default one is written in an hour."""


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
        raise CommandError(f"--features: {error}") from error
    _check_levels(args.version, levels)
    if args.pause and args.roll_to is None:
        raise CommandError("--pause needs --roll-to, the release between whose steps it asks")
    topics = {name: 1 for name, _ in args.records} | dict(args.topic)
    if args.fake and topics:
        raise CommandError("--topic and --records need real Kafka: leave out --fake")
    if topics and find_spec("confluent_kafka") is None:
        raise CommandError(f"--topic and --records need confluent-kafka: {how_to_install('confluent')}")
    try:
        with interruptible(), (_fake if args.fake else _real)(args, levels) as sandbox:
            _fill(args, topics, sandbox)
            print(_welcome(args, sandbox, topics), flush=True)
            if args.pause:
                _practise(sandbox, args.version, args.roll_to)
            elif args.roll_to is not None:
                _roll(sandbox, args.roll_to)
            while True:
                time.sleep(3600)  # no lock of Python's: a second Ctrl-C amid its release would fail in its own way
    except (KeyboardInterrupt, EOFError):  # EOFError: Ctrl-D, where it waits for Enter
        pass
    except LocalKafkaError as error:
        raise CommandError(error.in_one_line, UNKNOWN) from error
    return OK


def _check_levels(version: str, levels: Mapping[str, int]) -> None:
    """Refuse levels that the release does not have, where brokers of it were captured. Raises `CommandError`."""
    if (known := captured_as(version)) is None:
        return
    for name, level in levels.items():
        if name not in known.features:
            meant = close_to(name, known.features)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            raise CommandError(f"--features: Kafka {version} has no feature {name}{hint}")
        lowest, highest = known.features[name]
        if not lowest <= level <= highest:
            raise CommandError(f"--features: Kafka {version} has {name} {lowest} to {highest}, not {level}")


@contextmanager
def interruptible() -> Iterator[None]:
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
            kafka = LocalKafka(
                args.version, nodes=args.nodes, port=args.port, features=levels, properties=_SOON if args.pause else {}
            )
        if args.roll_to is not None:
            kafka.prepare(args.roll_to)
        print_message(f"starting {_brokers(args.nodes)} of Kafka {args.version}; the first time, jars are downloaded")
        with kafka:
            logs = {node: kafka.node(node).log for node in kafka.nodes}
            yield _Sandbox(kafka.bootstrap, kafka.nodes, kafka.roll, logs, kafka.controller_bootstrap)
    except ImportError as error:
        what = f"a sandbox of real Kafka needs {error.name}; --fake needs nothing"
        raise CommandError(f"{what}: {how_to_install('testing')}") from error


def _fill(args: argparse.Namespace, topics: Mapping[str, int], sandbox: _Sandbox) -> None:
    """Create the topics and write the records that the options name."""
    if not topics:
        return
    from featuregate.testing.local_kafka.topics import create_topics, write_records  # noqa: PLC0415 - an extra

    config = {"bootstrap.servers": sandbox.bootstrap}
    create_topics(config, topics, brokers=len(sandbox.nodes))
    for name, count in args.records:
        write_records(config, name, count)


@contextmanager
def _fake(args: argparse.Namespace, levels: Mapping[str, int]) -> Iterator[_Sandbox]:
    from featuregate.testing import FakeCluster  # noqa: PLC0415 - only this command needs it

    for version in (args.version, args.roll_to):
        if version is not None and release_of(version) not in captured_releases():
            raise CommandError(f"there are no fake brokers of {version}, but of {', '.join(captured_releases())}")
    cluster = FakeCluster(args.nodes, release=release_of(args.version), port=args.port)
    with _taking_ports(args):
        cluster.start()
    with cluster:
        if levels:
            cluster.finalize({**cluster.finalized, **levels})

        def roll(node_id: int, version: str) -> None:
            cluster.roll(node_id, release_of(version))
            if problem := cluster.broker(node_id).problem:
                raise LocalKafkaError(f"broker {node_id} does not start: {problem}")

        yield _Sandbox(cluster.bootstrap, tuple(broker.node_id for broker in cluster.brokers), roll, {})


def _brokers(count: int) -> str:
    return f"{count} broker{'s' if count > 1 else ''}"


def _welcome(args: argparse.Namespace, sandbox: _Sandbox, topics: Mapping[str, int]) -> str:
    address = f"localhost:{args.port}"
    counts = Counter[str]()
    for name, count in args.records:
        counts[name] += count
    made = [f"topic {name}: partitions: {parts}, records: {counts[name]}" for name, parts in topics.items()]
    made += [f"controllers: {sandbox.controllers}"] if sandbox.controllers else []
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


def _roll(sandbox: _Sandbox, version: str) -> None:
    """Upgrade one broker after the other; on a terminal, when the user says so."""
    if sys.stdin is not None and sys.stdin.isatty():
        input(f"Press Enter to roll the brokers to {version}: ")
    for node_id in sandbox.nodes:
        print(f"broker {node_id} stops, and starts with {version}", flush=True)
        sandbox.roll(node_id, version)
    _say_what_comes_next(sandbox, version)


def _say_what_comes_next(sandbox: _Sandbox, version: str) -> None:
    controllers = f" --controllers {sandbox.controllers}" if sandbox.controllers else ""
    plan = f"featuregate plan upgrade --release-version {release_of(version)} --bootstrap-server {sandbox.bootstrap}"
    said = f"all brokers run {version}; finalized levels stay as they are; what comes next: {plan}{controllers}"
    print(said, flush=True)


def _practise(sandbox: _Sandbox, old: str, new: str) -> None:
    """Move one broker at each word of the user, ``next`` or ``back``, until the word is ``stop``."""
    rolled = 0
    while (word := _asked(len(sandbox.nodes), rolled, new)) != "stop":
        node_id, other, version = (
            (sandbox.nodes[rolled], old, new) if word == "next" else (sandbox.nodes[rolled - 1], new, old)
        )
        print(f"broker {node_id} stops, and starts with {version}", flush=True)
        try:
            sandbox.roll(node_id, version)
        except LocalKafkaError as error:
            print_message(f"{error.in_one_line}; so it starts with {other} again")
            sandbox.roll(node_id, other)
            continue
        rolled += 1 if word == "next" else -1
        if rolled == len(sandbox.nodes):
            _say_what_comes_next(sandbox, new)
    print("Ctrl-C ends it, and deletes its files.", flush=True)


def _asked(nodes: int, rolled: int, new: str) -> str:
    """Ask for one of the words that make sense, of which the first letter will do; the end of input is ``stop``."""
    words = [*(["next"] if rolled < nodes else []), *(["back"] if rolled else []), "stop"]
    while True:
        print(f"{rolled} of {nodes} brokers run {new}; {', '.join(words)}? ", end="", flush=True)
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line:
            print()
            return "stop"
        given = line.strip().lower()
        if found := [word for word in words if given and word.startswith(given)]:
            return found[0]
