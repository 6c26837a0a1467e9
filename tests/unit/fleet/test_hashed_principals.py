"""Hashes in place of principals and addresses, and the key that makes them."""

import argparse
import pickle
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from featuregate.cli.plugin import CommandError  # noqa: E402 - after the check for the extra
from featuregate.errors import ConfigError  # noqa: E402 - likewise
from featuregate_fleet import command  # noqa: E402 - likewise
from featuregate_fleet.commands.options.principal_names import pseudonyms  # noqa: E402 - likewise
from featuregate_fleet.commands.upkeep import forget  # noqa: E402 - likewise
from featuregate_fleet.errors import TablesBroken  # noqa: E402 - likewise
from featuregate_fleet.evidence.columns import API_USAGE, COORDINATOR_RECORDS, LOG_LINES, QUARANTINE  # noqa: E402 - likewise
from featuregate_fleet.evidence.hidden_names import hide_names  # noqa: E402 - likewise
from featuregate_fleet.evidence.pseudonyms import Pseudonyms  # noqa: E402 - likewise
from featuregate_fleet.tables.kept_names import check_names, keep_names  # noqa: E402 - likewise

NAMES = Pseudonyms(b"0123456789abcdef")
OTHERS = Pseudonyms(b"fedcba9876543210")


def hidden(table: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a table as they are written."""
    whole = [dict.fromkeys(schema.names) | row for row in rows]
    batches = hide_names([pa.RecordBatch.from_pylist(whole, schema)], table, pickle.loads(pickle.dumps(NAMES)))
    return [row for batch in batches for row in batch.to_pylist()]


def options(tables: Path, *more: str, action: str = "replay") -> argparse.Namespace:
    """Parse the options of an action."""
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    return parser.parse_args([action, "--tables", str(tables), "--cluster", "c", *more])


def test_a_hash_is_of_the_name_and_the_key():
    """So rows of one client add up, and another key gives another hash."""
    assert NAMES.of("User:billing") == NAMES.of("User:billing") != OTHERS.of("User:billing")
    assert NAMES.of(NAMES.of("User:billing")) == NAMES.of("User:billing")
    assert NAMES.of("/10.0.0.7") == NAMES.of("10.0.0.7")
    assert NAMES.of("User:ANONYMOUS") == "User:ANONYMOUS"
    assert "0123" not in repr(NAMES)


def test_usage_keeps_all_but_names_and_addresses():
    """Client id and counts are as they were."""
    rows = [
        {"principal": "User:billing", "client_host": None, "client_id": "bill", "count": 3},
        {"principal": None, "client_host": "10.0.0.7"},
    ]
    first, second = hidden("api_usage", API_USAGE, rows)
    assert (first["principal"], first["client_host"]) == (NAMES.of("User:billing"), None)
    assert (first["client_id"], first["count"]) == ("bill", 3)
    assert (second["principal"], second["client_host"]) == (None, NAMES.of("10.0.0.7"))


def test_members_of_groups_have_no_addresses():
    """A member without an address, and a record without members, stay as they are."""
    member = {"member_id": "m", "instance_id": None, "client_id": "audit", "client_host": "/10.0.0.7", "model": None}
    rows = [{"members": [member, member | {"client_host": None}]}, {"members": None}]
    first, second = hidden("coordinator_records", COORDINATOR_RECORDS, rows)
    assert first["members"] == [member | {"client_host": NAMES.of("10.0.0.7")}, member | {"client_host": None}]
    assert second["members"] is None


def test_the_hash_of_a_line_has_the_key():
    """A line consists of what can be guessed and of an address, which could be tried otherwise."""
    rows = [{"hash": "0f1e2d3c4b5a6978", "connection": "10.0.0.1:9092-10.0.0.7:5000-0"}, {"hash": None}]
    first, second = hidden("log_lines", LOG_LINES, rows)
    assert (first["hash"], second["hash"]) == (NAMES.of("0f1e2d3c4b5a6978"), None)
    assert first["hash"] != OTHERS.of("0f1e2d3c4b5a6978")


def test_the_quarantine_keeps_no_text_of_lines():
    """The reason why a file cannot be read stays."""
    rows = [
        {"reason": "cut", "raw": "User:billing", "whole": True},
        {"reason": "unreadable", "raw": "bad gzip", "whole": False},
    ]
    assert [(row["raw"], row["whole"]) for row in hidden("quarantine", QUARANTINE, rows)] == [
        ("", False),
        ("bad gzip", False),
    ]


def test_the_key_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A line break behind it does not count."""
    (tmp_path / "key").write_bytes(b"0123456789abcdef\n")
    monkeypatch.setenv("FLEET_KEY", "0123456789abcdef")
    for where in (str(tmp_path / "key"), "env:FLEET_KEY"):
        found = pseudonyms(options(tmp_path, "--hash-principals", where))
        assert found is not None
        assert found.of("User:billing") == NAMES.of("User:billing")
    assert pseudonyms(options(tmp_path)) is None


@pytest.mark.parametrize(
    ("where", "says"),
    [("env:NO_SUCH_KEY", "fewer than 16 bytes: make one by 'openssl rand -hex 32'"), ("no-file", "cannot be read: No")],
)
def test_a_missing_key_is_refused(tmp_path: Path, where: str, says: str):
    """An empty key would make hashes that anybody can try."""
    with pytest.raises(CommandError, match=says):
        pseudonyms(options(tmp_path, "--hash-principals", where))


def test_tables_have_the_hashes_of_one_key(tmp_path: Path):
    """Under another key, or in the clear, one client would be two."""
    keep_names(tmp_path, "c", NAMES)
    keep_names(tmp_path, "c", NAMES)
    assert "0123" not in (tmp_path / ".c.names").read_text()
    with pytest.raises(ConfigError, match="are hashed: give their key by --hash-principals"):
        keep_names(tmp_path, "c", None)
    with pytest.raises(ConfigError, match="are hashed by another key"):
        check_names(tmp_path, "c", OTHERS)


def test_tables_of_an_older_release_have_names_in_the_clear(tmp_path: Path):
    """No release before has hashed them."""
    (tmp_path / "_checkpoints" / "c").mkdir(parents=True)
    with pytest.raises(ConfigError, match="are in the clear: give another folder"):
        keep_names(tmp_path, "c", NAMES)
    keep_names(tmp_path, "c", None)


@pytest.mark.parametrize("unset", ["", " "])
def test_no_name_is_forgotten_where_none_is_given(tmp_path: Path, unset: str, capsys: pytest.CaptureFixture[str]):
    """As by a variable of a shell that is not set: each line has the empty text."""
    with pytest.raises(SystemExit):
        options(tmp_path, "--principal", unset, action="forget")
    assert "no name is given" in capsys.readouterr().err


def test_a_name_is_not_forgotten_without_the_key(tmp_path: Path):
    """It is in no table, so that the command would find no rows and seem done."""
    keep_names(tmp_path, "c", NAMES)
    args = options(tmp_path, "--principal", "User:billing", action="forget")
    with pytest.raises(ConfigError, match="are hashed: give their key"):
        forget.run(args)


def test_a_principal_is_forgotten_by_its_name_or_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The rows have its hash alone, which the command takes without a key."""
    monkeypatch.setenv("FLEET_KEY", "0123456789abcdef")
    monkeypatch.setattr(forget, "run_removal", lambda _, made: made(None))
    monkeypatch.setattr(forget, "_removal", str)
    keep_names(tmp_path, "c", NAMES)
    by_name = ("--principal", "User:billing", "--hash-principals", "env:FLEET_KEY")
    assert forget.run(options(tmp_path, *by_name, action="forget")) == NAMES.of("User:billing")
    by_hash = ("--principal", NAMES.of("User:billing"))
    assert forget.run(options(tmp_path, *by_hash, action="forget")) == NAMES.of("User:billing")


def test_a_disk_that_takes_nothing_does_not_change_the_key_of_the_tables(tmp_path: Path):
    """An empty file in place of the key would refuse each run from then on."""
    (tmp_path / "full").write_text("no folder")
    with pytest.raises(TablesBroken, match="cannot be written: Not a directory"):
        keep_names(tmp_path / "full", "c", None)
    keep_names(tmp_path, "c", None)
    check_names(tmp_path, "c", None)
