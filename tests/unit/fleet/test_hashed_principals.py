"""Hashes in place of principals and addresses, and the key that makes them."""

import argparse
import pickle
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from fleet_rows import by_kind  # noqa: E402 - after the check for the extra

from featuregate.errors import ConfigError  # noqa: E402 - likewise
from featuregate_fleet import command  # noqa: E402 - likewise
from featuregate_fleet.commands.options.tables import pseudonyms  # noqa: E402 - likewise
from featuregate_fleet.evidence.columns import rows_from  # noqa: E402 - likewise
from featuregate_fleet.evidence.pseudonyms import Pseudonyms  # noqa: E402 - likewise
from featuregate_fleet.evidence.usage import add_up  # noqa: E402 - likewise

NAMES = Pseudonyms(b"0123456789abcdef")
OTHERS = Pseudonyms(b"fedcba9876543210")


def rows_with_hashes(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return by_kind(add_up([rows_from(kind, rows)], pickle.loads(pickle.dumps(NAMES))))[kind]


def options(tables: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    return parser.parse_args(["run", "--tables", str(tables), "--cluster", "c", *more])


def test_a_hash_is_of_the_name_and_the_key():
    """Rows of one client add up, and another key gives another hash."""
    assert NAMES.of("User:billing") == NAMES.of("User:billing") != OTHERS.of("User:billing")
    assert NAMES.of(NAMES.of("User:billing")) == NAMES.of("User:billing")
    assert NAMES.of("/10.0.0.7") == NAMES.of("10.0.0.7")
    assert NAMES.of("User:ANONYMOUS") == "User:ANONYMOUS"
    assert "0123" not in repr(NAMES)


def test_usage_keeps_all_but_names_and_addresses():
    """Client id and counts are as they were. The same connection has the same hash in all rows."""
    connection = "10.0.0.1:9092-10.0.0.7:5000-0"
    rows = [
        {"principal": "User:billing", "client_host": None, "client_id": "bill", "count": 3},
        {"principal": None, "client_host": "10.0.0.7", "connection": connection, "outcome": "refused"},
    ]
    first, second = rows_with_hashes("usage", rows)
    assert (first["principal"], first["client_host"]) == (NAMES.of("User:billing"), None)
    assert (first["client_id"], first["count"], first["connection"]) == ("bill", 3, None)
    assert (second["principal"], second["client_host"]) == (None, NAMES.of("10.0.0.7"))
    assert second["connection"] == NAMES.of(connection) != OTHERS.of(connection)


def test_members_of_groups_have_no_addresses():
    """A member without an address, and a record without members, stay as they are."""
    member = {"member_id": "m", "instance_id": None, "client_id": "audit", "client_host": "/10.0.0.7", "model": None}
    rows = [{"members": [member, member | {"client_host": None}]}, {"members": None}]
    first, second = rows_with_hashes("record", rows)
    assert first["members"] == [member | {"client_host": NAMES.of("10.0.0.7")}, member | {"client_host": None}]
    assert second["members"] is None


def test_the_quarantine_keeps_no_text_of_lines():
    """Where a name stands in it is not known."""
    (row,) = rows_with_hashes("quarantine", [{"reason": "cut", "raw": "User:billing", "client_id": "bill"}])
    assert (row["raw"], row["reason"], row["client_id"]) == ("", "cut", "bill")


def test_rows_without_names_stay_as_they_are():
    """Those of other kinds, and all where no key is given."""
    sources, usage = rows_from("source", [{"path": "1/a"}]), rows_from("usage", [{"principal": "User:billing"}])
    assert list(add_up([sources], NAMES)) == [sources]
    assert [row["principal"] for row in by_kind(add_up([sources, usage]))["usage"]] == ["User:billing"]


def test_the_key_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A line break behind it does not count."""
    (tmp_path / "key").write_bytes(b"0123456789abcdef\n")
    monkeypatch.setenv("FLEET_KEY", "0123456789abcdef")
    for where in (str(tmp_path / "key"), "env:FLEET_KEY"):
        found = pseudonyms(options(tmp_path, "--hash-principals", where))
        assert found is not None
        assert found.of("User:billing") == NAMES.of("User:billing")
    assert pseudonyms(options(tmp_path)) is None


def test_a_key_that_anybody_may_guess_is_refused():
    """From Python, too: a variable that is not set is an empty key."""
    for key in (b"", b"0123456789abcde", b" " * 32):
        with pytest.raises(ConfigError, match="pseudonyms: the key has fewer than 16 bytes"):
            Pseudonyms(key)
