"""Requirements files and lock files: what is not read makes the answer unknown."""

import codecs
import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.clients.requirements_files import Declared, requirements_in

BROKEN = "confluent-kafka==0.11.6"


def read(folder: Path, text: str | bytes, name: str = "requirements.txt") -> Declared:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return requirements_in(path)


def clients_of(found: Declared) -> list[tuple[str, str]]:
    return [(each.name, each.version) for each in found.clients]


@pytest.mark.parametrize(
    ("line", "client"),
    [
        ('Confluent_Kafka[avro] == 2.6.0 ; python_version > "3.8"  # the client', ("confluent-kafka", "2.6.0")),
        ("aiokafka==0.10.0 --hash=sha256:00 \\\n    --hash=sha256:01", ("aiokafka", "0.10.0")),
        ("kafka-python>=2.0", ("kafka-python", "")),
        ("kafka-python>=2.0,==2.0.2", ("kafka-python", "2.0.2")),
        ("kafka-python==2.*", ("kafka-python", "")),
        ("kafka-python===2.0.2", ("kafka-python", "2.0.2")),
        ("kafka-python===2.x", ("kafka-python", "")),
        ("kafka-python==3.+", ("kafka-python", "")),
        ("kafka-python==2.x", ("kafka-python", "")),
        ("kafka-python=2.0.2=py311", ("kafka-python", "")),
        ("kafka-python", ("kafka-python", "")),
        ("pyspark==4.0", ("pyspark", "4.0.0")),
        ("kafka-python-ng==2.2.3", ("kafka-python-ng", "2.2.3")),
        ("./wheels/confluent_kafka-2.6.0-cp311-cp311-manylinux_2_17_x86_64.whl", ("confluent-kafka", "2.6.0")),
        ("https://example.org/kafka_python-2.0.2.tar.gz#sha256=00", ("kafka-python", "2.0.2")),
        (
            "confluent-kafka @ https://example.org/confluent_kafka-2.6.0-cp311-none-any.whl",
            ("confluent-kafka", "2.6.0"),
        ),
        ("confluent-kafka @ git+https://example.org/x.git@main", ("confluent-kafka", "")),
        ("\ufeffconfluent-kafka==0.11.6", ("confluent-kafka", "0.11.6")),
        ("# a comment goes not on \\\nconfluent-kafka==0.11.6", ("confluent-kafka", "0.11.6")),
        ("six==1\x0cconfluent-\\\nkafka==0.11.6\\", ("confluent-kafka", "0.11.6")),
        ("kafka==1.3.5", ("kafka", "1.3.5")),
        ("Faust_Streaming==0.11.0", ("aiokafka", "")),
        ("aiokafka==0.10.0\nfaust-streaming==0.11.0", ("aiokafka", "0.10.0")),
        ("kombu[redis, ConfluentKafka]>=5.4", ("confluent-kafka", "")),
        ("confluent-kafka==2.6.0\nquixstreams==3.0", ("confluent-kafka", "2.6.0")),
        ("confluent-kafka==2.6.0\ntypes-confluent-kafka", ("confluent-kafka", "2.6.0")),
        ("confluent-kafka==2.6.0\nopentelemetry-instrumentation-kafka-python", ("confluent-kafka", "2.6.0")),
        ("afkak==21.5.0", ("afkak", "21.5.0")),
    ],
)
def test_a_line_names_a_client(line: str, client: tuple[str, str], tmp_path: Path):
    """In any way that pip accepts; one that is not pinned has no version, and no line is left out."""
    found = read(tmp_path, f"# kafka-python==0.1\n-i https://example.org --pre\nrequests==2.31\n{line}\n")
    assert clients_of(found) == [client]
    assert found.unread == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("requests==2.31\n-e .", "requirements.txt line 2"),
        ("my-kafka==0.25", "requirements.txt"),
        ("celery[kafka]", "requirements.txt"),
        ("\\\n  --editable=git+https://example.org/x.git#egg=confluent-kafka", "requirements.txt line 1"),
        ("a==1 \\\n  --hash=sha256:0\n\n.", "requirements.txt line 4"),
        ("git+https://example.org/x.git", "requirements.txt line 1"),
        ("x==${VERSION}", "requirements.txt line 1"),
        ("requests==3.+", "requirements.txt line 1"),
        pytest.param("requests ; " + "(" * 3_000, "requirements.txt line 1", id="parentheses"),
        ("python-confluent-kafka=2.6.0=py311", "requirements.txt line 1"),
        ("-r nowhere.txt", "requirements.txt line 1"),
        ("-c https://example.org/constraints.txt", "requirements.txt line 1"),
        ("-r .", "requirements.txt line 1"),
        ("-r a\0b", "requirements.txt line 1"),
        ("[[package]]\nname = 1\n", "requirements.txt"),
        ("--unheard-of x", "requirements.txt line 1"),
        ("--pre -r other.txt", "requirements.txt line 1"),
        ("--index-url https://example.org --requirement other.txt", "requirements.txt line 1"),
        ("--no-index confluent-kafka==0.11.6", "requirements.txt line 1"),
        ("dependencies:\n  - python-confluent-kafka=0.11.6\n", "requirements.txt"),
        ('[project]\ndependencies = ["confluent-kafka==0.11.6"]\n', "requirements.txt"),
        ("[metadata]\nname = x = y\n", "requirements.txt"),
        ('[[package]]\nversion = "1"\n', "requirements.txt"),
        ('{"dependencies": {"kafkajs": "2.2.4"}}', "requirements.txt"),
        ('{"_meta": 1, "default": {"a": 1}}', "requirements.txt"),
        ("{", "requirements.txt"),
        ('{"_meta": {}, "default": {"kafka": {"version": "==1"}, "kafka": {"version": "==2"}}}', "requirements.txt"),
        ('{"_meta": {}, "default": {"kafka": {"version": "==1"}}, "default": {"six": {}}}', "requirements.txt"),
        ('[{"name": "confluent-kafka", "version": "0.11.6"}]', "requirements.txt"),
        ("<project/>", "requirements.txt"),
        ("c\0o\0n\0", "requirements.txt line 1"),
    ],
)
def test_what_is_not_read_is_named_with_its_place(text: str, place: str, tmp_path: Path):
    """It may name a client: not read is not the same as not there. Its text is not repeated."""
    found = read(tmp_path, text)
    assert found.clients == ()
    assert [each.place for each in found.unread] == [str(tmp_path / place)]
    assert "0.11.6" not in found.unread[0].why


