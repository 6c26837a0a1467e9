"""What the harnesses report to a soak."""

from pathlib import Path

import pytest
from eos.counts import Counts
from eos.ledger import Balance
from soak.reports import REPORTS, Report, last_report


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
