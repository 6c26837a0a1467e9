"""``featuregate fleet run --config``: read the logs of several clusters, in one Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from featuregate.cli.plugin import OK, UNKNOWN, CommandError, print_message
from featuregate.errors import FeatureGateError
from featuregate_fleet.commands.options.evidence import checked_names, cluster_view, inputs
from featuregate_fleet.commands.options.fleet_file import clusters_of
from featuregate_fleet.commands.options.tables import open_tables, tables_folder
from featuregate_fleet.commands.progress import Progress
from featuregate_fleet.commands.stop_signals import StopSignal, stop_of_run
from featuregate_fleet.files.storage import on_s3
from featuregate_fleet.tables.kept_names import keep_names
from featuregate_fleet.tables.locks import one_writer

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.line_counts import LineCounts
    from featuregate_fleet.stream.ingestion import Ingestion

FAILURES = (FeatureGateError, CommandError, OSError)
"""What ends the work on one cluster, and not that on the others."""


def run_clusters(args: argparse.Namespace) -> int:
    """Read each file of each cluster once, and those that come later. A cluster that fails is tried again."""
    found = clusters_of(args)
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - Spark

    topics = any(each.bootstrap_server or each.command_config for each in found.values())
    s3 = on_s3(*(path for each in found.values() for path in (each.checkpoints or each.tables, each.logs)))
    with local_session(args.jars, topics=topics, s3=s3) as spark, stop_of_run(args) as stop, ExitStack() as opened:
        clusters = {name: _Cluster(spark, each) for name, each in found.items()}
        for cluster in clusters.values():
            opened.callback(cluster.close)
        while True:
            failed = _read_all(spark, clusters, args.parallel, stop)
            if args.once or stop.wait(args.interval):
                missing = any(cluster.misses_requests for cluster in clusters.values())
                return UNKNOWN if failed or missing else OK


def _read_all(spark: SparkSession, clusters: dict[str, _Cluster], most: int, stop: StopSignal) -> list[str]:
    """Read what is new of each cluster, and print what became of it; return the clusters that failed."""
    from featuregate_fleet.stream.parallel import in_parallel  # noqa: PLC0415 - Spark

    def reader(cluster: _Cluster) -> Callable[[], LineCounts]:
        return lambda: cluster.read(stop)

    failed = []
    work = {name: reader(cluster) for name, cluster in clusters.items()}
    for name, result in in_parallel(spark, work, most, FAILURES):
        if isinstance(result, Exception):
            failed.append(name)
            print_message(f"{name}: {result}")
        else:
            clusters[name].progress.show(result)
    if failed:
        print_message(f"{len(failed)} of {len(clusters)} clusters failed: {', '.join(sorted(failed))}")
    return failed


class _Cluster:
    """Reads one cluster, and holds the lock of its rows from the first time until it fails or is closed."""

    def __init__(self, spark: SparkSession, args: argparse.Namespace) -> None:
        self._spark = spark
        self._args = args
        self._held = ExitStack()
        self._ingestion: Ingestion | None = None
        self.progress = Progress(args)

    @property
    def misses_requests(self) -> bool:
        """Whether requests of its files are missing."""
        return self._ingestion is not None and bool(self._ingestion.missing_files)

    def read(self, stop: StopSignal) -> LineCounts:
        """Read what is new. Raises what `FAILURES` names."""
        try:
            view = cluster_view(self._args)
            if self._ingestion is None:
                self._ingestion = self._started(view)
            return self._ingestion.read(view, stop.is_set)
        except BaseException:
            self.close()
            raise

    def _started(self, view: View | None) -> Ingestion:
        from featuregate_fleet.stream.ingestion import Ingestion  # noqa: PLC0415 - Spark
        from featuregate_fleet.stream.session import session_beside  # noqa: PLC0415 - likewise

        args, names, folder = self._args, checked_names(self._args), tables_folder(self._args)
        self._held.enter_context(one_writer(folder, args.cluster))
        keep_names(folder, args.cluster, names)
        spark = session_beside(self._spark)
        return Ingestion(spark, open_tables(spark, args, names), inputs(args, view), self._say)

    def _say(self, line: str) -> None:
        print_message(f"{self._args.cluster}: {line}")

    def close(self) -> None:
        """Let another process read the cluster."""
        self._ingestion = None
        self._held.close()