def test_each_line_counts_whatever_its_marker_says(tmp_path: Path):
    """The file is for other machines as well."""
    text = f'{BROKEN} ; sys_platform == "linux"\nconfluent-kafka==2.6.1 ; sys_platform == "darwin"\n{BROKEN}\n'
    assert clients_of(read(tmp_path, text)) == [("confluent-kafka", "0.11.6"), ("confluent-kafka", "2.6.1")]


WINDOWS = "confluent-kafka==2.16.1 ; sys_platform=='win32'"
OPEN = [("confluent-kafka", "2.16.1"), ("confluent-kafka", "")]


@pytest.mark.parametrize(
    ("text", "constraints", "clients"),
    [
        ("confluent-kafka", WINDOWS, OPEN),
        ("confluent-kafka", f"{WINDOWS}\nconfluent-kafka==2.16.1", OPEN[:1]),
        (f"{WINDOWS}\nquixstreams==3.0", "", OPEN),
        ("quixstreams==3.0", WINDOWS, OPEN),
        ("quixstreams==3.0", "confluent-kafka==2.16.1", OPEN[:1]),
        (f"{WINDOWS}\nquixstreams==3.0 ; sys_platform == 'win32'", "", OPEN[:1]),
        ("./confluent_kafka-2.16.1-cp311-cp311-win_amd64.whl ; sys_platform=='win32'\nquixstreams", "", OPEN),
        ("confluent-kafka==2.16.1\ndagster-kafka", "", [*OPEN[:1], ("kafka-python", "")]),
    ],
)
def test_a_pin_for_some_machines_leaves_the_others_open(
    text: str, constraints: str, clients: list[tuple[str, str]], tmp_path: Path
):
    """The file of each tool that exports a lock has one marker for a package and for what it brings."""
    (tmp_path / "c.txt").write_text(constraints)
    found = read(tmp_path, f"{text}\n-c c.txt")
    assert clients_of(found) == clients
    assert found.unread == ()


@pytest.mark.parametrize("package", ["confluent-kafka-pypy==1.9.2", "arrow-kafka-pyo3", "celery[redis, kafka]"])
def test_a_package_that_may_be_a_client_is_named_beside_one_that_works(package: str, tmp_path: Path):
    """A client that was not measured is in use, however good the other one is."""
    found = read(tmp_path, f"confluent-kafka[avro]==2.16.1\n{package}\n{package} ; sys_platform == 'win32'")
    assert clients_of(found) == OPEN[:1]
    (unread,) = found.unread
    assert "may be or bring a client that was not measured" in unread.why


@pytest.mark.parametrize(
    "option", ["-r other.txt", "-rother.txt", "--requirement other.txt", "--requirement=other.txt"]
)
def test_other_files_are_read(option: str, tmp_path: Path):
    """Beside the file that names them; a circle ends."""
    (tmp_path / "other.txt").write_text(f"{BROKEN}\n-r requirements.txt\n-r x/../other.txt")
    (tmp_path / "x").mkdir()
    found = read(tmp_path, option)
    assert found.unread == ()
    (found,) = found.clients
    assert (found.version, found.found_in) == ("0.11.6", str(tmp_path / "other.txt"))


