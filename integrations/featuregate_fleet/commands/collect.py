"""``featuregate fleet collect``: cut a live log into files for ``run``."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK, UNKNOWN, CommandError, local_path_argument, positive_seconds, print_message
from featuregate_fleet.commands.options.tables import alone
from featuregate_fleet.commands.options.time_zones import time_zone
from featuregate_fleet.commands.stop_signals import stop_signals
from featuregate_fleet.evidence.paths import broker_of
from featuregate_fleet.files.bodies import cut_bodies
from featuregate_fleet.files.segments import Segmenter

if TYPE_CHECKING:
    from collections.abc import Callable

DESCRIPTION: Final = """\
Cut the live log of a broker on this host into files below DIR/ID, whole lines each, until SIGTERM or Ctrl-C. The log
must be rotated by renaming, which is what Kafka's own configuration does. A restart goes on where the last run ended.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``collect``."""
    parser.add_argument(
        "--log", metavar="FILE", type=local_path_argument, required=True, help="the file to which the broker appends"
    )
    parser.add_argument("--broker", metavar="ID", type=_broker, required=True, help="the node id of the broker")
    parser.add_argument(
        "--logs", metavar="DIR", type=local_path_argument, required=True, help="takes files below DIR/ID"
    )
    parser.add_argument("--once", action="store_true", help="collect what is there, and end")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=60.0,
        help="write a file this often (default: 60)",
    )
    less = parser.add_mutually_exclusive_group()
    less.add_argument("--cut-bodies", action="store_true", help="leave out the bodies of requests and responses")
    less.add_argument("--aggregate", action="store_true", help="count the requests by client, and hand in the counts")
    parser.add_argument(
        "--time-zone",
        metavar="ZONE",
        type=time_zone,
        default="UTC",
        help="with --aggregate, the zone in which the broker logs, such as Europe/Berlin (default: UTC)",
    )


def _broker(text: str) -> str:
    if broker_of(f"{text}/file") != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no node id")
    return text


def _change(args: argparse.Namespace) -> Callable[[bytes], bytes]:
    """Return what is done with the lines before they leave the host."""
    if args.aggregate:
        try:
            from featuregate_fleet.files.aggregation import aggregate  # noqa: PLC0415 - pyarrow
        except ImportError as error:
            raise CommandError("--aggregate needs pyarrow: pip install '.[fleet]' in a checkout") from error
        return partial(aggregate, time_zone=args.time_zone)
    return cut_bodies if args.cut_bodies else bytes


def run(args: argparse.Namespace) -> int:
    """Collect until the interrupt, or once."""
    folder = args.logs / args.broker
    try:
        folder.mkdir(parents=True, exist_ok=True)
        segmenter = Segmenter(args.log, folder, _change(args))
        with alone(folder / ".lock", f"another process collects into {folder}: end it first"), closing(segmenter):
            if not args.log.is_file():
                print_message(f"{args.log}: there is no such file yet")
            with stop_signals() as stop:
                while True:
                    for name in segmenter.collect():
                        print(folder / name, flush=True)
                    if args.once or stop.wait(args.interval):
                        return OK
    except OSError as error:
        raise CommandError(f"the log cannot be collected: {error}", UNKNOWN) from error
