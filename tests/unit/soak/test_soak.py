"""A soak: its runs, each a real pytest process on a small test, its ledger, and the page that is made of it."""

import json
import os
import sys
from pathlib import Path
from subprocess import run
from textwrap import dedent

import pytest
from soak.__main__ import ROOT, judged, main, marked, seeds
from soak.harnesses import HARNESSES, Harness
from soak.ledger import page, write_page
from soak.reports import Report

GOOD = {"inputs": 5, "outputs": 5, "faults": {"a broker is killed": 1}, "lost": 0, "duplicated": 0, "changed": 0}
REPORTS = """
import os, subprocess, sys, time
from pathlib import Path

import pytest

def leave():
    sleeps = [sys.executable, "-c", "import time; time.sleep(300)"]
    child = subprocess.Popen(sleeps, start_new_session=True, stdout=subprocess.DEVNULL)
    child.returncode = 0  # so that Python does not warn of it
    Path(os.environ["STARTED"]).write_text(os.environ["SOAK_RUN"])

def test_it(pytestconfig):
    print("seed", pytestconfig.option.hypothesis_seed)
    Path(os.environ["SOAK_REPORTS"]).write_text('@GOOD@\\n{"inputs": 1')
"""
ENDS = {
    "passes": ("", None),
    "fails": ('raise AssertionError("no 5 inputs came out: /tmp/of/mine")', "failed: AssertionError: no 5 inputs came"),
    "skips": ('pytest.skip("no Java")', "skipped: no Java"),
    "dies": ("os._exit(7)", "pytest ended with 7"),
    "hangs": ("time.sleep(300)", "no end within 1 s"),
    "leaves": ("leave()", "the harness left processes behind: python"),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_run_is_kept_with_its_report_and_with_why_it_failed(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was skipped or died has proved nothing, and none leaves a process."""
    monkeypatch.setattr("soak.__main__.LINGER", 0.5)
    monkeypatch.setattr("soak.__main__.run_harness.__kwdefaults__", {"linger": 0.5})
    code, failure = ENDS[end]
    (tmp_path / "test_small.py").write_text(f"{dedent(REPORTS).replace('@GOOD@', json.dumps(GOOD))}    {code}\n")
    settings = {"STARTED": str(tmp_path / "mark")}
    bound = 1 if end == "hangs" else 60
    small = Harness(name="small", test=str(tmp_path / "test_small.py"), bound=bound, settings=settings, libraries=())
    ledger, outputs = tmp_path / "soak.jsonl", tmp_path / "outputs"
    words = ["--minutes", "0", "--seed", "42", "--ledger", str(ledger), "--outputs", str(outputs)]
    assert main(words, [small]) == (failure is not None)
    (kept,) = map(json.loads, ledger.read_text().splitlines())
    output = (outputs / "small-42.log").read_text()
    assert kept["failure"] == failure or (failure and kept["failure"].startswith(failure)), output
    assert end == "hangs" or {name: kept[name] for name in GOOD} == GOOD  # it may not have begun
    assert (kept["harness"], kept["seed"], kept["note"]) == ("small", 42, "")
    if (mark := tmp_path / "mark").exists():
        assert marked(mark.read_text()) == []


@pytest.mark.parametrize(
    ("report", "left", "failure"),
    [
        (Report(lost=0, duplicated=0, changed=0), [], None),
        (Report(), [], "the harness passed without a balance"),
        (Report(lost=1, duplicated=0, changed=0), [], "the harness passed with 1 lost, 0 duplicated, 0 changed"),
        (Report(lost=0, duplicated=2, changed=0), [], "the harness passed with 0 lost, 2 duplicated, 0 changed"),
        (Report(lost=0, duplicated=0, changed=3), [], "the harness passed with 0 lost, 0 duplicated, 3 changed"),
        (Report(lost=0, duplicated=0, changed=0), ["java"], "the harness left processes behind: java"),
    ],
)
def test_a_harness_that_passes_is_judged_by_its_balance(report: Report, left: list[str], failure: str | None) -> None:
    """A run passes that loses, duplicates and changes no message, and leaves no process behind."""
    assert judged(report, left) == failure


def test_the_first_run_has_the_seed_that_was_given_and_the_others_follow_from_it() -> None:
    """The same seed gives the same soak; no two runs of it are the same."""
    one, other = ([seed for _, seed in zip(range(5), seeds(42), strict=False)] for _ in range(2))
    assert one == other
    assert (one[0], len(set(one))) == (42, 5)


@pytest.mark.slow
def test_every_harness_is_a_test_that_exists() -> None:
    """Pytest finds each of them by its name."""
    tests = [harness.test for harness in HARNESSES]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests]
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # -v would list a tree
    done = run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert all(test in done.stdout for test in tests)


def test_the_page_of_the_docs_is_that_of_the_ledger(tmp_path: Path) -> None:
    """``make soak-table`` writes the page anew after a cause was noted."""
    ledger = tmp_path / "soak.jsonl"
    ledger.write_bytes((ROOT / "docs" / "soak.jsonl").read_bytes())
    write_page(ledger)
    assert (tmp_path / "soak.md").read_text() == (ROOT / "docs" / "soak.md").read_text()


def test_a_run_without_a_balance_adds_to_no_count_of_messages_or_faults() -> None:
    """It counts as a run, and as failed; its text stays inside its cell."""
    passed = {
        **GOOD,
        "time": "now",
        "commit": "abc",
        "harness": "switch",
        "seed": 7,
        "seconds": 120,
        "note": "",
        "failure": None,
        "versions": {"kafka": "3.9.2, 4.2.0"},
    }
    failed = {**passed, "lost": None, "failure": "failed: no end | <path>", "note": "mended", "versions": {"x": "1"}}
    text = page([passed, {**failed, "seed": 8}, {**passed, "lost": 2, "failure": "failed: 2 lost"}])
    assert "| switch | 3 | 2 | 6 | 10 | 10 | 2 | 2 | 0 |\n| **all** | 3 | 2 |" in text
    assert "| a broker is killed | 2 | 2 |" in text
    assert r"| now | switch | 8 | failed: no end \| &lt;path> | mended |" in text
    assert "| commit | abc |\n| kafka | 3.9.2, 4.2.0 |\n| x | 1 |" in text
    assert "## Failed runs\n\nNone.\n" in page([])
