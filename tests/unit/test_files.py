"""Paths of files, and files that are replaced as a whole."""

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from transcripts import retold, sections

import featuregate as fg
from featuregate.clients.requirements_files import requirements_in
from featuregate.config.tls import Material
from featuregate.credentials.keystores import trusted_certificates
from featuregate.errors import ConfigError, LatchStoreError
from featuregate.files import local_path, read_file, replace_file, turn
from featuregate.gating.latch_store import FileLatchStore, read_latch_file
from featuregate.health.file import read_health, write_health
from featuregate.testing import FakeCluster
from featuregate_confluent.member.process_name import claim_process_name
from featuregate_fleet.commands.options.tables import pseudonyms
from featuregate_fleet.commands.update_evidence import check_updates


def path_of(text: str) -> object:
    try:
        return local_path("latch_store", ast.literal_eval(text))
    except ConfigError as error:
        return error.problem


def test_paths_are_taken_or_refused_as_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """pathlib would take a URI for a folder below the current one, also where it has made one slash of two."""
    monkeypatch.setenv("HOME", "/home/app")
    (kept,) = sections(__file__, "paths.txt").values()
    assert retold(kept, path_of) == kept
    for uri in (ast.literal_eval(line.split(" => ")[0]) for line in kept.splitlines() if " is a URI" in line):
        if uri[0] != " " and "another.host" not in uri:
            with pytest.raises(ConfigError, match="is a URI"):
                local_path("latch_store", Path(uri))


@pytest.mark.parametrize(
    ("key", "call"),
    [
        ("latch_store", lambda uri: fg.Discoverer("localhost:9092", latch_store=uri)),
        ("latch_store", lambda uri: fg.Discoverer("localhost:9092", latch_store=Path(uri))),
        ("latch_store", FileLatchStore),
        ("state_dir", lambda uri: claim_process_name("orders", state_dir=uri)),
        ("health", read_health),
        ("config", lambda uri: fg.discover(Path(uri))),
        ("--evidence", lambda uri: check_updates(uri, "c", [], cluster_id=None, reports_expected=False)),
        ("--hash-principals", lambda uri: pseudonyms(_Arguments(uri))),
    ],
)
def test_every_path_of_the_api_refuses_a_uri(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, call: Callable[[str], object]
) -> None:
    """Nothing is written below the current folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="is a URI") as caught:
        call("ftp://bucket/a")
    assert caught.value.key == key
    assert list(tmp_path.iterdir()) == []


def test_health_is_not_written_to_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file would be on the disk of the pod."""
    monkeypatch.chdir(tmp_path)
    with FakeCluster() as cluster, fg.Discoverer(cluster.bootstrap) as features:
        with pytest.raises(ConfigError, match="is a URI"):
            write_health(features, "dbfs:/health.json")
        write_health(features, (tmp_path / "health.json").as_uri())
    assert [path.name for path in tmp_path.iterdir()] == ["health.json"]


class _Arguments:
    def __init__(self, hash_principals: str) -> None:
        self.hash_principals = hash_principals


def test_the_last_of_two_writers_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that another one overtakes replaces the file, too, and both writers succeed."""
    path, flush = tmp_path / "file", os.fsync

    def overtaken(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", flush)
        replace_file(path, "of the other")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", overtaken)
    replace_file(path, "of the slower one")
    assert path.read_text() == "of the slower one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays as it was."""
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_that_is_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write into the folder could otherwise empty any file of the app's user."""
    precious = tmp_path / "precious"
    precious.write_text("text")
    (tmp_path / "latches.lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"), turn(tmp_path / "latches.json"):
        pass
    assert precious.read_text() == "text"


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """One byte more is refused."""
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_file(file, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_file(file, 4)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """The error is that of Python."""
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Make a named pipe that nobody writes to: whoever opens it to read waits for ever."""
    os.mkfifo(path := tmp_path / "pipe")
    return path


@pytest.mark.parametrize("device", ["pipe", "/dev/zero"])
def test_what_would_never_end_is_not_read(pipe: Path, device: str) -> None:
    """A pipe without a writer, and a device."""
    with pytest.raises(OSError, match="a pipe or a device"):
        read_file(pipe if device == "pipe" else Path(device))


def test_no_door_waits_for_the_writer_of_a_pipe(pipe: Path) -> None:
    """Latches, keys, requirements and the health file: each is one error that says why."""
    problem = "a pipe or a device"
    with pytest.raises(LatchStoreError, match=problem):
        read_latch_file(pipe)
    with pytest.raises(ConfigError, match=problem):
        trusted_certificates(Material(key="ssl.ca.location", location=str(pipe)))
    with pytest.raises(OSError, match=problem):
        requirements_in(pipe)
    with pytest.raises(ConfigError, match=problem):
        read_health(pipe)


def test_the_pipe_of_a_command_is_a_file_for_each_door() -> None:
    """``fit --requirements <(pip freeze)``: the shell has started its writer, which ends."""
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb") as pipe:
        pipe.write(b"confluent-kafka==2.6.0")
        pipe.close()
        assert read_file(Path(f"/dev/fd/{reader}")) == b"confluent-kafka==2.6.0"
