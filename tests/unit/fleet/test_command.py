"""``featuregate fleet``: what it refuses before it starts Spark."""

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from featuregate.cli.plugin import USAGE, CommandError
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


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("readiness --to 9.9", "'9.9' is none of the known releases"),
        ("readiness --to 4.2 --cluster ../c", "'../c' is not a name"),
        ("readiness", "one of the arguments --to --downgrade-to --finalize --deprecate --drop-api is required"),
        ("readiness --to 4.2 --since yesterday", "'yesterday' is not a time"),
        ("readiness --to 4.2 --since 0001-01-01T00:00+01:00", "is not a time"),
        ("readiness --to 4.2 --stale-after 9999999999", "'9999999999' is not a number of hours"),
        ("readiness --to 4.2 --downgrade-to 3.9", "not allowed with argument --to"),
        ("run --time-zone 1=UTC", "'1=UTC' is not a time zone"),
        ("run --again unknown-layot", "'unknown-layot' is none of the reasons"),
        ("run --logs-topic a/b", "'a/b' is not a topic name"),
        ("tidy --older-than 0", "'0' is not a number of days"),
        ("tidy --older-than 9999999999", "is not a number of days"),
        ("tidy --forget=", "no name is given"),
    ],
)
def test_wrong_options_are_refused_in_one_line(argv: str, says: str, capsys: pytest.CaptureFixture[str]):
    """The line names the option and what it takes."""
    action, *options = argv.split()
    with pytest.raises(SystemExit):
        parse(action, "--tables", "t", "--cluster", "c", *options)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("text", ["2026-11-22T14:00", "2026-11-22T14:59:59Z", "2026-11-22T15:30+01:00"])
def test_requests_count_from_an_hour_on(text: str):
    """In UTC, unless the time says otherwise: the tables have whole hours."""
    args = parse("readiness", "--tables", "t", "--cluster", "c", "--to", "4.2", "--since", text)
    assert args.since == datetime(2026, 11, 22, 14, tzinfo=UTC)


def test_brokers_may_log_in_different_time_zones(capsys: pytest.CaptureFixture[str]):
    """One zone is for all brokers that have none of their own."""
    own = ("run", "--once", "--logs", "l", "--tables", "t", "--cluster", "c", "--time-zone")
    assert log_times(parse(*own, "Europe/Berlin", "--layout", "at=%d-%m %H:%M")) == ("Europe/Berlin", "at=%d-%m %H:%M")
    for wrong in ("Mars/Olympus", "../etc/passwd", ""):
        with pytest.raises(SystemExit):
            parse(*own, wrong)
        assert f"{wrong!r} is not a time zone" in capsys.readouterr().err


ONCE = "run --once --cluster c --tables"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (f"{ONCE} tables --logs no", "there is no such folder"),
        (f"{ONCE} tables --logs file", "not a folder, but a file"),
        (f"{ONCE} logs --logs logs", "would be read as logs"),
        (f"{ONCE} logs/tables --logs logs", "would be read as logs"),
        (f"{ONCE} logs/1/../tables --logs logs", "would be read as logs"),
        (f"{ONCE} tables", "give --logs, --logs-topic or --prometheus"),
        (f"{ONCE} tables --logs-topic t", "--logs-topic needs --bootstrap-server"),
        (f"{ONCE} tables --logs logs --bootstrap-controller c:1", "needs the ids of the brokers"),
        (f"{ONCE} tables --logs logs --broker-list bootstrap", "needs the ids of the brokers"),
        (f"{ONCE} file --logs logs", "not a folder, but a file"),
        ("readiness --tables file --cluster c --to 4.2", "not a folder, but a file"),
        ("tables --tables no --cluster c", "no: there is no such folder: name the one of"),
        ("tidy --tables no --cluster c --older-than 9", "no: there is no such folder: name the one of"),
        ("tidy --tables no --cluster c --forget User:a", "no: there is no such folder: name the one of"),
        ("readiness --tables tables --cluster c --to 4.2 --html tables", "this is a folder, or is in a folder that"),
        ("readiness --tables tables --cluster c --to 4.2 --html no/a.html", "this is a folder, or is in a folder that"),
    ],
)
def test_what_cannot_be_read_or_written_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: str, says: str
):
    """No Spark is started for a typing error, no report is lost after it, and no folder is made of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for folder in ("logs", "tables"):
        (tmp_path / folder).mkdir()
    action, *_ = words = argv.split()
    with pytest.raises(CommandError, match=says) as error:
        (readiness if action == "readiness" else command).run(parse(*words))
    assert error.value.exit_code == USAGE
    assert not (tmp_path / "no").exists()


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
    args = parse("tables", "--tables", "catalog:main.kafka")
    assert tables_place(args) == "catalog:main.kafka"
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