def test_files_that_name_others_without_an_end_are_unknown(tmp_path: Path):
    """A hundred are read."""
    for number in range(120):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt")
    assert [each.why for each in read(tmp_path, "-r 0.txt").unread] == [
        "the file that it names is not read: it is on another machine, or one of too many"
    ]


def test_a_constraint_pins_a_client_that_is_listed(tmp_path: Path):
    """It is unknown whether a client that is not listed is there."""
    (tmp_path / "c.txt").write_text(f"{BROKEN}\naiokafka==0.12.0\n")
    found = read(tmp_path, "confluent-kafka\nkafka-python\n-c c.txt\n")
    assert clients_of(found) == [("confluent-kafka", "0.11.6"), ("kafka-python", "")]
    assert [each.why for each in found.unread] == ["aiokafka is a constraint, and another package may bring it"]


def test_requirements_that_constraints_name_are_installed(tmp_path: Path) -> None:
    """As pip reads it: of a file behind ``-r``, whichever file names it, each line is installed."""
    (tmp_path / "c.txt").write_text("-r base.txt\n")
    (tmp_path / "base.txt").write_text(f"{BROKEN}\nquixstreams==3.0\nfaust==1.10\n")
    found = read(tmp_path, "-c c.txt\n")
    assert clients_of(found) == [("confluent-kafka", "0.11.6"), ("robinhood-aiokafka", "")]
    assert found.unread == ()


LOCKS = {
    "poetry.lock": '[[package]]\nname = "confluent-kafka"\nversion = "0.11.6"\n\n[metadata]\nlock-version = "2.1"\n',
    "uv.lock": 'version = 1\n[[package]]\nname = "app"\nsource = { virtual = "." }\n'
    '[[package]]\nname = "confluent-kafka"\nversion = "0.11.6"\nsource = { registry = "https://example.org" }\n',
    "pylock.toml": 'lock-version = "1.0"\n[[packages]]\nname = "confluent-kafka"\nversion = "0.11.6"\n',
    "Pipfile.lock": json.dumps({"_meta": {}, "default": {"Confluent_Kafka": {"version": "==0.11.6"}}, "develop": {}}),
}


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize(("name", "text"), LOCKS.items(), ids=LOCKS)
def test_lock_files_are_read(name: str, text: str, mark: bytes, tmp_path: Path):
    """By what is in them, under any name."""
    for under in (name, "requirements.txt"):
        found = read(tmp_path, mark + text.encode(), under)
        assert clients_of(found) == [("confluent-kafka", "0.11.6")]
        assert found.unread == ()


def test_a_locked_app_is_not_taken_for_a_client(tmp_path: Path):
    """Its name may have Kafka in it; a client may be taken from a folder, too."""
    apps = '[[package]]\nname = "my-kafka"\nsource = { %s = "." }\n'
    forked = '[[package]]\nname = "aiokafka"\nversion = "0.10.0"\nsource = { editable = "." }\n'
    found = read(tmp_path, apps % "virtual" + apps % "editable" + forked)
    assert (clients_of(found), found.unread) == ([("aiokafka", "0.10.0")], ())
    assert [each.why for each in read(tmp_path, apps % "registry").unread] == [
        "my-kafka may be or bring a client that was not measured"
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_byte_order_mark_says_the_encoding(encoding: str, tmp_path: Path):
    """PowerShell writes UTF-16."""
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    assert clients_of(read(tmp_path, mark + f"{BROKEN}\r\n".encode(encoding))) == [("confluent-kafka", "0.11.6")]


@given(
    before=st.lists(st.sampled_from(["requests==2.31", "# x", "", "-r o.txt", "-e .", "\ufeff", "a @ b", "x=1", "\\"])),
    after=st.sampled_from(["", " ", "  # x", " ; python_version<'3'", " --hash=sha256:0", "\\", "\r", "[a]", "x", "}"]),
)
def test_a_client_among_any_lines_is_found_or_something_is_unread(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: str
):
    """Never neither."""
    found = read(tmp_path_factory.mktemp("r"), "\n".join([*before, BROKEN + after]))
    assert any(name == "confluent-kafka" for name, _ in clients_of(found)) or found.unread


@pytest.mark.parametrize("unit", ["\n", " ", " #", "[", "\\\n", "-r", "==", " ; ", "9", "{", '"', ",==", "-ix"])
def test_a_file_of_one_repeated_text_takes_time_in_proportion(unit: str, tmp_path: Path):
    """A search that begins again at each line took minutes."""
    begin = process_time()
    read(tmp_path, f"{BROKEN} {unit * 60_000}")
    assert process_time() - begin < 10
