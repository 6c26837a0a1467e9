"""``featuregate fleet``: what it refuses before it starts Spark."""

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from featuregate.catalog import captured
from featuregate.cli.plugin import USAGE, CommandError
from featuregate.testing import FakeCluster
from featuregate_fleet import command
from featuregate_fleet.commands.options.evidence import cluster_view
from featuregate_fleet.commands.options.log_times import log_times
from featuregate_fleet.commands.options.tables import tables_place
from featuregate_fleet.commands.run import counts
from featuregate_fleet.evidence.line_counts import LineCounts
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, Move, ToRelease

PATCHED = captured()["4.0"]._replace(release="4.0.2", apis={**captured()["4.0"].apis, 11: (0, 9)})


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder of logs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def parse(*argv: str) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = argparse.ArgumentParser()
    parser.set_defaults(
        bootstrap_server=None, bootstrap_controller=None, command_config=None, broker_list="cluster", timeout=None
    )
    command.add_options(parser)
    return parser.parse_args(argv)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("readiness", "--tables", "t", "--cluster", "c", "--to", "9.9"), "'9.9' is none of the known releases"),
        (("readiness", "--tables", "t", "--cluster", "../c", "--to", "4.2"), "'../c' is not a name"),
        (
            ("readiness", "--tables", "t", "--cluster", "c"),
            "one of the arguments --to --downgrade-to --finalize --deprecate --drop-api is required",
        ),
        (
            ("readiness", "--since", "yesterday", "--tables", "t", "--cluster", "c", "--to", "4.2"),
            "'yesterday' is not a time",
        ),
        (
            ("readiness", "--stale-after", "9999999999", "--tables", "t", "--cluster", "c", "--to", "4.2"),
            "'9999999999' is not a number of hours",
        ),
        (
            ("readiness", "--since", "0001-01-01T00:00+01:00", "--tables", "t", "--cluster", "c", "--to", "4.2"),
            "is not a time",
        ),
        (("run", "--time-zone", "1=UTC", "--tables", "t", "--cluster", "c"), "'1=UTC' is not a time zone"),
        (
            ("run", "--again", "unknown-layot", "--tables", "t", "--cluster", "c"),
            "'unknown-layot' is none of the reasons",
        ),
        (("tidy", "--older-than", "0", "--tables", "t", "--cluster", "c"), "'0' is not a number of days"),
        (("tidy", "--older-than", "9999999999", "--tables", "t", "--cluster", "c"), "is not a number of days"),
        (("tidy", "--forget", " ", "--tables", "t", "--cluster", "c"), "no name is given"),
        (("run", "--logs-topic", "a/b", "--tables", "t", "--cluster", "c"), "'a/b' is not a topic name"),
    ],
)
def test_wrong_options_are_refused_in_one_line(argv: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]):
    """The line names the option and what it takes."""
    with pytest.raises(SystemExit):
        parse(*argv)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("text", ["2026-11-22T14:00", "2026-11-22T14:59:59Z", "2026-11-22T15:30+01:00"])
def test_requests_count_from_an_hour_on(text: str):
    """In UTC, unless the time says otherwise: the tables have whole hours."""
    args = parse("readiness", "--tables", "t", "--cluster", "c", "--to", "4.2", "--since", text)
    assert args.since == datetime(2026, 11, 22, 14, tzinfo=UTC)


def test_a_release_may_be_spelled_with_its_patch():
    """The catalog has one row for each release."""
    assert parse("readiness", "--tables", "t", "--cluster", "c", "--to", "4.2.0").move.target == "4.2"


@pytest.mark.parametrize(
    ("option", "text", "move"),
    [
        ("--to", "4.0", ToRelease(captured()["4.0"])),
        ("--to", "4.0.2", ToRelease(PATCHED)),
        ("--downgrade-to", "3.9.2", DowngradeTo(captured()["3.9"], "3.9.2")),
        ("--downgrade-to", "4.0.2", DowngradeTo(PATCHED, "4.0.2")),
        ("--finalize", "transaction.version=2", Finalize("transaction.version", 2)),
        ("--finalize", "metadata.version=3.3-IV3", Finalize("metadata.version", 7)),
        ("--deprecate", "group.version=0", Deprecate("group.version", 0)),
        ("--drop-api", "Fetch<12", DropApi(1, 12)),
        ("--drop-api", "list_offsets<1", DropApi(2, 1)),
    ],
)
def test_a_move_is_named(option: str, text: str, move: Move):
    """As on Kafka's own command line: features with levels, APIs in any spelling."""
    assert parse("readiness", "--tables", "t", "--cluster", "c", option, text).move == move


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (("--finalize", "group.versions=1"), "'group.versions' is none of the known features: "),
        (("--finalize", "group.version"), "'group.version' is not a feature with a level: write group.version=1"),
        (("--deprecate", "group.version=-1"), "is not a feature with a level"),
        (("--drop-api", "Fetch=12"), "'Fetch=12' is not an API with a version: write 'Fetch<12', in quotes"),
        (("--drop-api", "Fetch<99999"), "is not an API with a version"),
        (("--drop-api", "api:99999<3"), "is not an API with a version"),
        (("--drop-api", "Fetch<0"), "'Fetch<0' drops nothing: versions begin at 0"),
        (("--drop-api", "Fetsh<12"), "Fetch"),
        (("--downgrade-to", "3.9.x"), "'3.9.x' is none of the known releases"),
        (("--to", "4.2", "--downgrade-to", "3.9"), "not allowed with argument --to"),
    ],
)
def test_a_move_that_does_not_exist_is_refused(own: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]):
    """The command fails before it starts Spark."""
    with pytest.raises(SystemExit):
        parse("readiness", "--tables", "t", "--cluster", "c", *own)
    assert says in capsys.readouterr().err


