"""The way of a move, and wrong usage of the command, for which nothing starts."""

import json
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="an extra")

from featuregate.catalog import metadata_level_named
from featuregate.cli import main
from featuregate.cli.commands import rehearse
from featuregate.rehearsal.rehearsal import lowest_level, route

MOVE = ("--from", "3.9.2", "--to", "4.2.0")


def test_the_way_is_direct_unless_releases_are_named() -> None:
    assert route("3.6.2", "4.3.1") == ("3.6.2", "4.3.1")
    assert route("3.6.2", "4.3.1", ["3.9.2"]) == ("3.6.2", "3.9.2", "4.3.1")


def test_a_release_needs_a_level_before_it_starts() -> None:
    assert lowest_level("4.0.0") == metadata_level_named("3.3-IV3").level
    assert lowest_level("3.9.2") <= 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "4.2.0"), "--from a release"),
        ((*MOVE, "--in", "orders", "--app", "x"), "go together"),
        ((*MOVE, "--in", "orders", "--out", "bills"), "need an --app"),
        ((*MOVE, "--in", "orders:3", "--out", "orders", "--app", "x"), "name one topic"),
        ((*MOVE, "--app", "x", "--env", "NO_SUCH_VARIABLE"), "no such variable"),
        ((*MOVE, "--html", "no-such-folder/page.html"), "a folder that does not exist"),
        ((*MOVE, "--app", "x", "--command-config", __file__), "this file exists, and would be replaced"),
        ((*MOVE, "--app", "x", "--command-config", "no-such-folder/client.properties"), "a folder that does not exist"),
        (("--from", "2.8.2", "--to", "4.0.0"), "KIP-866"),
        (("--from", "2.8.2", "--via", "3.9.2", "--to", "4.0.0"), "KIP-866"),
        (("--from", "4.2.0", "--to", "3.9.2"), "3.9.2 is not newer than 4.2.0"),
        ((*MOVE, "--via", "4.3.1"), "4.2.0 is not newer than 4.3.1"),
        (("--from-cluster", "127.0.0.1:1", "--properties", "f", "--to", "4.2"), "without --from-cluster"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    """And no folder is made."""
    assert main(["rehearse", *options, "--folder", str(tmp_path / "f")]) == 64
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "f").exists()


def test_the_cluster_is_the_named_one_whatever_the_file_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file may be in Spark's spelling, in which no other name is read."""
    file = tmp_path / "client.properties"
    file.write_text("kafka.bootstrap.servers=127.0.0.1:2\nkafka.client.id=x\n")
    options = ("--from-cluster", "127.0.0.1:1", "--from-config", str(file), "--to", "4.2", "--folder", str(tmp_path))
    assert main(["rehearse", *options]) == 2
    said = capsys.readouterr().err
    assert "127.0.0.1:1" in said
    assert "127.0.0.1:2" not in said


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "\xff", '{"releases": ["3.9.2", "4.2.0"], "whole": false, "reached": {"x": 1}, "steps": []}'],
)
def test_a_file_that_is_no_runbook_is_named_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """A disk was full, or somebody has edited it."""
    kept = tmp_path / "runbook.json"
    kept.write_text(text, encoding="latin-1")
    assert main(["rehearse", *MOVE, "--folder", str(tmp_path)]) == 64
    assert f"{kept} is not a runbook" in capsys.readouterr().err
    assert kept.read_text(encoding="latin-1") == text


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["rehearse", *MOVE, "--folder", str(file)]) == 64
    assert f"--folder {file}: it cannot be made: File exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "readable", "unseen"),
    [
        (("--app", "x"), True, ["the addresses of its brokers, which no option"]),
        (("--app", "x", "--properties", "one"), True, ["the addresses of its other", "the address of kafka.invalid"]),
        (("--app", "x", "--properties", "one", "--yes"), False, ["other", "kafka.invalid", "this system"]),
        ((), False, []),
    ],
)
def test_where_nobody_sees_that_an_app_reaches_the_real_cluster_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], *, readable: bool, unseen: list[str]
) -> None:
    """An address that is not known is not watched."""
    monkeypatch.chdir(tmp_path)
    Path("one").write_text("listeners=PLAINTEXT://kafka.invalid:9092")
    monkeypatch.setattr(rehearse, "_rehearse", lambda *_: None)
    monkeypatch.setattr(rehearse, "READABLE", readable)
    main(["rehearse", *MOVE, *options, "--folder", "f"])
    told = [each for each in json.loads(Path("f/runbook.json").read_text())["not_copied"] if "is not seen" in each]
    assert len(told) == len(unseen)
    for text in unseen:
        assert any(text in each for each in told), told
