"""``featuregate group``: what operators ask and do about a group. Light: clients are imported when they are needed."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import (
    FAILED,
    OK,
    UNKNOWN,
    USAGE,
    CommandError,
    CommandHelp,
    add_cluster_options,
    add_output,
    configuration,
    configuration_of_change,
    discover_view,
    excluded_apis,
    option,
    printable,
    silence_log,
)
from featuregate.gating.decisions import evaluate
from featuregate.requirements.presets import kip447
from featuregate.version import how_to_install
from featuregate_confluent.models import Model

if TYPE_CHECKING:
    from featuregate_confluent.client.committed import CommittedOffset, PartitionProgress
    from featuregate_confluent.client.group import GroupReader
    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.operator.rollback import RollbackPlan

GATE: Final = "kip447"
"""The gate whose latch this is: part of the latch topic's keys."""
_SECONDS: Final = 15.0
_WATCH_SECONDS: Final = 5.0
_LONGEST_WATCH: Final = 3600.0
_LOWER: Final = ("bridge", "legacy")

HELP: Final = CommandHelp(
    "show and roll back the exactly-once model of a consumer group",
    """\
Show in which exactly-once model (legacy, bridge, v2) the members of a consumer group commit, and what holds it back
from v2; or take the group's latch back, so that its members may go down to a lower model. Needs the extra 'confluent'.

'featuregate group rollback --help' says what has to be done before.""",
    (
        "group show --group orders --bootstrap-server localhost:9092",
        "group show --group orders --latch-topic latches --bootstrap-server localhost:9092 --output json",
        "group rollback --group orders --to bridge --dry-run --bootstrap-server localhost:9092",
    ),
    "0 done, 1 refused and nothing changed, 2 the group or the brokers cannot be read, or not all done, 64 wrong usage",
)

