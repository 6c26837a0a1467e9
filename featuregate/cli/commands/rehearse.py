"""``rehearse``: a move, carried out on a small cluster of this machine, and a runbook of what was seen."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.cli.commands.sandbox import interruptible
from featuregate.cli.exit_codes import UNKNOWN, CommandError
from featuregate.cli.output import print_message
from featuregate.config.properties import overridden
from featuregate.config.properties_file import read_properties
from featuregate.errors import LocalKafkaError
from featuregate.files import replace_file
from featuregate.printable import printable
from featuregate.version import how_to_install

_EXTRAS: Final = {"confluent_kafka": "confluent", "jgo": "testing", "psutil": "testing"}

try:
    import jgo  # noqa: F401 - downloads Kafka

    from featuregate.rehearsal.apps import READABLE, AppProcesses, clean_environment
    from featuregate.rehearsal.original import OriginalCluster, from_cluster, from_file
    from featuregate.rehearsal.rehearsal import SNAPSHOT, Rehearsal, add_ways_back, route
    from featuregate.rehearsal.runbook import EXIT_CODES, RehearsalStep, Runbook
    from featuregate.rehearsal.state import create_acls
    from featuregate.rehearsal.watch import AppWatch
    from featuregate.testing import LocalKafka
    from featuregate.testing.local_kafka.topics import create_topics
except ModuleNotFoundError as error:
    if error.name not in _EXTRAS:
        raise
    raise CommandError(f"a rehearsal needs {error.name}: {how_to_install(_EXTRAS[error.name])}") from error

if TYPE_CHECKING:
    import argparse

_NEVER_COPIED: Final = "its load, its storage, its plugins, the quotas of its users and clients"
_NOTHING_COPIED: Final = "its settings, security, ACLs and levels: the cluster had those of a new one of its release"
_NOT_SHOWN: Final = "the addresses that apps connect to, which this system does not show"


def run(args: argparse.Namespace) -> int:
    """Carry out the move, write the runbook, and return the exit code of its verdict."""
    _check_app_options(args)
    original = _original(args)
    releases = route(args.start or original.version, args.target, args.via)
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--folder {args.folder}: it cannot be made: {error.strerror}") from error
    nothing = () if original.properties or original.levels else (_NOTHING_COPIED,)
    unwatched = [*sorted(original.unwatched), *([] if READABLE else [_NOT_SHOWN])] if args.app else []
    unseen = [f"{each}: an app that reaches the real cluster there is not seen" for each in unwatched]
    not_copied = (*nothing, *original.not_copied, *unseen, _NEVER_COPIED)
    apps = (args.app, args.input, args.output, args.record, args.env)
    conditions = repr((args.nodes, args.controllers, apps, replace(original, peers=set(), unwatched=set()))).encode()
    runbook = Runbook(releases=releases, conditions=hashlib.sha256(conditions).hexdigest(), not_copied=not_copied)
    kept = args.folder / "runbook.json"
    if kept.exists():
        try:
            runbook.go_on_from(json.loads(kept.read_text()))
        except (ValueError, LookupError, TypeError) as error:
            raise CommandError(f"{kept} is not a runbook: move it away, or name another --folder") from error
        if runbook.reached is None:
            print_message(f"the runbook in {args.folder} has nothing to go on from: it is replaced")
        else:
            print_message(f"{runbook.reached.steps} steps are in {args.folder} already: it goes on from there")
    print_message(f"each of {args.nodes + args.controllers} nodes needs about 700 MB of memory; Ctrl-C ends everything")
    try:
        with interruptible():
            _rehearse(args, runbook, original)
    except LocalKafkaError as error:
        raise CommandError(error.in_one_line, UNKNOWN) from error
    except KeyboardInterrupt:
        runbook.ended = runbook.ended or "it was stopped"
        print_message(f"it was stopped; {args.folder / 'runbook.md'} has the steps until then")
        raise
    finally:
        _write(args, runbook)
    print(printable(f"{runbook.title}{f': {runbook.ended}' if runbook.ended else ''}"))
    print(f"the runbook: {args.folder / 'runbook.md'}")
    return EXIT_CODES[runbook.verdict]


def _original(args: argparse.Namespace) -> OriginalCluster:
    """Read what there is of the real cluster."""
    if args.from_cluster is None:
        if args.start is None:
            raise CommandError("a rehearsal begins --from a release, or as --from-cluster says")
        if args.properties:
            return from_file(args.properties, args.nodes)
        return OriginalCluster(unwatched={"the addresses of its brokers, which no option names"})
    if args.properties:
        raise CommandError("--properties is for a rehearsal without --from-cluster, which says the same and more")
    config = read_properties(args.from_config) if args.from_config else {}
    topics = [each[0] for each in (args.input, args.output) if each is not None]
    return from_cluster(overridden(config, {"bootstrap.servers": args.from_cluster}), topics, args.nodes)


def _check_app_options(args: argparse.Namespace) -> None:
    for option, file in (("--html", args.html), ("--command-config", args.command_config)):
        if file and (file.is_dir() or not file.parent.is_dir()):
            raise CommandError(f"{option} {file}: this is a folder, or is in a folder that does not exist")
    if (args.input is None) is not (args.output is None):
        raise CommandError("--in and --out go together: records that are sent to one are looked for in the other")
    if args.input and args.input[0] == args.output[0]:
        raise CommandError("--in and --out name one topic: what is sent there would count as come out")
    if args.input and not args.app:
        raise CommandError("--in and --out need an --app that takes records from one to the other")
    if missing := [name for name in args.env if name not in os.environ]:
        raise CommandError(f"--env {missing[0]}: there is no such variable")
    if args.command_config and args.command_config.exists():
        raise CommandError(f"--command-config {args.command_config}: this file exists, and would be replaced")
    if args.app and not READABLE and not args.yes:
        problem = "this system does not show whom the app is connected to, so nobody sees that it reaches other brokers"
        raise CommandError(f"{problem}: --yes runs it all the same")


def _rehearse(args: argparse.Namespace, runbook: Runbook, original: OriginalCluster) -> None:
    def show(step: RehearsalStep) -> None:
        _write(args, runbook)
        print(f"{step.verdict:<7}  {step.name} ({step.seconds:.0f} s{f'; {step.counts}' if step.counts else ''})")
        for finding in step.findings:
            print(printable(f"  {finding.verdict:<7}  {finding.text}"), flush=True)

    def carry_out(into: Runbook, *, back: bool) -> None:
        with _kafka(args, into, original, back=back) as kafka:
            create_acls(kafka, original.acls)
            with _apps(args, kafka, original) as watch:
                one = Rehearsal(kafka=kafka, runbook=into, watch=watch, on_begin=print_message, on_step=show, back=back)
                one.carry_out()

    carry_out(runbook, back=False)
    if args.back:
        second = Runbook(releases=runbook.releases, ended="it was stopped")
        try:
            carry_out(second, back=True)
        except LocalKafkaError as error:
            second.ended = error.in_one_line
            raise
        finally:
            add_ways_back(runbook, second)


def _kafka(args: argparse.Namespace, runbook: Runbook, original: OriginalCluster, *, back: bool) -> LocalKafka:
    version, begin = runbook.releases[0], original
    if runbook.reached is not None:
        version, begin = runbook.reached.release, replace(original, levels=runbook.reached.levels)
    kafka = LocalKafka(
        version,
        nodes=args.nodes,
        controllers=args.controllers,
        security=original.security[0],
        sasl_mechanism=original.security[1],
        properties={**(SNAPSHOT if back else {}), **original.authorizer(version)},
        broker_properties=original.properties,
        start_timeout=args.step_timeout,
        **begin.format_options(version),
    )
    for release in runbook.releases[1:]:
        kafka.prepare(release)
    return kafka


@contextmanager
def _apps(args: argparse.Namespace, kafka: LocalKafka, original: OriginalCluster) -> Iterator[AppWatch | None]:
    """Create the topics, write the file of the client, and start the apps."""
    if not args.app:
        yield None
        return
    config, topics = kafka.client_config(), None
    if args.input:
        source, target = ((name, original.partitions.get(name, count)) for name, count in (args.input, args.output))
        topics = source, target
        create_topics(config, dict(topics), brokers=len(kafka.nodes), configs=original.topics)
    if args.command_config:
        args.command_config.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    small = {(node.host, port) for node in map(kafka.node, kafka.nodes) for port in (node.port, node.internal_port)}
    apps = AppProcesses(args.app, clean_environment(os.environ, args.env, kafka.bootstrap), small, original.peers)
    try:
        with AppWatch(kafka, apps, topics, record=args.record, rate=args.rate, timeout=args.step_timeout) as watch:
            watch.start(args.start_timeout)
            yield watch
    except (KeyboardInterrupt, LocalKafkaError):  # a process that was killed for it has ended, too
        if apps.strayed:
            raise CommandError(apps.strayed, UNKNOWN) from None
        raise
    finally:
        if args.command_config:  # of a cluster that is gone, and in the way of a second start
            args.command_config.unlink(missing_ok=True)


def _write(args: argparse.Namespace, runbook: Runbook) -> None:
    replace_file(args.folder / "runbook.md", runbook.to_markdown())
    replace_file(args.folder / "runbook.json", json.dumps(runbook.to_json(), indent=2) + "\n")
    if args.html:
        replace_file(args.html, runbook.to_html())
