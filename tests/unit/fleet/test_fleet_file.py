"""The file of ``--config``: its keys are the options of ``fleet run``, and each mistake has its place."""

import argparse
from pathlib import Path

import pytest

from featuregate.cli.plugin import CommandError
from featuregate_fleet import command
from featuregate_fleet.commands.options.fleet_file import clusters_of
from featuregate_fleet.commands.options.log_times import log_times

TWO = """
tables = "tables"
time-zone = ["Europe/Berlin", "3=UTC"]

[clusters.orders]
logs = "logs/orders"
bootstrap-server = "kafka-1.example:9092"
command-config = "orders.properties"
hash-principals = "env:FLEET_KEY"
timeout = 5

[clusters.payments]
logs = "/srv/payments"
tables = "/srv/tables"
keep-lines = true
keep-raw = false
"""


def parsed(action: str, *options: str) -> argparse.Namespace:
    """Parse the options of an action, as the program does."""
    parser = argparse.ArgumentParser()
    parser.set_defaults(
        bootstrap_server=None, bootstrap_controller=None, command_config=None, broker_list="cluster", timeout=None
    )
    command.add_options(parser)
    return parser.parse_args([action, *options])


def clusters(tmp_path: Path, text: str, *options: str) -> dict[str, argparse.Namespace]:
    """Read a file."""
    file = tmp_path / "fleet.toml"
    file.write_text(text)
    return clusters_of(parsed("run", "--config", str(file), *options))


def test_a_key_is_an_option(tmp_path: Path):
    """Keys before the first table count for all clusters that have no value of their own."""
    found = clusters(tmp_path, TWO, "--once")
    orders, payments = found["orders"], found["payments"]
    assert list(found) == [orders.cluster, payments.cluster] == ["orders", "payments"]
    assert (orders.tables, orders.logs) == (tmp_path / "tables", tmp_path / "logs/orders")
    assert (payments.tables, payments.logs) == (Path("/srv/tables"), Path("/srv/payments"))
    assert orders.bootstrap_server == "kafka-1.example:9092"
    assert orders.command_config == str(tmp_path / "orders.properties")
    assert orders.hash_principals == "env:FLEET_KEY"
    assert orders.timeout == pytest.approx(5)
    assert (payments.keep_lines, payments.keep_raw, orders.keep_lines) == (True, False, False)
    assert payments.bootstrap_server is None
    assert payments.broker_list == "cluster"
    assert [log_times(each)["3"].time_zone for each in (orders, payments)] == ["UTC", "UTC"]
    assert log_times(orders)["others"].time_zone == "Europe/Berlin"
    assert orders.once, "what stands on the command line counts for all clusters"


def test_one_cluster_of_the_file(tmp_path: Path):
    """--cluster names it."""
    assert list(clusters(tmp_path, TWO, "--cluster", "payments")) == ["payments"]
    with pytest.raises(CommandError, match="it has no cluster billing, but orders, payments"):
        clusters(tmp_path, TWO, "--cluster", "billing")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tables = [", "is not TOML"),
        ('tables = "t"', r"clusters: is missing: name each cluster, such as \[clusters.orders\]"),
        ("clusters = 3", "clusters: must have a table for each cluster"),
        ("clusters.a = 3", "clusters.a: must be a table"),
        ('clusters.a.logs = "l"', "clusters.a: tables: is missing"),
        ('[clusters."a/b"]\ntables = "t"', "clusters.a/b: 'a/b' is not a name"),
        ('[clusters.a]\ntables = "t"\nlog = "l"', "clusters.a: log: there is no such key"),
        ('[clusters.a]\ntables = "t"\ncluster = "b"', "clusters.a: cluster: there is no such key"),
        ('[clusters.a]\ntables = "t"\nlogs = ["a", "b"]', "clusters.a: logs: must be one text or number"),
        ('[clusters.a]\ntables = "t"\nlayout = [1.5, true]', "clusters.a: layout: .*, or several in a list"),
        ('[clusters.a]\ntables = "t"\ntime-zone = "Mars"', "clusters.a: time-zone: 'Mars' is not a time zone"),
        ('[clusters.a]\ntables = "t"\nkeep-lines = "yes"', "clusters.a: keep-lines: ignored explicit argument 'yes'"),
        ('[clusters.a]\ntables = "t"\nlogs = true', "clusters.a: logs: expected one argument"),
        ('[clusters.a]\nlog = 1\n[clusters.b]\nlogs = "l"', "2 mistakes: nothing was done"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, text: str, says: str):
    """Nothing is read where the file has one."""
    with pytest.raises(CommandError, match=says) as error:
        clusters(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'fleet.toml'}: ")


def test_each_of_several_mistakes_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A file of 200 clusters is mended once."""
    with pytest.raises(CommandError):
        clusters(tmp_path, '[clusters.a]\ntables="t"\nlog = 1\n[clusters.b]\nlogs = "l"')
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("fleet.toml: ")[2] for line in said] == [
        "clusters.a: log: there is no such key",
        "clusters.b: tables: is missing",
    ]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    """The line says why."""
    with pytest.raises(CommandError, match=r"no\.toml: cannot be read: No such file"):
        clusters_of(parsed("run", "--config", str(tmp_path / "no.toml")))


@pytest.mark.parametrize("option", [("--tables", "t"), ("--logs", "l"), ("--bootstrap-server", "b:1"), ("--keep-raw",)])
def test_an_option_of_a_cluster_beside_the_file_is_refused(tmp_path: Path, option: tuple[str, ...]):
    """It would be a guess which of the two counts."""
    with pytest.raises(CommandError, match=rf"{option[0]} cannot be given with --config: write it into .*fleet\.toml"):
        clusters(tmp_path, TWO, *option)


@pytest.mark.parametrize("action", [("run", "--once"), ("readiness", "--to", "4.2")])
def test_without_a_file_tables_and_cluster_are_needed(action: tuple[str, ...], tmp_path: Path):
    """One of them alone is not enough."""
    for options in ((), ("--cluster", "c"), ("--tables", str(tmp_path))):
        with pytest.raises(CommandError, match="give --tables and --cluster, or a file with both as --config"):
            command.run(parsed(*action, *options))


@pytest.mark.parametrize("number", ["0", "65", "many", "-1"])
def test_the_number_of_clusters_at_a_time_is_bounded(number: str, capsys: pytest.CaptureFixture[str]):
    """Each has threads and jobs of its own."""
    with pytest.raises(SystemExit):
        parsed("run", "--config", "f", f"--parallel={number}")
    assert "is not a number of clusters: take 1 to 64" in capsys.readouterr().err
