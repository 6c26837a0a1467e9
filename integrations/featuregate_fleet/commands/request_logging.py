"""``featuregate fleet logging``: turn the request logs of brokers on and off, and say at which level they are."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import (
    OK,
    UNKNOWN,
    CommandError,
    add_cluster_options,
    argument,
    configuration,
    configuration_of_change,
    option,
    print_message,
    printable,
    silence_log,
)
from featuregate.errors import BrokerError
from featuregate_fleet.commands.options.metrics import duration
from featuregate_fleet.commands.stop_signals import stop_signals

if TYPE_CHECKING:
    from featuregate.admin.loggers import BrokerLogLevel, LogLevels

DESCRIPTION: Final = """\
Set the level of the logger kafka.request.logger on each broker, one after another, while it runs. At debug a broker
logs every request. On a broker of ours with small requests a line had 1.3 kB: 110 GB a day for 1,000 requests a second.
At info brokers from 3.9.1 on log deprecated requests alone, which can block a move, but never show that it is safe.
'off' sets the level of Kafka's own configuration, WARN. A restarted broker has the level of its configuration again.
'status' needs DESCRIBE_CONFIGS on the cluster, 'on' and 'off' ALTER_CONFIGS, too. Brokers have it from 2.4 on.\
"""

_OFF: Final = "WARN"
_COSTS: Final = {
    "DEBUG": "Each broker writes a line for each request now. On a broker of ours with small requests a line had "
    "1.3 kB: 110 GB a day for 1,000 requests a second. Watch how the log grows on yours.",
    "INFO": "Brokers from 3.9.1 on log deprecated requests now, and older ones none.",
}
_CLUSTER_AUTHORIZATION_FAILED: Final = 31


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``logging``."""
    option(parser, "state", "what to do with the request logs", choices=("on", "off", "status"), metavar=None)
    level = "which requests are logged (default: debug)"
    option(parser, "--level", level, type=str.lower, choices=("info", "debug"))
    wait = "wait for TIME, such as 90s, 30m or 1h, and take it back then, or at SIGTERM or Ctrl-C"
    time = partial(duration, units="smhd", longest=timedelta(days=30), such_as="90s, 30m, 1h or 2d")
    option(parser, "--for TIME", wait, type=argument(time), dest="time")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Read or change the level of each broker."""
    if args.state != "on" and (args.level or args.time):
        raise CommandError(f"fleet logging {args.state} takes neither --level nor --for: they are for 'on'")
    if args.bootstrap_controller or args.broker_list == "bootstrap":
        raise CommandError("fleet logging needs the ids of the brokers: give --bootstrap-server and no --broker-list")
    silence_log()
    from featuregate.admin.loggers import LogLevels  # noqa: PLC0415 - asyncio, which help does not need

    levels = LogLevels(configuration(args) if args.state == "status" else configuration_of_change(args))
    failed: list[int] = []
    match args.state:
        case "on":
            _turn_on(levels, (args.level or "debug").upper(), args.time, failed)
        case "off":
            verbose = [broker for broker, level in _answered(levels.read(), failed) if _more(level, _OFF)]
            _change(levels, dict.fromkeys(verbose, _OFF), failed)
        case _:
            for broker, level in _answered(levels.read(), failed):
                print(f"broker {broker}: {level}", flush=True)
    if failed:
        raise CommandError(f"brokers that failed: {', '.join(map(str, sorted(set(failed))))}", UNKNOWN)
    return OK


def _turn_on(levels: LogLevels, level: str, time: timedelta | None, failed: list[int]) -> None:
    """Turn the log on where it is off, and with a time take back then what was changed."""
    before = dict(_answered(levels.read(), failed))
    for broker in sorted(broker for broker, at in before.items() if not _more(level, at)):
        print(f"broker {broker}: {before[broker]} already", flush=True)
    wanted = {broker: level for broker, at in before.items() if _more(level, at)}
    if time is None:
        if _change(levels, wanted, failed):
            print_message(_COSTS[level])
        return
    changed: list[int] = []
    with stop_signals() as stop:
        try:
            for broker, at in _answered(levels.change(wanted), failed):
                changed.append(broker)
                print(f"broker {broker}: {at}", flush=True)
                if stop.is_set():
                    return
            if changed:
                print_message(f"{_COSTS[level]} It ends in {time.total_seconds():.0f} s, or at Ctrl-C.")
                stop.wait(time.total_seconds())
        finally:  # a broker whose answer was lost may have changed its level, too
            _change(levels, {broker: before[broker] for broker in wanted if broker in {*changed, *failed}}, failed)


def _change(levels: LogLevels, wanted: dict[int, str], failed: list[int]) -> list[int]:
    changed = []
    for broker, level in _answered(levels.change(wanted), failed) if wanted else ():
        print(f"broker {broker}: {level}", flush=True)
        changed.append(broker)
    return changed


def _answered(results: Iterable[BrokerLogLevel], failed: list[int]) -> Iterator[tuple[int, str]]:
    """Yield each broker with its level; print a line for each that failed, and add it to ``failed``."""
    for one in results:
        if one.level is not None:
            yield one.broker, one.level
            continue
        failed.append(one.broker)
        denied = isinstance(one.failure, BrokerError) and one.failure.code == _CLUSTER_AUTHORIZATION_FAILED
        advice = " (reading needs DESCRIBE_CONFIGS on the cluster, changing ALTER_CONFIGS)" if denied else ""
        print_message(printable(f"broker {one.broker}: {one.failure}{advice}"))


def _more(level: str, than: str) -> bool:
    from featuregate.admin.loggers import LEVELS  # noqa: PLC0415 - likewise

    return LEVELS.index(level) > LEVELS.index(than)
