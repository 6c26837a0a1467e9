"""Paths and URIs of logs and tables, and what replaces renames and locks on a storage."""

import gzip
import socket
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hdfs_backend import of_hdfs_native
from object_store import BUCKET, object_store, use_s3

pytest.importorskip("upath")
pytest.importorskip("pyarrow")

import pyarrow as pa

from featuregate.errors import ConfigError
from featuregate_fleet.errors import StorageFailed, TablesBusy
from featuregate_fleet.evidence.paths import LogFile, log_file
from featuregate_fleet.evidence.text import Unreadable
from featuregate_fleet.files import parsing, storage
from featuregate_fleet.files.contents import content_of
from featuregate_fleet.files.opening import is_refused, open_log
from featuregate_fleet.files.parsing import look_at_files
from featuregate_fleet.files.pieces import pieces_of, read_piece
from featuregate_fleet.files.storage import is_below, path_at, path_in_uri, reached, spark_path, storage_path, uri_of
from featuregate_fleet.tables import locks
from featuregate_fleet.tables.kept_names import check_names, keep_names
from featuregate_fleet.tables.leases import lease
from featuregate_fleet.tables.locks import adding_report, no_other_writer, one_writer

SECONDS = 3.0
"""After which a lease has run out in these tests."""


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store() as endpoint:
        yield endpoint


