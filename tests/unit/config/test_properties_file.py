"""Files of properties: their syntax is Java's, and one that means harm costs one error and a bounded time."""

import os
import time
from pathlib import Path

import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.budgets import MOST_PROPERTIES_BYTES
from featuregate.config import Address, Settings
from featuregate.config.properties_file import read_properties
from featuregate.errors import ConfigError


def refused(path: Path) -> ConfigError:
    """Return the error that this file causes."""
    with pytest.raises(ConfigError) as caught:
        Settings.parse(path)
    return caught.value


def test_a_properties_file_is_read_in_java_syntax(tmp_path):
    """The reader knows comments, continued lines, escapes and every separator."""
    path = tmp_path / "client.properties"
    path.write_text(
        "# the cluster\nbootstrap.servers : a:9092,\\\n    b\nsecurity.protocol=SASL_PLAINTEXT\n! more\n"
        "sasl.mechanism PLAIN\nsasl.jaas.config=a.PlainLoginModule required \\\n"
        '  username="app" \\\n  password="h\\u00fc\\\\\\\\n";\n',
        encoding="utf-8",
    )
    settings = Settings.parse(path)
    assert settings.bootstrap == (Address("a", 9092), Address("b", 9092))
    assert settings.sasl.password.reveal() == "hü\\n"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (r"C:\certs\client.p12", True),
        (r"certs\client.p12", True),
        (r"C\:\\certs\temp.p12", True),
        (r"C\:\\certs\\client.p12", False),
        (r"/certs/my\ client.p12", False),
        ("/certs/client.p12", False),
        (" " * 5000 + "x", False),
    ],
)
def test_a_path_whose_backslashes_are_escapes_is_told(tmp_path, written, told):
    """The reader leaves the backslashes out, as Java does, so that no file has the path that is left."""
    path = tmp_path / "client.properties"
    path.write_text(
        f"security.protocol=SSL\nssl.keystore.location = {written}\nbootstrap.servers=a\n", encoding="ascii"
    )
    error = refused(path)
    assert error.key == "ssl.keystore.location"
    assert ("a backslash begins an escape in a .properties file" in error.problem) is told


def test_a_path_that_is_there_may_have_escapes(tmp_path):
    """A file that Java finds is found."""
    (tmp_path / "ca.pem").write_text("x", encoding="ascii")
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers=a\nssl.ca.location={tmp_path}/\\ca.pem\n", encoding="ascii")
    assert read_properties(path)["ssl.ca.location"] == f"{tmp_path}/ca.pem"


@pytest.mark.parametrize(
    ("content", "servers"),
    [
        (b"\xef\xbb\xbfbootstrap.servers=a\n", "a"),
        (b"# f\xfcr Kafka\nbootstrap.servers=a\n", "a"),
        (b"bootstrap.servers=b\xfccher\n", "b\u00fccher"),
        ("bootstrap.servers=b\u00fccher\n".encode(), "b\u00fccher"),
        (b"bootstrap.servers=b\\u00fccher\r\n", "b\u00fccher"),
    ],
)
def test_a_properties_file_may_be_in_utf_8_or_latin_1(tmp_path, content, servers):
    """Java reads Latin-1, editors write UTF-8, and those of Windows put a byte order mark in front."""
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    assert Settings.parse(path).bootstrap == (Address(servers, 9092),)


@given(text=st.text("\\\\\\\n\n\r #!=:a\t\f"))
@example(text="\\\n#a=b")
@example(text="\\\n \\\n\n! a\\\nb")
@example(text="# a\\\nb=c")
def test_joined_lines_mean_what_the_library_reads(tmp_path_factory, text):
    """Lines are joined before the library reads them, because it takes the square of the lines of one property."""
    path = tmp_path_factory.getbasetemp() / "joined.properties"
    path.write_bytes(text.encode())
    assert read_properties(path, of_client=False) == javaproperties.loads(text)


def test_a_property_of_thousands_of_lines_takes_no_time(tmp_path):
    """The library alone takes a minute for these 16,000 lines."""
    path = tmp_path / "long.properties"
    path.write_text("a=\\\n" + ("b" * 12 + "\\\n") * 16_000)
    begin = time.process_time()
    assert read_properties(path, of_client=False) == {"a": "b" * 12 * 16_000}
    assert time.process_time() - begin < 10


def test_a_file_of_the_most_bytes_is_read_and_of_one_more_is_not(tmp_path):
    """The error says how many are allowed."""
    path = tmp_path / "large.properties"
    path.write_bytes(b"a=" + b"b" * (MOST_PROPERTIES_BYTES - 2))
    assert read_properties(path, of_client=False) == {"a": "b" * (MOST_PROPERTIES_BYTES - 2)}
    path.write_bytes(b"a=" + b"b" * (MOST_PROPERTIES_BYTES - 1))
    assert f"it has more than {MOST_PROPERTIES_BYTES} bytes" in refused(path).problem


@pytest.mark.parametrize("name", ["pipe", "zeros", "folder"])
def test_what_is_no_file_is_one_error_and_no_wait(tmp_path, name):
    """A device has no end, and a pipe may have no writer."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    assert "cannot be read" in refused(tmp_path / name).problem


def test_the_pipe_of_a_command_is_read_to_its_end():
    """``--command-config <(vault read ...)`` keeps secrets off the disk."""
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb") as pipe:
        pipe.write(b"bootstrap.servers=a\n")
        pipe.close()
        assert Settings.parse(Path(f"/dev/fd/{reader}")).bootstrap == (Address("a", 9092),)


def test_a_command_that_writes_for_ever_is_stopped_at_the_limit_of_a_file():
    """The bytes are counted while they are read."""
    with Path("/dev/zero").open("rb") as zeros:
        assert f"more than {MOST_PROPERTIES_BYTES} bytes" in refused(Path(f"/dev/fd/{zeros.fileno()}")).problem
