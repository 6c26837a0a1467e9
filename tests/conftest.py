"""What every test stands on: hypothesis profiles, and the seed of the run, printed so that it can be run again."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, Phase, settings

from featuregate.testing.local_kafka.java import options_to_read

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["proof_groups", "shared_brokers"]

# No deadline in either: this suite measures nothing, and shares its machine with brokers.
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), max_examples=200, print_blob=True)
# A mutant needs no small example, and looking for one takes minutes where each example is slow.
settings.register_profile(
    "mutants", settings.get_profile("dev"), phases=[Phase.explicit, Phase.generate], database=None
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Spark lives for a minute in a test. Half of its processor time would go into compiling what then runs once, and half
# of the rest into loading classes: `make class-archives` writes these into the virtual environment. With one compiler
# the JVM reserves 48 MB for compiled code. Several tests that share a JVM fill these, and it discards code and compiles
# it again for a tenth of its time, so it gets as much as with two compilers.
JVM_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m"]
if sys.platform == "linux":  # for the processes that Hadoop starts: see featuregate_fleet.runs.session
    JVM_OPTIONS.append("-Djdk.lang.Process.launchMechanism=VFORK")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(JVM_OPTIONS))
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join([*JVM_OPTIONS, *options_to_read(Path(sys.prefix, "spark.jsa"))]))

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_START", None)  # this process is measured, what it starts is not


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure no coverage in tests that run the same lines thousands of times: it takes as long as the tests."""
    repeats = item.get_closest_marker("hypothesis") or item.get_closest_marker("no_cover")
    measured = Coverage.current() if repeats else None
    if measured is None:
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        with warnings.catch_warnings(action="ignore"):  # a run of one room has not imported each package
            measured.start()


def pytest_sessionfinish() -> None:
    """Write down what this process has measured: xdist kills one that takes ten seconds to end, with a JVM of Spark."""
    if (measured := Coverage.current()) is not None:
        with warnings.catch_warnings(action="ignore"):
            measured.save()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[pytest.TestReport]:
    """Escape half a pair of surrogates in what was captured: xdist cannot send it, and would end the run."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


SEED = "featuregate_hypothesis_seed"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed here rather than inside hypothesis, so that the header can say it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As under nohup or in a script's background: every child would inherit it, and Ctrl-C could not be tested.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.hypothesis_seed is None:
        given = getattr(config, "workerinput", {})  # of the process that distributes the tests, where there is one
        config.option.hypothesis_seed = given.get(SEED) or str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"run the same examples again with --hypothesis-seed={config.option.hypothesis_seed}"


# ---------------------------------------------------------------- several processes (pytest -n 3)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[SEED] = node.config.option.hypothesis_seed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that may take longest, so that no process ends long after the others."""
    items.sort(key=lambda item: -_bound_of(item))


def _bound_of(item: pytest.Item) -> float:
    if not item.get_closest_marker("live"):
        return 1.0 if item.get_closest_marker("slow") else 0.0
    marker = item.get_closest_marker("timeout")
    bound = float(marker.args[0]) if marker else 2.0
    return max(bound, 600.0) if _unit_of(item.nodeid) in SHARE_A_JVM else bound


SHARE_A_JVM = {
    "fleet": ("tests/live/fleet/",),
    "Spark Connect": (
        "tests/live/spark/test_connect_live.py",
        "tests/live/spark/test_sink_connect_live.py",
        "tests/live/spark/test_source_connect_live.py",
    ),
    "Spark": (
        "tests/live/spark/test_environment_live.py",
        "tests/live/spark/test_listener_live.py",
        "tests/live/spark/test_pins_live.py",
        "tests/live/spark/test_replayable_live.py",
        "tests/live/spark/test_sink_live.py",
        "tests/live/spark/test_source_live.py",
    ),
}
"""Files and folders whose tests run in one process, by what they share: a session, or the port of Spark Connect."""

START_THEIR_OWN = tuple(
    f"tests/live/fleet/test_{name}_live.py"
    for name in (
        "client_software",
        "metrics",
        "metrics_oracle",
        "prometheus",
        "request_logging",
        "standalone",
        "submitted",
    )
)
"""Files in that folder whose tests need the session little or not, and may run in another process: they take long."""

APART = ("tests/live/fleet/test_storage_live.py", "tests/live/spark/test_spark_lines.py")
"""Files of which each test starts all that it needs, and takes minutes."""


def _unit_of(nodeid: str) -> str:
    """Return what the tests of one process have in common: their file, a JVM, or that there is one of them."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return nodeid
    if file in START_THEIR_OWN:
        return file
    return next((name for name, paths in SHARE_A_JVM.items() if file.startswith(paths)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Keep the tests of a file in one process, mostly, and those of several files that share a JVM."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - where several processes were asked for

    class ByFileOrJvm(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _unit_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            """Let what computes run beside what waits, from end to end.

            The first process begins with the tests that share a JVM, the last one with unit tests, which compute, and
            those between with consumer groups of confluent-kafka, which wait.
            """
            if node is self.nodes[-1] and len(self.nodes) > 1:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            elif node is not self.nodes[0]:
                waits = (unit for unit in self.workqueue if unit.startswith("tests/live/confluent/"))
                self.workqueue.move_to_end(next(waits, next(iter(self.workqueue))), last=False)
            super()._assign_work_unit(node)

    return ByFileOrJvm(config, log)