@pytest.fixture
def lake(store: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Return a folder of its own on S3."""
    use_s3(store, monkeypatch)
    return storage_path("tables", f"s3://{BUCKET}/{request.node.name.partition('[')[0]}")


@pytest.mark.parametrize(
    ("given", "of_spark", "in_uri"),
    [
        ("s3://lake/a b/t", "s3a://lake/a b/t", "/a b/t"),
        ("s3a://lake/t/", "s3a://lake/t", "/t"),
        ("S3A://lake", "s3a://lake/", "/"),
        ("webhdfs://name-node:9870/t", "webhdfs://name-node:9870/t", "/t"),
    ],
)
def test_spark_gets_its_own_spelling_of_a_uri(given: str, of_spark: str, in_uri: str) -> None:
    """Hadoop has s3a:// where fsspec has s3://, and universal-pathlib drops the host of HDFS."""
    path = storage_path("tables", given)
    assert (spark_path(path), path_in_uri(path)) == (of_spark, in_uri)
    below = path / "1" / "x %2F#é.log"
    assert spark_path(path_at(uri_of(below))) == f"{of_spark.rstrip('/')}/1/x %2F#é.log"
    assert log_file(path_in_uri(path), uri_of(below), 1).path == "1/x %2F#é.log"
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
    with pytest.raises(ConfigError, match=r"needs the backend of abfss://, pip install '\.\[fleet-azure\]'"):
        storage_path("tables", "abfss://lake@account.dfs.core.windows.net/kafka")


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
        ("dbfs:/t", "is a URI of Databricks"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_without_its_text(given: str, problem: str) -> None:
    """No option makes a folder out of it, and a URI may hold a key."""
    with pytest.raises(ConfigError, match=problem) as refused:
        storage_path("tables", given)
    assert "hidden" not in str(refused.value)


def test_the_file_system_of_databricks_is_a_folder_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes the folder, and Spark the URI."""
    monkeypatch.setattr(storage, "_DBFS", tmp_path)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert storage_path("tables", "dbfs:/lake/t") == tmp_path / "lake/t"
    assert spark_path(tmp_path / "lake/t") == "dbfs:/lake/t"
    assert path_at("dbfs:/lake/a%20b") == tmp_path / "lake/a b"


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
    text = b"".join(b"line %d\n" % number for number in range(9_000))
    found = []
    for folder in (lake, tmp_path):
        path = folder / "1" / name
        if folder is tmp_path:
            path.parent.mkdir()
        path.write_bytes(gzip.compress(text, mtime=0) if name.endswith("gz") else text)
        file = log_file(path_in_uri(folder), uri_of(path), path.stat().st_size)
        assert file.path == f"1/{name}"
        assert not is_refused(folder, file.path)
        batches = [batch.to_pydict() for piece in pieces_of(file) for batch in read_piece(piece)]
        found.append((batches, content_of(file)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_each_look_opens_a_file_of_a_storage_once(lake: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A storage answers after some tens of milliseconds, and there may be very many small files."""
    path = lake / "1" / name
    path.write_bytes(gzip.compress(b"line\n") if name.endswith("gz") else b"line\n")
    file, times, opened = log_file(path_in_uri(lake), uri_of(path), path.stat().st_size), [0], type(lake).open

    def counted(path: Path, *arguments: object) -> object:
        times[0] += 1
        return opened(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(lake), "open", counted)
    file = file._replace(content=content_of(file))
    (piece,) = pieces_of(file)
    (lines,) = read_piece(piece)
    assert lines["value"].to_pylist() == ["line"]
    assert times == [2]  # for its content and for its lines


def test_an_object_that_was_replaced_before_it_was_read_is_named(lake: Path) -> None:
    """Nothing else is looked for: a storage renames no file."""
    path = lake / "1" / "a.log"
    path.write_bytes(b"first\n" * 300)
    file = log_file(path_in_uri(lake), uri_of(path), path.stat().st_size)
    (piece,) = pieces_of(file._replace(content=content_of(file)))
    path.write_bytes(b"other\n" * 300)
    (failed,) = read_piece(piece)
    assert isinstance(failed, Unreadable)
    assert failed.reason == "vanished"


def test_a_storage_is_asked_for_several_files_at_once(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers after some tens of milliseconds each; on a disk threads take longer than the looks."""
    together, threads = threading.Barrier(8, timeout=60), set()

    def content(file: LogFile) -> str:
        threads.add(threading.get_ident())
        if file.uri.startswith("s3"):
            together.wait()
        return "content"

    monkeypatch.setattr(parsing, "content_of", content)
    for folder, of_this_process in ((lake, False), (tmp_path, True)):
        threads.clear()
        listed = pa.RecordBatch.from_pydict({"uri": [uri_of(folder / str(n)) for n in range(8)], "size": [1] * 8})
        (found,) = look_at_files([listed], root=path_in_uri(folder))
        assert found["content"].to_pylist() == ["content"] * 8
        assert (threads == {threading.get_ident()}) is of_this_process


def test_the_time_of_a_file_is_a_number_where_a_new_name_changes_it(lake: Path) -> None:
    """HDFS keeps it: a file of that size and an older time may be another one, and is opened."""
    path = lake / "1" / "a.log"
    path.write_bytes(b"abc")
    assert storage.stamps_below(lake)("1/a.log") == (3, int(path.stat().st_mtime) * 10**9)
    for name in ("modificationTime", "modification_time"):
        assert storage._stamp_of({"size": 3, name: 1_800_000_000_000}) == (3, "1800000000000")


def test_a_file_that_is_gone_is_not_a_storage_that_failed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file goes to the quarantine; the storage ends the run, and the next one reads the file."""
    file = log_file(path_in_uri(lake), uri_of(lake / "1" / "gone.log"), 9)
    (unread,) = read_piece(pieces_of(file)[0])
    assert unread.reason == "vanished"
    opened = type(lake).open

    def broken(path: Path, *arguments: object) -> object:
        if "gone" in str(path):
            raise OSError(5, "the storage is slow down")
        return opened(path, *arguments)

    monkeypatch.setattr(type(lake), "open", broken)
    for read in (open_log, content_of):
        with pytest.raises(StorageFailed, match="slow down"):
            read(file)


def leased_names(folder: Path) -> set[str]:
    """Return the names of the locks in a folder, as ``lease`` has got them."""
    return {path.name.rpartition(".")[0] for path in folder.glob(".*.lock.*")} if folder.exists() else set()


def test_one_process_has_a_lease(lake: Path) -> None:
    """Another one is refused while the first one lives, and gets it at once after the end of the first one."""
    lock = lake / ".orders.lock"
    with lease(lock, "it is taken", seconds=SECONDS):
        with pytest.raises(TablesBusy, match="it is taken"), lease(lock, "it is taken", seconds=SECONDS):
            pytest.fail("two have it")
        assert leased_names(lake) == {".orders.lock"}
    with lease(lock, "it is taken", seconds=600):
        assert len(list(lake.glob(".orders.lock.*"))) == 1, "older objects are removed"


def test_a_lease_whose_holder_was_killed_runs_out(lake: Path) -> None:
    """Its object does not change any more."""
    (lake / ".orders.lock.000000000007").write_text("what a killed process has written")
    with lease(lake / ".orders.lock", "it is taken", seconds=SECONDS):
        assert [path.name for path in lake.glob(".orders.lock.*")] == [".orders.lock.000000000008"]


def test_a_holder_that_lost_its_turn_says_so(lake: Path) -> None:
    """A process that was suspended cannot know what another one has written since."""
    lock = lake / ".orders.lock"
    with pytest.raises(TablesBusy, match="may have lost its turn"), lease(lock, "it is taken", seconds=SECONDS):
        _take_over(lock.with_name(f"{lock.name}.000000000009"))


def _take_over(lease_of_another: Path) -> None:
    lease_of_another.write_text("another process")
    holder = next(thread for thread in threading.enumerate() if thread.name == "featuregate fleet lease")
    holder.join(60)


def test_many_processes_at_once_get_one_lease(lake: Path) -> None:
    """The storage makes an object of a name once."""
    have: list[int] = []
    both: list[list[int]] = []

    def take(number: int) -> None:
        with lease(lake / ".orders.lock", "it is taken", wait=120, seconds=SECONDS):
            have.append(number)
            both.append([*have])
            have.remove(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(both) == [[0], [1], [2], [3]]


def test_a_storage_without_conditions_is_refused(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs would take the same number."""
    opened = type(lake).open
    monkeypatch.setattr(type(lake), "open", lambda path, mode="r": opened(path, mode.replace("x", "w")))
    with pytest.raises(StorageFailed, match="replaces an object"), lease(lake / ".orders.lock", ""):
        pytest.fail("it is not safe")


def test_on_s3_one_process_writes_the_tables_of_all_clusters(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta Lake may lose what one of two drivers commits there; one driver writes any number of clusters."""
    monkeypatch.setattr(locks, "lease", lambda *asked: lease(*asked[:3], seconds=SECONDS))
    monkeypatch.setattr(locks, "_SECONDS", 0.1)
    with one_writer(lake, "orders"), one_writer(lake, "payments"), adding_report(lake, "orders"):
        with pytest.raises(TablesBusy, match="the tables of orders"), one_writer(lake, "orders"):
            pytest.fail("two runs of one cluster")
        with pytest.raises(TablesBusy, match="the tables of"), no_other_writer(lake, "payments"):
            pytest.fail("files that are written would vanish")
        with no_other_writer(lake, "billing"):
            pass
        monkeypatch.setattr(locks, "_DRIVER", locks._Driver())  # that of another process
        for another in (one_writer(lake, "others"), adding_report(lake, "others")):
            with pytest.raises(TablesBusy, match="on S3 Delta Lake allows one"), another:
                pytest.fail("two drivers")
    with no_other_writer(lake, "others"):
        assert leased_names(lake) >= {".orders.lock", ".payments.lock", ".all clusters.lock"}


def test_which_names_the_tables_have_is_kept_on_a_storage(lake: Path) -> None:
    """As in a folder."""
    check_names(lake, "orders", None)
    keep_names(lake, "orders", None)
    keep_names(lake, "orders", None)
    assert (lake / ".orders.names").read_text() == "clear"


def test_hdfs_takes_the_backend_without_libraries_of_hadoop():
    """It refuses options that are no texts."""
    with of_hdfs_native():
        path = storage_path("--logs", "hdfs://name-node:8020/logs")
        assert (spark_path(path), path_in_uri(path)) == ("hdfs://name-node:8020/logs", "/logs")
