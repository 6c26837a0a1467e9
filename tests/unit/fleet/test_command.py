"""``featuregate fleet``: what its options mean, and what it says of a missing extra and of what it has read."""

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from featuregate.testing import FakeCluster
from featuregate_fleet import command
from featuregate_fleet.commands import readiness
from featuregate_fleet.commands.options.tables import log_times, tables_place
from featuregate_fleet.commands.run import cluster_view, counts
from featuregate_fleet.evidence.paths import LineCounts


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.set_defaults(
        bootstrap_server=None, bootstrap_controller=None, command_config=None, broker_list="cluster", timeout=None
    )
    of_fleet = argv[0] != "readiness"
    (command if of_fleet else readiness).add_options(parser)
    return parser.parse_args(argv if of_fleet else argv[1:])


@pytest.mark.parametrize("text", ["2026-11-22T14:00", "2026-11-22T14:59:59Z", "2026-11-22T15:30+01:00"])
def test_requests_count_from_an_hour_on(text: str):
    """In UTC, unless the time says otherwise: the tables have whole hours."""
    args = parse("readiness", "--tables", "t", "--cluster", "c", "--to", "4.2", "--since", text)
    assert args.since == datetime(2026, 11, 22, 14, tzinfo=UTC)


def test_logs_have_a_time_zone_and_a_layout():
    """The first equals sign belongs to the layout."""
    times = ("--time-zone", "Europe/Berlin", "--layout", "at=%d-%m %H:%M")
    assert log_times(parse("run", "--tables", "t", "--cluster", "c", *times)) == ("Europe/Berlin", "at=%d-%m %H:%M")


def test_the_cluster_lists_its_brokers(tmp_path: Path):
    """The run misses a broker without a folder; without the option the run asks no broker."""
    options = ("run", "--once", "--logs", str(tmp_path), "--tables", str(tmp_path), "--cluster", "c")
    with FakeCluster(brokers=2) as cluster:
        asked = parse(*options, "--bootstrap-server", cluster.bootstrap)
        view = cluster_view(asked)
    assert view is not None
    assert {broker.node_id for broker in view.brokers} == {broker.node_id for broker in cluster.brokers}
    assert cluster_view(parse(*options)) is None


@pytest.mark.parametrize("given", [["--again", "cut,vanished"], ["--again", "cut", "--again", "vanished"]])
def test_reasons_to_read_again_are_given_at_once_or_one_by_one(given: list[str]):
    """Each is a reason of the quarantine or of a file."""
    assert set(parse("run", "--tables", "t", "--cluster", "c", *given).again) == {"cut", "vanished"}


def test_tables_may_be_in_a_catalog(tmp_path: Path):
    """The name of its schema stands behind a word, so that no folder has it."""
    assert tables_place(parse("tables", "--tables", "catalog:main.kafka")) == "catalog:main.kafka"
    assert tables_place(parse("tables", "--tables", str(tmp_path))) == tmp_path


@pytest.mark.parametrize("module", ["pyspark", "pyarrow"])
@pytest.mark.parametrize(
    "action", ["fleet run --once --logs logs", "fleet peek log --to 4.2", "fleet tidy", "readiness --to 4.2"]
)
def test_without_the_extra_one_line_names_it(tmp_path: Path, action: str, module: str) -> None:
    """Whichever module an action imports first."""
    (tmp_path / "log").write_text("no line of Kafka\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "tables").mkdir()
    tables = [] if "peek" in action else ["--tables", "tables", "--cluster", "c"]
    code = f"import sys; sys.modules[{module!r}] = None; from featuregate.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *action.split(), *tables],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if (action, module) == ("fleet peek log --to 4.2", "pyspark"):
        assert "needs" not in done.stderr  # it reads without Spark
    else:
        extra = "peek" if "peek" in action else "fleet"
        assert f"pip install '.[{extra}]' in a checkout, or " in done.stderr
    assert (done.stderr.count("\n"), "bug" in done.stderr) == (done.stderr.count("featuregate: "), False)


def test_what_a_call_has_read_is_said_and_the_totals_where_they_are_more():
    """A second run says both."""
    pytest.importorskip("pyspark")
    from featuregate_fleet.runs.ingestion import Ingested  # noqa: PLC0415 - Spark

    first = Ingested(2, 82, 80, 2, LineCounts(82, 80, 2), ())
    assert counts(first) == "82 lines read: 80 rows, 2 in quarantine"
    later = first._replace(read=10, rows=10, quarantined=0, totals=LineCounts(92, 90, 2))
    assert counts(later) == "10 lines read: 10 rows, 0 in quarantine; in all runs 92 lines: 90 rows, 2 in quarantine"
