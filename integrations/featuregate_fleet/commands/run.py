"""``featuregate fleet run``: read request logs into the table of a cluster."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import (
    OK,
    UNKNOWN,
    CommandError,
    add_cluster_options,
    argument,
    configuration,
    discover_view,
    option,
    print_message,
)
from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.commands.options.metrics import add_prometheus_options, web_of
from featuregate_fleet.commands.options.tables import (
    add_hash_option,
    add_tables_options,
    add_time_options,
    log_times,
    pseudonyms,
    spark_session,
    storage_argument,
    tables_place,
)
from featuregate_fleet.commands.stop_signals import StopSignal, stop_signals
from featuregate_fleet.evidence.reasons import known_reasons
from featuregate_fleet.files.storage import is_below, reached, why_no_folder

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.runs.ingestion import Ingested, Inputs

DESCRIPTION: Final = """\
Read what is new in the files below DIR, and count the requests in it, until SIGTERM or Ctrl-C. On the brokers, set the
logger kafka.request.logger to DEBUG. Files may grow, be renamed, and be gzipped: each line is read once. A run that was
killed is finished by the next one. A file of which no line is understood, or that cannot be read to its end, is named,
and the exit code is 2. With --prometheus it keeps the metrics of brokers, too, whole hours of them, a day in a batch.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    option(parser, "--once", "read what is there, and end")
    option(parser, "--interval SECONDS", "wait SECONDS before looking for what is new (default: 60)", default=60.0)
    option(parser, "--logs DIR", "a folder for each broker, or the URI of it", type=storage_argument)
    option(parser, "--logs-topic TOPIC", "a topic to which a shipper writes the lines of request logs")
    header = "the header of its records with the node id of the broker; without it, that is the key (default: broker)"
    option(parser, "--broker-header NAME", header, default="broker")
    add_time_options(parser)
    reports = "the topic in which apps report their gates (default: featuregate-usage, where it exists and may be read)"
    option(parser, "--usage-topic NAME", reports)
    again = (
        "read again what was left unread, and lines in quarantine, of files that have some for this reason, such as "
        "unknown-layout; several with commas"
    )
    reasons = argument(lambda text: known_reasons(text.split(",")))
    option(parser, "--again REASON", again, type=reasons, action="extend", default=[])
    add_hash_option(parser, "keep hashes of principals and addresses, by the key in a file or an environment variable")
    add_prometheus_options(parser)
    add_tables_options(parser)
    # The list of brokers comes from the cluster: a broker without evidence is unknown.
    add_cluster_options(parser, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Read what is there, and what comes later."""
    _check_logs(args)
    names = pseudonyms(args)
    view = cluster_view(args)
    place = tables_place(args)
    from featuregate_fleet.runs.ingestion import Ingestion  # noqa: PLC0415 - Spark
    from featuregate_fleet.tables.evidence_table import EvidenceTable  # noqa: PLC0415 - likewise

    # A signal ends a run with --once at once, whose exit code would say that all was read.
    stopping = nullcontext(StopSignal()) if args.once else stop_signals()
    with spark_session(args, place, args.logs, topics=view is not None) as spark, stopping as stop:
        table = EvidenceTable(spark, place, args.cluster)
        ingestion = Ingestion(spark, table, _inputs(args, view, names), print_message)
        before: Ingested | None = None
        while True:
            with shown_on_a_terminal("reading", ingestion.state):
                found = ingestion.read(view, stop.is_set)
            if before is None or found.read:
                print(f"{args.cluster}: {counts(found)}", flush=True)
            if args.once or stop.wait(args.interval):
                return UNKNOWN if found.missing or ingestion.unread_metrics else OK
            before, view = found, cluster_view(args)


def _check_logs(args: argparse.Namespace) -> None:
    """Refuse options that cannot be used together."""
    if not args.logs and not args.logs_topic and not args.prometheus:
        raise CommandError("fleet run reads logs and metrics: give --logs, --logs-topic or --prometheus, or several")
    if args.logs and (problem := why_no_folder(reached("--logs", args.logs))):
        raise CommandError(f"--logs {args.logs}: {problem}")
    if args.logs and not isinstance(args.tables, str) and is_below(args.tables, args.logs):
        raise CommandError(
            f"--tables {args.tables} is within --logs {args.logs}, and would be read as logs: move it out"
        )


def cluster_view(args: argparse.Namespace) -> View | None:
    """Ask all brokers, if the options name a cluster."""
    if args.bootstrap_controller or args.broker_list == "bootstrap":
        raise CommandError("fleet run needs the ids of the brokers: give --bootstrap-server and no --broker-list")
    if not args.bootstrap_server and not args.command_config:
        if name := "--logs-topic" if args.logs_topic else "--usage-topic" if args.usage_topic else "":
            raise CommandError(f"{name} needs --bootstrap-server")
        return None
    return discover_view(args)


def _inputs(args: argparse.Namespace, view: View | None, names: Pseudonyms | None) -> Inputs:
    from featuregate_fleet.runs.ingestion import Inputs  # noqa: PLC0415 - Spark
    from featuregate_fleet.runs.kept_metrics import MetricsInput  # noqa: PLC0415 - likewise

    metrics = (
        MetricsInput(url=args.prometheus, conditions=args.match, web=lambda: web_of(args), reach=args.reach)
        if args.prometheus
        else None
    )
    return Inputs(
        cluster=args.cluster,
        logs=args.logs,
        config=configuration(args) if view else {},
        logs_topic=args.logs_topic,
        broker_header=args.broker_header,
        usage_topic=args.usage_topic,
        times=log_times(args),
        metrics=metrics,
        again=frozenset(args.again),
        names=names,
    )


def counts(found: Ingested) -> str:
    """Say how many lines were read, and what became of them."""
    said = f"{found.read} lines read: {found.rows} rows, {found.quarantined} in quarantine"
    read, rows, quarantined = found.totals
    if read == found.read:
        return said
    return f"{said}; in all runs {read} lines: {rows} rows, {quarantined} in quarantine"
