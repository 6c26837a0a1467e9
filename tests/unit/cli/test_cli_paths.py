"""Options that are the path of a file or folder: none of them makes a folder out of a URI."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from featuregate.cli.arguments.options import local_path_argument
from featuregate.cli.arguments.parser import all_plugins, build_parser
from featuregate.testing import FakeCluster
from featuregate_fleet.commands.options.tables import storage_argument, tables_argument

if TYPE_CHECKING:
    from conftest import Run

CHECKED_BY_THE_COMMAND = {"command_config", "source", "hash_principals", "evidence", "log"}
"""What reads them refuses a URI."""


@pytest.mark.parametrize(
    "command",
    [
        "fleet run --once --cluster c --tables ftp://bucket/a --logs logs",
        "fleet run --once --cluster c --tables t --logs s3n://bucket/a",
        "fleet run --once --cluster c --tables t --logs logs --hash-principals ftp://bucket/a",
        "fleet peek s3://bucket/a --to 4.2",
        "readiness --cluster c --to 4.2 --tables sftp://bucket/a",
        "readiness --cluster c --to 4.2 --tables t --html s3://bucket/a",
        "fleet tidy --cluster c --tables file://other.host/a",
        "fleet tidy --cluster c --tables t --older-than 9 --logs ftp://bucket/a",
        "serve --bootstrap-server BROKERS --check-config --latches s3://bucket/a",
        "serve --config s3://bucket/a",
        "describe --command-config s3://bucket/a",
        "plan upgrade --bootstrap-server BROKERS --feature group.version=1 --latches s3://bucket/a",
        "plan upgrade --bootstrap-server BROKERS --feature group.version=1 --evidence ftp://b --evidence-cluster c",
        "health s3://bucket/a",
    ],
)
def test_a_uri_is_refused_by_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """The command ends before it writes below the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "log").touch()
    with FakeCluster() as brokers:
        ended = run(*command.replace("BROKERS", brokers.bootstrap).split())
    assert ended.code == (2 if command.startswith("health") else 1 if command.startswith("describe") else 64)
    refused = (
        "is a URI, and only files and folders of this machine can be used",
        "is a URI of a storage that cannot be",
    )
    assert any(text in ended.err for text in refused)
    assert "bucket" not in ended.err.partition(" is a URI")[2]
    assert {path.name for path in tmp_path.iterdir()} <= {"log", "logs", "t"}


def test_every_option_for_a_path_refuses_uris() -> None:
    """A new option with FILE, DIR or PATH must have one of the types, or read its path as they do."""
    options = {
        (action.dest, action.type)
        for action in _actions(build_parser(all_plugins()))
        if action.metavar in {"FILE", "DIR", "PATH", "FOLDER", "FILE|env:NAME"}
    }
    others = {dest for dest, kind in options if kind not in {local_path_argument, storage_argument, tables_argument}}
    assert others == {*CHECKED_BY_THE_COMMAND, "latches"}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
