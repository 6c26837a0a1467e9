"""Kafka's table of error codes."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from featuregate.kafka_errors import (
    INVALID_REQUEST,
    KAFKA_ERRORS,
    NONE,
    REBOOTSTRAP_REQUIRED,
    UNSUPPORTED_VERSION,
    broker_error,
    kafka_error,
)

PRINT_ERRORS = """
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
public class PrintErrors {
    public static void main(String[] args) {
        for (Errors error : Errors.values())
            System.out.println(
                error.code() + " " + error.name() + " " + (error.exception() instanceof RetriableException));
    }
}
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (NONE, "NONE"),
        (UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION"),
        (INVALID_REQUEST, "INVALID_REQUEST"),
        (REBOOTSTRAP_REQUIRED, "REBOOTSTRAP_REQUIRED"),
    ],
)
def test_the_codes_that_discovery_knows_have_kafkas_names(code: int, name: str) -> None:
    """The constants name the rows that they mean."""
    assert kafka_error(code).name == name


def test_the_table_has_no_gap() -> None:
    """Kafka numbers its errors from -1 without leaving one out."""
    assert list(KAFKA_ERRORS) == list(range(-1, len(KAFKA_ERRORS) - 1))


def test_a_code_from_a_newer_broker_keeps_its_number() -> None:
    """What we do not know is named by its number, and not sent again on our guess."""
    assert kafka_error(999) == (999, "UNKNOWN_CODE_999", False)


def test_a_broker_error_is_made_from_its_code() -> None:
    """Name and retriability are looked up; the message is the broker's."""
    error = broker_error(14, "wait a moment")
    assert (error.code, error.name, error.retriable, error.message) == (
        14,
        "COORDINATOR_LOAD_IN_PROGRESS",
        True,
        "wait a moment",
    )


def test_a_broker_error_without_a_message_has_an_empty_one() -> None:
    """Kafka's null message is no text, not the word None."""
    assert str(broker_error(42, None)) == "INVALID_REQUEST (error 42)"


@pytest.mark.proof("catalog")
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_the_table_is_that_of_the_released_client(release: str, tmp_path: Path) -> None:
    """Every row that the kafka-clients jar prints is in the table, and 4.4.0 has them all."""
    jgo = pytest.importorskip("jgo")
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java on this machine")
    jars = Path(jgo.build(f"org.apache.kafka:kafka-clients:{release}").path).rglob("*.jar")
    source = tmp_path / "PrintErrors.java"
    source.write_text(PRINT_ERRORS)
    printed = subprocess.run(
        [java, "-cp", ":".join(map(str, jars)), str(source)], capture_output=True, text=True, check=True
    ).stdout
    rows = dict(_rows(printed.splitlines()))
    assert len(rows) == {"4.3.1": 135, "4.4.0": 138}[release]
    assert rows == {code: KAFKA_ERRORS[code][1:] for code in rows}
    if release == "4.4.0":
        assert rows.keys() == KAFKA_ERRORS.keys()


def _rows(lines: Iterable[str]) -> Iterable[tuple[int, tuple[str, bool]]]:
    for line in lines:
        code, name, retriable = line.split()
        yield int(code), (name, retriable == "true")
