"""Paths and URIs of logs and tables, and logs of a storage."""

import gzip
import socket
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from fleet_runs import Runs, lines
from hdfs_backend import of_hdfs_native
from object_store import BUCKET, object_store, use_s3

pytest.importorskip("upath")
pytest.importorskip("pyarrow")


from featuregate.errors import ConfigError
from featuregate_fleet.errors import StorageFailed
from featuregate_fleet.evidence.paths import IN_UTC, LogFile, LogTimes, log_file
from featuregate_fleet.files import storage
from featuregate_fleet.files.pieces import Piece, PieceReader
from featuregate_fleet.files.storage import is_below, list_logs, path_at, reached, spark_path, storage_path, uri_of
from featuregate_fleet.files.texts import Beginning, beginning_of
from featuregate_fleet.runs import log_files
from featuregate_fleet.runs.known_sources import KnownSources
from featuregate_fleet.runs.log_files import LogFolder
from featuregate_fleet.tables.source_reader import SourceAt, lost


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store() as endpoint:
        yield endpoint


@pytest.fixture
def lake(store: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    use_s3(store, monkeypatch)
    return storage_path("tables", f"s3://{BUCKET}/{request.node.name.partition('[')[0]}")


@pytest.mark.parametrize(
    ("given", "of_spark"),
    [
        ("s3://lake/a b/t", "s3a://lake/a b/t"),
        ("s3a://lake/t/", "s3a://lake/t"),
        ("S3A://lake", "s3a://lake/"),
        ("webhdfs://name-node:9870/t", "webhdfs://name-node:9870/t"),
    ],
)
def test_spark_gets_its_own_spelling_of_a_uri(given: str, of_spark: str) -> None:
    """Hadoop has s3a:// where fsspec has s3://, and universal-pathlib drops the host of HDFS."""
    path = storage_path("tables", given)
    assert spark_path(path) == of_spark
    below = path / "1" / "x %2F#é.log"
    assert spark_path(path_at(uri_of(below))) == f"{of_spark.rstrip('/')}/1/x %2F#é.log"
    assert log_file(uri_of(path).rstrip("/"), uri_of(below), 1).path == "1/x %2F#é.log"
    assert is_below(below, path)
    assert not is_below(path, below)
    assert not is_below(Path("/t/x"), path)


def test_the_account_of_azure_stays_in_the_uri() -> None:
    """A container has no meaning without it."""
    pytest.importorskip("adlfs")
    uri = "abfss://lake@account.dfs.core.windows.net/kafka"
    assert spark_path(storage_path("tables", uri) / "t") == f"{uri}/t"
    assert uri_of(path_at(f"{uri}/a%20b")) == f"{uri}/a%20b"


@pytest.mark.skipif(find_spec("adlfs") is not None, reason="the backend is installed")
def test_a_backend_that_is_missing_is_named_with_its_extra() -> None:
    """fsspec does not know each scheme without it."""
    with pytest.raises(ConfigError, match=r"needs the backend of abfss:// .*pip install '\.\[fleet-azure\]'"):
        storage_path("tables", "abfss://lake@account.dfs.core.windows.net/kafka")


def test_a_file_whose_backend_an_executor_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its time is asked for, which lines without a year need: one file may not end the reading of others."""
    monkeypatch.setitem(sys.modules, "upath", None)
    file = LogFile(f"s3a://{BUCKET}/1/a.log", "1/a.log", "1", 9, LogTimes(layout="%b %d %H:%M:%S"))
    reader = PieceReader(Piece(file))
    assert list(reader.parts()) == []
    assert reader.about()["reason"] == "unreadable"
    assert "universal-pathlib" in str(reader.about()["why"])


def test_paths_and_uris_of_this_machine_stay_what_they_are(tmp_path: Path) -> None:
    """They need no backend."""
    for given in (tmp_path, str(tmp_path), tmp_path.as_uri(), f"file:{tmp_path}"):
        assert storage_path("tables", given) == tmp_path
    assert spark_path(tmp_path / "a b%20") == f"{tmp_path}/a b%20"
    assert path_at((tmp_path / "a b%20").as_uri()) == tmp_path / "a b%20"
    assert storage_path("tables", "s3:name") == Path("s3:name"), "a colon without slashes is a name"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("ftp://host/t", "is a URI of a storage that cannot be used here"),
        ("s3n://lake/t", "is a URI of a storage that cannot be used here"),
        ("s3:/lake/t", "names no bucket: write it behind s3://"),
        ("s3:///t", "names no bucket"),
        ("hdfs:///t", "names no name node"),
        ("abfss:///t", "names no container and account"),
        ("abfss://account.dfs.core.windows.net/t", r"must name CONTAINER@ACCOUNT\.dfs\."),
        ("abfss://lake/t", "must name CONTAINER@ACCOUNT"),
        ("abfss://lake@account.example.org/t", "must name CONTAINER@ACCOUNT"),
        ("s3://key:hidden@lake/t", "has a password in it"),
        ("dbfs:/t", "is a URI of a storage that cannot be used here"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_without_its_text(given: str, problem: str) -> None:
    """No option makes a folder out of it, and a URI may hold a key."""
    with pytest.raises(ConfigError, match=problem) as refused:
        storage_path("tables", given)
    assert "hidden" not in str(refused.value)


def test_a_storage_that_does_not_answer_is_said_in_one_line(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each backend has errors of its own."""
    assert reached("tables", lake) == lake
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3 = pytest.importorskip("s3fs").S3FileSystem
    s3.clear_instance_cache()
    monkeypatch.setattr(s3, "retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(ConfigError, match=r"s3a://lake/\S+ cannot be reached: .*127.0.0.1:9") as refused:
        reached("tables", storage_path("tables", str(lake)))
    assert "\n" not in str(refused.value)


def test_a_storage_that_is_silent_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backends ask again and again, or look for credentials at many places: a person waits for two minutes at most."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        use_s3(f"http://127.0.0.1:{server.getsockname()[1]}", monkeypatch)
        with pytest.raises(ConfigError, match=r"^tables: s3a://lake/t has not answered within 0\.2 seconds"):
            reached("tables", storage_path("tables", "s3://lake/t"), within=0.2)


@pytest.mark.parametrize("name", ["a b%20é.log", "1.log.gz"])
def test_a_log_of_a_storage_is_read_like_one_of_a_disk(lake: Path, tmp_path: Path, name: str) -> None:
    """The lines, their places and the content are the same."""
    text = b"".join(b"10:00:00 line %d\n" % number for number in range(9_000))
    found = []
    for folder in (lake, tmp_path):
        path = folder / "1" / name
        if folder is tmp_path:
            path.parent.mkdir()
        path.write_bytes(gzip.compress(text, mtime=0) if name.endswith("gz") else text)
        file = log_file(uri_of(folder), uri_of(path), path.stat().st_size)
        assert file.path == f"1/{name}"
        (piece,) = LogFolder(folder, IN_UTC).look(KnownSources.nothing())[0]
        reader = PieceReader(piece)
        lines = [row for batch in reader.parts() for row in batch.to_pylist()]
        about = reader.about()
        found.append((lines, reader.file.source if name.endswith("gz") else None, about["position"], about["tail"]))
    assert len(found[0][0]) == 9_000
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_each_look_opens_a_file_of_a_storage_once(lake: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A storage answers after some tens of milliseconds, and there may be very many small files."""
    path = lake / "1" / name
    path.write_bytes(gzip.compress(b"line\n") if name.endswith("gz") else b"line\n")
    file, times, opened = log_file(uri_of(lake), uri_of(path), path.stat().st_size), [0], type(lake).open

    def counted(path: Path, *arguments: object) -> object:
        times[0] += 1
        return opened(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(lake), "open", counted)
    assert beginning_of(file) == Beginning(b"line\n", packed=name.endswith("gz"))
    (lines,) = PieceReader(Piece(file, end=None if name.endswith("gz") else file.size)).parts()
    assert lines["value"].to_pylist() == ["line"]
    assert times == [2]  # for its beginning and for its lines


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_an_object_without_a_time_is_read(lake: Path, name: str) -> None:
    """It is known by the time at which it was written, as the storage says it, and by its path."""
    path = lake / name.replace(".", "-") / "1" / name
    path.write_bytes(gzip.compress(b"starting\n") if name.endswith("gz") else b"starting\n")
    (piece,) = LogFolder(path.parent.parent, IN_UTC).look(KnownSources.nothing())[0]
    reader = PieceReader(piece)
    (lines,) = reader.parts()
    assert lines["value"].to_pylist() == ["starting"]
    assert reader.about()["reason"] is None


def test_an_object_that_was_replaced_before_it_was_read_is_named(lake: Path) -> None:
    """Nothing else is looked for: a storage renames no file."""
    path = lake / "1" / "a.log"
    path.write_bytes(b"10:00:01 first\n" * 300)
    (piece,) = LogFolder(lake, IN_UTC).look(KnownSources.nothing())[0]
    path.write_bytes(b"10:00:02 other\n" * 300)
    reader = PieceReader(piece)
    assert list(reader.parts()) == []
    assert reader.about()["reason"] == "vanished"


def test_a_storage_is_asked_for_several_files_at_once(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers after some tens of milliseconds each; on a disk threads take longer than the looks."""
    together, threads = threading.Barrier(8, timeout=60), set()

    def beginning(file: LogFile) -> Beginning:
        threads.add(threading.get_ident())
        if file.uri.startswith("s3"):
            together.wait()
        return Beginning(file.path.encode(), packed=False)

    monkeypatch.setattr(log_files, "beginning_of", beginning)
    monkeypatch.setattr(log_files, "read_before", lambda *_: None)
    for folder, of_this_process in ((lake, False), (tmp_path, True)):
        threads.clear()
        (folder / "1").mkdir(parents=True, exist_ok=True)
        for number in range(8):
            (folder / "1" / str(number)).write_bytes(b"one\n")
        pieces, more = LogFolder(folder, IN_UTC).look(KnownSources.nothing())
        assert ([piece.file.path for piece in pieces], more) == ([f"1/{number}" for number in range(8)], False)
        assert (threads == {threading.get_ident()}) is of_this_process


def test_an_object_is_whole_and_a_file_of_hdfs_may_grow(lake: Path) -> None:
    """HDFS has the time at which a file was written: the last line of one may get its end later."""
    path = lake / "1" / "a.log"
    path.write_bytes(b"abc")
    (found,), _ = list_logs(lake, datetime.now(UTC))
    assert (found.size, found.still) == (3, True)
    path.write_bytes(b"abd")
    assert list_logs(lake, datetime.now(UTC))[0][0].stamp != found.stamp
    for name in ("modificationTime", "modification_time"):
        for now, still in ((1_800_003_600, False), (1_800_003_601, True)):
            of_hdfs = storage._listed("", {"size": 3, name: 1_800_000_000_000}, now, may_grow=True)
            assert of_hdfs == ("", 3, "1800000000000", still)


def test_a_file_that_is_gone_is_not_a_storage_that_failed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is missing; the storage ends the run, and the next one reads the file."""
    file = log_file(uri_of(lake), uri_of(lake / "1" / "gone.log"), 9)
    reader = PieceReader(Piece(file, end=9))
    assert list(reader.parts()) == []
    assert reader.about()["reason"] == "vanished"
    opened = type(lake).open

    def broken(path: Path, *arguments: object) -> object:
        if "gone" in str(path):
            raise OSError(5, "the storage is slow down")
        return opened(path, *arguments)

    monkeypatch.setattr(type(lake), "open", broken)
    for read in (beginning_of, lambda file: list(PieceReader(Piece(file, end=9)).parts())):
        with pytest.raises(StorageFailed, match="slow down"):
            read(file)


def test_an_object_that_may_be_read_later_is_read(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stamp stays the same. As long as it may not be read, nothing is committed again."""
    path = lake / "1" / "a.log"
    path.write_bytes(lines(1, 2))
    opened = type(lake).open

    def denied(path: Path, *arguments: object) -> object:
        raise PermissionError(13, "Access Denied")

    monkeypatch.setattr(type(lake), "open", denied)
    runs = Runs(lake)
    runs.run()
    assert runs.missing == {"unreadable"}
    assert runs.run() == []
    monkeypatch.setattr(type(lake), "open", opened)
    runs.run()
    assert runs.clients == {"c1": 1, "c2": 1}
    said = [
        SourceAt(*({**row, "batch": batch}[name] for name in SourceAt._fields))
        for batch, row in enumerate(runs.sources)
    ]
    assert lost(said) == []
    assert runs.run() == []


def test_hdfs_takes_the_backend_without_libraries_of_hadoop():
    """It refuses options that are no texts."""
    with of_hdfs_native():
        path = storage_path("--logs", "hdfs://name-node:8020/logs")
        assert spark_path(path) == "hdfs://name-node:8020/logs"