_ROLLBACK: Final = """\
Lower the mark in the metadata of each committed offset of an EMPTY group, at the same offset, and erase the group's
latch in the latch topic. The command prints warnings first, and asks for the group's name on a terminal; elsewhere
--confirm gives it.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``show`` and ``rollback``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    show = actions.add_parser("show", help="show latch, marks, members, and what holds the group back from v2")
    rollback = actions.add_parser("rollback", help="take the latch of an empty group back", description=_ROLLBACK)
    rollback.add_argument("--to", choices=_LOWER, required=True, help="the highest model that a mark may say then")
    rollback.add_argument("--dry-run", action="store_true", help="say what would be changed, and change nothing")
    rollback.add_argument(
        "--confirm", metavar="GROUP", help="the group's name once more, where there is no terminal to ask"
    )
    show.add_argument(
        "--watch",
        metavar="SECONDS",
        type=_seconds_of_watch,
        default=_WATCH_SECONDS,
        help="where messages wait, look again after SECONDS which offsets have moved; 0: look once (default: 5)",
    )
    for action in (show, rollback):
        action.add_argument("--group", metavar="GROUP", required=True, help="the consumer group")
        option(action, "--latch-topic TOPIC", "the compacted topic that keeps its latch")
        add_output(action, "lines, or one JSON object")
        add_cluster_options(action, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    if args.bootstrap_controller:
        raise CommandError("group asks brokers: give --bootstrap-server")
    try:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError(f"group needs confluent-kafka: {how_to_install('confluent')}") from None
    silence_log()
    try:
        return _show(args) if args.action == "show" else _rollback(args)
    except KafkaException as error:  # of a client that could not be made; what brokers say has other names
        raise CommandError(f"confluent-kafka refuses this configuration: {error.args[0].str()}") from error


def _show(args: argparse.Namespace) -> int:
    from featuregate_confluent.client.group import GroupReader  # noqa: PLC0415 - an extra
    from featuregate_confluent.operator.overview import Overview, to_json, to_text  # noqa: PLC0415 - likewise

    config, seconds = _clients_config(args), _seconds(args)
    latch_topic = _latch_topic(args, config)
    with closing(GroupReader(config, args.group)) as reader:
        seen, offsets = reader.members(seconds), reader.offsets(timeout=seconds)
        progress, seen_at = _watch(reader, {*offsets, *seen.owners}, offsets, watch=args.watch, timeout=seconds)
        found = Overview(
            group=args.group,
            seen=seen,
            offsets=offsets,
            progress=progress,
            seen_at=seen_at,
            latch_topic=args.latch_topic,
            latch_in_topic=None if latch_topic is None else latch_topic.read(seconds),
            gate=evaluate(discover_view(args), kip447, exclude_apis=excluded_apis(args)),
        )
    if found.seen.state == "dead" and not found.offsets and found.latch_in_topic is None:
        problem = "brokers know no such group: check its name; they forget a group some time after its last offset"
        raise CommandError(f"group {args.group}: {problem}", UNKNOWN)
    print(json.dumps(to_json(found), indent=2) if args.output == "json" else to_text(found))
    return OK


def _watch(
    reader: GroupReader,
    partitions: Collection[Partition],
    offsets: Mapping[Partition, CommittedOffset],
    *,
    watch: float,
    timeout: float,
) -> tuple[dict[Partition, PartitionProgress], float]:
    """Look twice at the offsets and ends of a group that has something to consume."""
    from featuregate_confluent.client.committed import observe  # noqa: PLC0415 - an extra

    began = time.monotonic()
    committed = {key: offset for key, (offset, _) in offsets.items()}
    progress = observe({}, committed, reader.ask_ends(partitions, timeout).result(), began)
    if watch > 0 and any(each.lag or each.lag is None for each in progress.values()):
        time.sleep(watch)
        later = {key: offset for key, (offset, _) in reader.offsets(partitions, timeout).items()}
        progress = observe(progress, later, reader.ask_ends(partitions, timeout).result(), time.monotonic())
    return progress, time.monotonic() if watch > 0 else began


def _rollback(args: argparse.Namespace) -> int:
    from featuregate_confluent.operator.rollback import Rollback, RollbackRefused  # noqa: PLC0415 - an extra

    if args.confirm is not None and args.confirm != args.group:
        raise CommandError(f"--confirm says {args.confirm!r}, but the group is {args.group!r}: nothing was changed")
    config, target = _clients_config(args), Model[args.to.upper()]
    rollback = Rollback.connect(
        config, args.group, to=target, latch_topic=_latch_topic(args, config), timeout=_seconds(args)
    )
    for line in rollback_warnings(args.to, latch_in_topic=args.latch_topic is not None):
        print(line, file=sys.stderr)
    try:
        with closing(rollback):
            plan = rollback.plan()
            done = not plan.empty and not args.dry_run
            if done:
                _require_consent(args, plan)
                rollback.carry_out(plan)
    except RollbackRefused as refused:
        raise CommandError(str(refused), FAILED) from refused
    print(json.dumps(_to_json(args, plan, done=done), indent=2) if args.output == "json" else _to_text(args, plan))
    return OK


def rollback_warnings(target: str, *, latch_in_topic: bool) -> Iterator[str]:
    """Yield what an operator must know and do before a rollback, line by line."""
    yield f"Before this group goes back to {target}:"
    yield "  1. Stop every member. Then deploy them with the model pinned (KIP-584: downgrade the clients first), as"
    yield f'     model="{target}". Members with model="auto" climb again as soon as all brokers allow it.'
    yield "  2. Wait until no transaction of a dead member is open: transaction.timeout.ms, and 10 s more."
    yield "  3. Make sure that no member is merely paused (a suspended machine, a lost network): the group has removed"
    yield "     it, and it resumes as a zombie of the v2 model. Brokers stop it only as long as all of them check the"
    yield "     group's generation (2.5 and newer): downgrade brokers later, or its outputs may be there twice."
    if not latch_in_topic:
        yield "  4. If the group has a latch topic, name it with --latch-topic: members would read the old latch there."


def _require_consent(args: argparse.Namespace, plan: RollbackPlan) -> None:
    if args.confirm is not None:
        return
    if not sys.stdin.isatty():
        raise CommandError(
            f"there is no terminal to ask for confirmation: add --confirm {args.group} (or --dry-run)", USAGE
        )
    for line in _changes(args, plan):
        print(line, file=sys.stderr)
    print("Type the group's name to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != args.group:
        raise CommandError("that is not its name: nothing was changed", FAILED)


def _to_text(args: argparse.Namespace, plan: RollbackPlan) -> str:
    if plan.empty:
        head = f"group {args.group}: nothing to do: no mark is above {args.to} in the {plan.offsets} offsets shown"
    elif args.dry_run:
        head = f"group {args.group} would go back to {args.to}:"
    else:
        head = f"group {args.group} is back at {args.to}; read back:"
    return "\n".join([printable(head), *_changes(args, plan)])


def _changes(args: argparse.Namespace, plan: RollbackPlan) -> Iterator[str]:
    for change in plan.changes:
        topic, number = change.partition
        before = change.before.model.label if change.before.model is not None else "none"
        yield printable(f"  {topic}[{number}] at offset {change.offset}: {before} -> {args.to}")
    if plan.latch_in_topic:
        yield printable(f"  latch topic {args.latch_topic}: its records of this group -> erased")


def _to_json(args: argparse.Namespace, plan: RollbackPlan, *, done: bool) -> dict[str, Any]:
    return {
        "group": args.group,
        "to": args.to,
        "done": done,
        "dry_run": args.dry_run,
        "offsets_seen": plan.offsets,
        "offsets": [
            {
                "topic": change.partition[0],
                "partition": change.partition[1],
                "offset": change.offset,
                "before": None if change.before.model is None else change.before.model.label,
                "after": args.to,
                "text": change.after.app_metadata or None,
            }
            for change in plan.changes
        ],
        "latch_topic": None if args.latch_topic is None else {"topic": args.latch_topic, "erase": plan.latch_in_topic},
    }


def _clients_config(args: argparse.Namespace) -> dict[str, Any]:
    from featuregate_librdkafka.client_properties import client_properties  # noqa: PLC0415 - an extra

    changes = args.action == "rollback" and not args.dry_run
    return client_properties(configuration_of_change(args) if changes else configuration(args))


def _latch_topic(args: argparse.Namespace, config: dict[str, Any]) -> LatchTopic | None:
    from featuregate_confluent.client.latch_topic import LatchTopic  # noqa: PLC0415 - an extra

    return LatchTopic(args.latch_topic, config, group=args.group, gate=GATE) if args.latch_topic else None


def _seconds(args: argparse.Namespace) -> float:
    return float(args.timeout or _SECONDS)


def _seconds_of_watch(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_WATCH:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 0 to {_LONGEST_WATCH:g}, not {text!r}")
    return seconds
