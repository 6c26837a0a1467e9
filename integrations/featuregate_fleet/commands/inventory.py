"""``featuregate inventory``: list which software uses the brokers, by their metrics or by the table of a cluster."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import OK, CommandHelp, add_output, aligned, printable
from featuregate.jars.progress import shown_on_a_terminal
from featuregate.printable import some
from featuregate_fleet.commands.options.metrics import WEEK, add_metrics_options, add_since, begin, read_evidence
from featuregate_fleet.commands.options.tables import (
    add_tables_options,
    check_one_evidence,
    existing_tables,
    needs_extra,
    spark_session,
)
from featuregate_fleet.readiness.hours import HOUR, hour_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from featuregate_fleet.metrics.evidence import BrokerCoverage, MetricsEvidence, SoftwareUse

HELP: Final = CommandHelp(
    "list which software uses the brokers, from their metrics or from the table of a cluster",
    """\
List the software that is connected to the brokers, with its releases and the listeners that it uses, and which release
the brokers run at least. Of a Prometheus or a table, a chart shows when which software was there. By --metrics or
--prometheus it needs the extra 'readiness', and neither request logs nor Spark. By --tables it reads what 'featuregate
fleet run' has written, metrics and request logs, with the extra 'fleet'.""",
    (
        "inventory --metrics 1=http://broker-1:9404/metrics --metrics 2=page.txt",
        "inventory --prometheus http://prometheus:9090 --since 90d",
        "inventory --prometheus http://prometheus:9090 --since 30d --output json",
        "inventory --tables tables --cluster orders --since 90d",
    ),
    "0 done; 2 the metrics or the table cannot be read; 64 wrong usage",
)
_COLUMNS: Final = 48
_BARS: Final = "▁▂▃▄▅▆▇█"
_NONE: Final = "·"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``inventory``."""
    add_since(parser)
    add_metrics_options(parser)
    add_tables_options(parser.add_argument_group("the table that 'featuregate fleet run' writes"), required=False)
    add_output(parser, "tables, or one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print who uses what."""
    check_one_evidence(args)
    evidence, found = _of_table(args) if args.tables else _of_metrics(args)
    releases = evidence.releases
    if args.output == "json":
        print(json.dumps(_to_json(evidence, found, releases), indent=2))
    else:
        print(_to_text(evidence, found, releases, with_chart=not args.metrics))
    return OK


@needs_extra("this", "readiness")
def _of_metrics(args: argparse.Namespace) -> tuple[MetricsEvidence, list[SoftwareUse]]:
    from featuregate_fleet.metrics.spellings import Connected  # noqa: PLC0415 - --help is cheap

    evidence = read_evidence(args, lambda meaning: isinstance(meaning, Connected))
    return evidence, evidence.software_in_use


def _of_table(args: argparse.Namespace) -> tuple[MetricsEvidence, list[SoftwareUse]]:
    with needs_extra("inventory --tables", "fleet"):
        place = existing_tables(args)
        from featuregate_fleet.tables.evidence_table import existing_table  # noqa: PLC0415 - Spark
        from featuregate_fleet.tables.metrics_reader import inventory_of  # noqa: PLC0415 - likewise

        now = datetime.now(UTC)
        since = hour_of(begin(args.since or WEEK, now))
        with spark_session(args, place) as spark, shown_on_a_terminal("reading the table", lambda: args.cluster):
            return inventory_of(existing_table(spark, place, args.cluster), since, now)


def _to_text(evidence: MetricsEvidence, found: list[SoftwareUse], releases: dict[str, str], *, with_chart: bool) -> str:
    with_requests = any(one.requests for one in found)
    columns: dict[str, Callable[[SoftwareUse], str]] = {
        "SOFTWARE": lambda one: printable(one.text),
        "LISTENER": lambda one: printable(one.listener),
        "CONNECTIONS": lambda one: str(one.most) if one.connections or not with_requests else "",
    }
    if with_requests:
        columns["REQUESTS"] = lambda one: str(sum(one.requests.values()))
    columns["BROKERS"] = lambda one: printable(some(one.brokers, 5))
    if with_chart:
        time = f"{evidence.since:%Y-%m-%d %H:%M} TO {evidence.until:%Y-%m-%d %H:%M} UTC"
        columns[time] = lambda one: bars(one.connections or one.requests, evidence.since, evidence.until)
    softwares = [[*columns], *([cell(one) for cell in columns.values()] for one in found)]
    brokers = [["BROKER", "RELEASE", "STARTED"]]
    brokers += [
        [
            printable(one.broker),
            f"{releases[one.broker]} or newer" if one.has_requests else "not known",
            f"{one.started:%Y-%m-%d %H:%M} UTC" if one.started else printable(one.problem) or "not known",
        ]
        for one in evidence.brokers
    ]
    lacking = [
        f"broker {one.broker}: {lacks}" for one in evidence.brokers if (lacks := _lacks(one)) and not one.problem
    ]
    lines = [*aligned(softwares), *(["", *aligned(brokers)] if evidence.brokers else [])]
    return "\n".join([*lines, *(["", *map(printable, lacking)] if lacking else [])])


def bars(times: Mapping[datetime, int], since: datetime, until: datetime) -> str:
    """Draw counts by their hours, from left to right: a bar for each part of the time, on a logarithmic scale.

    An hour that has begun just now was not sampled yet, and is left out.
    """
    from featuregate_fleet.metrics.evidence import SCRAPE_SECONDS  # noqa: PLC0415 - likewise

    first, sampled = hour_of(since), until - timedelta(seconds=SCRAPE_SECONDS)
    hours = max(1, math.ceil((sampled - first) / HOUR))
    columns = min(_COLUMNS, hours)
    most = [0] * columns
    for hour, count in times.items():
        at = max(0, min(columns - 1, int((hour - first) / HOUR * columns / hours)))
        most[at] = max(count, most[at])
    highest = math.log1p(max(times.values(), default=0))
    return "".join(_BARS[round((len(_BARS) - 1) * math.log1p(one) / highest)] if one else _NONE for one in most)


def _lacks(one: BrokerCoverage) -> str:
    """Say why a broker may have more software than is listed; empty where it has not."""
    lost = [] if one.has_software else ["it has no metric of connected software, or not in each hour"]
    lost += [f"{one.unread} lines cannot be read"] if one.unread else []
    lost += [f"the rules of its exporter dropped {each}" for each in one.unusable]
    lost += [f"listener {each} has as many softwares as a broker counts" for each in one.full_listeners]
    return one.problem or "; ".join(lost)


def _to_json(evidence: MetricsEvidence, found: list[SoftwareUse], releases: dict[str, str]) -> dict[str, Any]:
    return {
        "software": [
            {
                "software": one.text,
                "listener": one.listener,
                "brokers": list(one.brokers),
                "hours": [{"hour": hour.isoformat(), "connections": count} for hour, count in one.connections.items()],
                "days": [{"day": f"{day:%Y-%m-%d}", "requests": count} for day, count in one.requests.items()],
            }
            for one in found
        ],
        "brokers": [
            {
                "broker": one.broker,
                "release_at_least": releases[one.broker] if one.has_requests else None,
                "started": one.started.isoformat() if one.started else None,
                "problem": _lacks(one),
            }
            for one in evidence.brokers
        ],
        "since": evidence.since.isoformat(),
        "until": evidence.until.isoformat(),
    }
