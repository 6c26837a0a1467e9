"""How the ledger counts what a reader sees, and what the harnesses report."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from eos.counts import Counts
from eos.ledger import Balance, Ledger
from eos.pipes import Pipe
from soak.reports import REPORTS, Report, last_report

END = KafkaError(KafkaError._PARTITION_EOF)


class Seen:
    """A record of one partition at an offset, which says that it came from an input; or the end of the partition."""

    def __init__(self, offset: int, *, source: int | None = None, error: KafkaError | None = None) -> None:
        self._offset, self._source, self._error = offset, source, error

    def partition(self) -> int:
        """Return the only one."""
        return 0

    def offset(self) -> int:
        """Return where it is."""
        return self._offset

    def error(self) -> KafkaError | None:
        """Return the end, if it is that."""
        return self._error

    def headers(self) -> list[tuple[str, bytes]]:
        """Return where the input was."""
        return [("fg.partition", b"0"), ("fg.offset", str(self._source).encode())]

    def value(self) -> bytes:
        """Return any text."""
        return b"text"

    def timestamp(self) -> tuple[int, int]:
        """Return any time."""
        return 1, 1_000


def counted(*seen: Any) -> list[int]:
    """Return how many outputs of which how many are of different inputs a ledger has counted."""
    ledger = Ledger(Pipe({}, "group", "in", "out"))
    for message in seen:
        ledger._count(message)
    return [ledger.outputs, ledger.different]


def test_an_output_that_is_read_again_counts_once() -> None:
    """After a change of leaders, a reader may be set back, and meet an end that is before what it has seen."""
    outputs = [Seen(offset, source=offset) for offset in range(6)]
    assert counted(*outputs, Seen(2, error=END), *outputs[2:], Seen(6, error=END)) == [6, 6]


def test_an_input_in_two_places_counts_twice() -> None:
    """The ledger is there to find such an input."""
    assert counted(Seen(0, source=0), Seen(1, source=1), Seen(2, source=0)) == [3, 2]


class Fed:
    """A ledger that has counted so much."""

    fed = 30
    outputs = 20


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a soak reads."""
    monkeypatch.setenv(REPORTS, str(tmp_path / "reports"))
    return tmp_path / "reports"


def test_a_fault_counts_when_the_apps_have_gone_on_after_it(reports: Path) -> None:
    """No report has a fault after which no app has gone on yet."""
    counts = Counts([Fed(), Fed()], "3.9.2", "3.9.2")
    counts.fault("a broker is killed")
    counts.went_on()
    counts.fault("a broker is killed")
    assert counts.survived == {"a broker is killed": 1}
    counts.balanced()
    assert last_report(reports).faults == {"a broker is killed": 1}


def test_a_report_has_the_sums_of_all_ledgers_and_no_balance_yet(reports: Path) -> None:
    """Whether something is lost is not known before the end."""
    Counts([Fed(), Fed()], "3.9.2", "3.9.2").went_on()
    assert last_report(reports) == Report(inputs=60, outputs=40, kafka=["3.9.2"])


def test_the_last_report_has_the_sums_of_all_balances(reports: Path) -> None:
    """Inputs that are lost, duplicated and changed are told apart."""
    counts = Counts([Fed()], "4.2.0")
    counts.went_on()
    counts.balanced(
        Balance(10, 9, lost=((0, 1),), duplicated=(), changed=()),
        Balance(10, 12, lost=(), duplicated=((0, 1), (0, 2)), changed=((0, 3),)),
    )
    assert last_report(reports) == Report(inputs=20, outputs=21, kafka=["4.2.0"], lost=1, duplicated=2, changed=1)


def test_without_a_soak_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same harness runs in the test suite."""
    monkeypatch.delenv(REPORTS, raising=False)
    monkeypatch.chdir(tmp_path)
    Counts([Fed()]).went_on()
    assert list(tmp_path.iterdir()) == []
