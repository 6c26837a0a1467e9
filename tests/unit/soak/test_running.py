"""One run of a harness: a real pytest process on a small test."""

import os
import sys
import time
from pathlib import Path
from subprocess import run
from textwrap import dedent

import pytest
from soak.harnesses import HARNESSES, Harness
from soak.reports import Report
from soak.running import ROOT, judged, marked, one_line, run_harness

GOOD = '{"inputs": 5, "outputs": 5, "faults": {"a broker is killed": 1}, "lost": 0, "duplicated": 0, "changed": 0}'
PASSES = f"""
    import os
    from pathlib import Path

    def test_it(pytestconfig):
        print("seed", pytestconfig.option.hypothesis_seed, os.environ["LENGTH"])
        Path(os.environ["SOAK_REPORTS"]).write_text('{GOOD}\\n')
"""
FAILS = """
    def test_it():
        raise AssertionError("no 5 inputs came out: /tmp/of/mine")
"""
SKIPS = """
    import pytest

    def test_it():
        pytest.skip("no Java")
"""
DIES = """
    import os

    def test_it():
        os._exit(7)
"""
HANGS = """
    import os
    import subprocess
    import sys
    import time
    from pathlib import Path

    def test_it():
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
        Path(os.environ["SOAK_REPORTS"]).write_text('{"inputs": 9, "outputs": 3}\\n{"inputs": 1')
        Path(os.environ["STARTED"]).write_text(os.environ["SOAK_RUN"])
        time.sleep(300)
"""


LEAVES = (
    PASSES
    + """
        import subprocess
        import sys

        sleeps = [sys.executable, "-c", "import time; time.sleep(300)"]
        child = subprocess.Popen(sleeps, start_new_session=True, stdout=subprocess.DEVNULL)
        child.returncode = 0  # so that Python does not warn of it
        Path(os.environ["STARTED"]).write_text(os.environ["SOAK_RUN"])
"""
)


@pytest.fixture
def harness(tmp_path: Path):
    """Make a harness of a test."""

    def make(text: str, *, bound: float = 60, **settings: str) -> Harness:
        file = tmp_path / "test_small.py"
        file.write_text(dedent(text))
        return Harness(name="small", test=str(file), bound=bound, settings=settings)

    return make


@pytest.mark.slow
def test_a_run_gives_the_harness_its_seed_and_settings_and_returns_its_report(harness) -> None:
    """The balance is what the harness wrote, not what it printed."""
    ended = run_harness(harness(PASSES, LENGTH="long"), 42, lambda _: None)
    assert ended.failure is None, ended.output
    assert ended.report == Report(
        inputs=5, outputs=5, faults={"a broker is killed": 1}, lost=0, duplicated=0, changed=0
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (FAILS, "failure: AssertionError: no 5 inputs came out: <path>"),
        (SKIPS, "skipped: no Java"),
        (DIES, "pytest ended with 7 and without a verdict"),
    ],
)
def test_a_run_that_fails_says_why(harness, text: str, failure: str) -> None:
    """A harness that was skipped or that died has proved nothing either."""
    assert run_harness(harness(text), 42, lambda _: None).failure == failure


@pytest.mark.slow
def test_a_run_ends_at_its_bound_with_what_it_reported_so_far(harness, tmp_path: Path) -> None:
    """Its output says where it stood; a report that is half written is left out."""
    mark = tmp_path / "mark"
    began = time.monotonic()

    def wait_for_the_test(_: Report) -> None:
        while not mark.exists():
            assert time.monotonic() < began + 120
            time.sleep(0.05)

    ended = run_harness(harness(HANGS, bound=1, STARTED=str(mark)), 42, wait_for_the_test)
    assert ended.failure == "no end within 1 s"
    assert ended.report == Report(inputs=9, outputs=3)
    assert "time.sleep(300)" in ended.output


@pytest.mark.slow
def test_a_harness_that_leaves_a_process_behind_has_failed_and_the_process_is_killed(harness, tmp_path: Path) -> None:
    """The next run is to have the machine for itself."""
    mark = tmp_path / "mark"
    ended = run_harness(harness(LEAVES, LENGTH="long", STARTED=str(mark)), 42, lambda _: None, linger=0.5)
    assert ended.failure is not None
    assert ended.failure.startswith("the harness left processes behind: python"), ended.output
    assert marked(mark.read_text()) == []


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_process_behind(harness, tmp_path: Path) -> None:
    """Not even one in a session of its own, which outlives pytest."""
    mark = tmp_path / "mark"

    def interrupt(_: Report) -> None:
        if mark.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_harness(harness(HANGS, STARTED=str(mark)), 42, interrupt)
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


def test_a_failure_is_one_line_without_the_paths_of_a_machine() -> None:
    """The ledger is published."""
    assert one_line("it failed in /home/me/x.py: 1/2\nmore") == "it failed in <path>: 1/2"
    assert len(one_line("x" * 1000)) == 300
    assert one_line("") == "no message"


@pytest.mark.slow
def test_every_harness_is_a_test_that_exists() -> None:
    """Pytest finds each of them by its name."""
    tests = [harness.test for harness in HARNESSES]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests]
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # -v would list a tree
    done = run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert all(test in done.stdout for test in tests)
