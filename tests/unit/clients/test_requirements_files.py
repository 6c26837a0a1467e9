"""Requirements files and lock files: what is not read makes the answer unknown."""

import ast
import codecs
import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import retold, sections

from featuregate.clients.requirements_files import Declared, requirements_in

READ = sections(__file__, "requirements_texts.txt")
BROKEN = "confluent-kafka==0.11.6"


def read(folder: Path, text: str | bytes, name: str = "requirements.txt") -> Declared:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return requirements_in(path)


def clients_of(found: Declared) -> list[tuple[str, str]]:
    return [(each.name, each.version) for each in found.clients]


def told(found: Declared, folder: Path) -> str:
    clients = [f"{each.name} {each.version or 'of any version'}" for each in found.clients]
    return ", ".join([*clients, *(f"{each.place}: {each.why}" for each in found.unread)]).replace(f"{folder}/", "")


@pytest.mark.parametrize("scene", READ)
def test_all_texts_are_read_as_kept(scene: str, tmp_path: Path) -> None:
    """What is not read may name a client: it is named with its place, and its text is not repeated."""

    def tell(line: str) -> str:
        match ast.literal_eval(line):
            case text, constraints:
                (tmp_path / "c.txt").write_text(constraints)
                text = f"{text}\n-c c.txt"
            case text if scene == "clients":
                text = f"# kafka-python==0.1\n-i https://example.org --pre\nrequests==2.31\n{text}\n"
            case text:
                pass
        return told(read(tmp_path, text), tmp_path)

    assert retold(READ[scene], tell) == READ[scene]


def test_parentheses_without_an_end_are_not_read(tmp_path: Path) -> None:
    """The parser of markers recurses."""
    assert len(read(tmp_path, "requests ; " + "(" * 3_000).unread) == 1


@pytest.mark.parametrize("end", ["", " @ https://example.org/confluent-kafka-{}.tar.gz", "=={}", ">={}"])
def test_a_version_of_thousands_of_digits_is_a_version(end: str, tmp_path: Path) -> None:
    """Python refuses to read such a number; no other line may be lost by it."""
    line = (f"confluent-kafka{end}" if end else "./confluent-kafka-{}.zip").format("1" * 5_000)
    assert [name for name, _ in clients_of(read(tmp_path, f"{line}\nkafka==1.3.5"))] == ["confluent-kafka", "kafka"]


def test_each_line_counts_whatever_its_marker_says(tmp_path: Path):
    """The file is for other machines as well."""
    text = f'{BROKEN} ; sys_platform == "linux"\nconfluent-kafka==2.6.1 ; sys_platform == "darwin"\n{BROKEN}\n'
    assert clients_of(read(tmp_path, text)) == [("confluent-kafka", "0.11.6"), ("confluent-kafka", "2.6.1")]


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