def test_brokers_may_log_in_different_time_zones(capsys: pytest.CaptureFixture[str]):
    """One zone is for all brokers that have none of their own."""
    own = ("run", "--once", "--logs", "l", "--tables", "t", "--cluster", "c", "--time-zone")
    assert log_times(parse(*own, "Europe/Berlin", "--layout", "at=%d-%m %H:%M")) == ("Europe/Berlin", "at=%d-%m %H:%M")
    for wrong in ("Mars/Olympus", "../etc/passwd", ""):
        with pytest.raises(SystemExit):
            parse(*own, wrong)
        assert f"{wrong!r} is not a time zone" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "says"), [("no", "there is no such folder"), ("log", "not a folder, but a file")])
def test_logs_that_are_not_there_are_wrong_usage(tmp_path: Path, name: str, says: str):
    """No Spark is started for a typing error."""
    (tmp_path / "log").touch()
    args = parse("run", "--once", "--logs", str(tmp_path / name), "--tables", str(tmp_path), "--cluster", "c")
    with pytest.raises(CommandError, match=says) as error:
        command.run(args)
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("tables", [".", "tables", "1/../tables"])
def test_tables_among_the_logs_are_wrong_usage(tmp_path: Path, tables: str):
    """The next run would read them as logs."""
    args = parse("run", "--once", "--logs", str(tmp_path), "--tables", str(tmp_path / tables), "--cluster", "c")
    with pytest.raises(CommandError, match="would be read as logs") as error:
        command.run(args)
    assert error.value.exit_code == USAGE


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


@pytest.mark.parametrize(
    ("options", "says"),
    [((), "give --logs, --logs-topic or both"), (("--logs-topic", "t"), "--logs-topic needs --bootstrap-server")],
)
def test_a_run_needs_logs_and_where_they_are(options: tuple[str, ...], says: str, tmp_path: Path):
    """A topic of logs needs the address of its cluster."""
    args = parse("run", "--once", "--tables", str(tmp_path), "--cluster", "c", *options)
    with pytest.raises(CommandError, match=says):
        command.run(args)


@pytest.mark.parametrize("option", [("--bootstrap-controller", "c:1"), ("--broker-list", "bootstrap")])
def test_a_run_needs_the_ids_of_brokers(option: tuple[str, str], tmp_path: Path, logs: Path):
    """Controllers log no clients, and a bootstrap list has no ids."""
    args = parse("run", "--once", "--logs", str(logs), "--tables", str(tmp_path), "--cluster", "c", *option)
    with pytest.raises(CommandError, match="needs the ids of the brokers"):
        command.run(args)


@pytest.mark.parametrize("action", ["run", "readiness"])
def test_tables_must_be_a_folder(action: str, tmp_path: Path, logs: Path):
    """A file in its place is not evidence."""
    (tmp_path / "file").touch()
    own = ("--to", "4.2") if action == "readiness" else ("--once", "--logs", str(logs))
    with pytest.raises(CommandError, match="not a folder") as error:
        command.run(parse(action, "--tables", str(tmp_path / "file"), "--cluster", "c", *own))
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("action", ["tables", "tidy --older-than 9", "tidy --forget User:a"])
def test_tables_that_are_not_there_are_a_mistake(action: str, tmp_path: Path):
    """A folder whose name is misspelled would be made, and the command would seem to have done its work."""
    place = ("--tables", str(tmp_path / "missing"), "--cluster", "c")
    with pytest.raises(CommandError, match=r"missing: there is no such folder: name the one of") as error:
        command.run(parse(*action.split(), *place))
    assert error.value.exit_code == USAGE
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("name", ["", "missing/report.html"])
def test_a_page_that_cannot_be_written_is_known_before_spark_starts(name: str, tmp_path: Path):
    """The report takes a while, and would be lost."""
    (tmp_path / "tables").mkdir()
    wanted = ("--tables", str(tmp_path / "tables"), "--cluster", "c", "--to", "4.2", "--html", str(tmp_path / name))
    with pytest.raises(CommandError, match="this is a folder, or is in a folder that does not exist") as error:
        command.run(parse("readiness", *wanted))
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("module", ["pyspark", "pyarrow"])
@pytest.mark.parametrize("action", ["run --once --logs logs", "peek log --to 4.2", "tidy", "readiness --to 4.2"])
def test_without_the_extra_one_line_names_it(tmp_path: Path, action: str, module: str) -> None:
    """Whichever module an action imports first."""
    (tmp_path / "log").write_text("no line of Kafka\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "tables").mkdir()
    tables = [] if action.startswith("peek") else ["--tables", "tables", "--cluster", "c"]
    code = f"import sys; sys.modules[{module!r}] = None; from featuregate.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "fleet", *action.split(), *tables],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if (action, module) == ("peek log --to 4.2", "pyspark"):
        assert "needs" not in done.stderr  # it reads without Spark
    else:
        extra = "peek" if action.startswith("peek") else "fleet"
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
