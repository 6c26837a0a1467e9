"""``--evidence``: a package that has evidence may refuse what the controller would accept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packages import install_package

from featuregate.cli import plugin_loader
from featuregate.version import how_to_install

if TYPE_CHECKING:
    from conftest import Run
    from scripted import ScriptedCluster

CHECK = """
from featuregate.cli.plugin import EvidenceFinding, EvidenceVerdict


def check_updates(evidence, cluster, updates, *, cluster_id, reports_expected):
    cluster += f" ({cluster_id}{', with reports' if reports_expected else ''})"
    asked = ", ".join(f"{update.feature}={update.level}" for update in updates)
    finding = EvidenceFinding(evidence, "app billing", f"It is latched on {asked} of {cluster}.", "Roll\\x1b it back.")
    return EvidenceVerdict(evidence, () if evidence == "ok" else (finding,))
"""
"""The folder says the verdict."""
SAID = "app billing: It is latched on a=1 of orders (scripted, with reports). Roll\\x1b it back."
CHANGES = (
    ("upgrade", "--feature", "a=1"),
    ("downgrade", "--feature", "a=1"),
    ("upgrade", "--release-version", "4.2"),
    ("downgrade", "--release-version", "4.0"),
    ("update", "--upgrade", "a=1"),
)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a package with a check on Python's path."""

    def install(module: str) -> None:
        entry = "[featuregate.test_checks]\nfirst = bringing_a_check\n"
        install_package(tmp_path, monkeypatch, "bringing_a_check", module, entry)

    monkeypatch.setattr(plugin_loader, "CHECKS", "featuregate.test_checks")
    return install


def given(verdict: str) -> tuple[str, ...]:
    """Return the options."""
    return ("--evidence", verdict, "--evidence-cluster", "orders")


@pytest.mark.parametrize("verdict", ["block", "unknown", "stale"])
def test_a_change_that_the_evidence_does_not_call_safe_is_refused(
    on: Run, cluster: ScriptedCluster, install: Callable[[str], None], verdict: str
) -> None:
    """The command sends no update, and names the finding."""
    install(CHECK)
    ended = on("upgrade", "--feature", "a=1", *given(verdict))
    assert (ended.code, ended.out, cluster.received) == (1, "", [])
    said = [f"The evidence says {verdict}.", f"{verdict}: {SAID}"]
    overruled = "block" if verdict == "block" else "unknown"
    said.append(f"nothing was changed, because of the evidence; --despite-evidence {overruled} changes it")
    assert ended.err == "".join(f"featuregate: {line}\n" for line in said)


@pytest.mark.parametrize(
    ("verdict", "more"),
    [
        ("ok", ()),
        ("warn", ()),
        ("block", ("--despite-evidence",)),
        ("stale", ("--despite-evidence", "unknown")),
        ("unknown", ("--dry-run",)),
    ],
)
def test_a_change_that_is_safe_or_wanted_by_name_is_sent(
    on: Run, cluster: ScriptedCluster, install: Callable[[str], None], verdict: str, more: tuple[str, ...]
) -> None:
    """A warning is printed. A dry run says what the change itself would."""
    install(CHECK)
    ended = on("upgrade", "--feature", "a=1", *given(verdict), *more)
    assert (ended.code, len(cluster.received)) == ((1, 0) if "--dry-run" in more else (0, 1))
    assert (SAID in ended.err) is (verdict != "ok")


@pytest.mark.parametrize("argv", CHANGES, ids=lambda argv: argv[0])
def test_each_command_that_changes_levels_asks(
    on: Run, cluster: ScriptedCluster, install: Callable[[str], None], argv: tuple[str, ...]
) -> None:
    """Each way to name the updates runs the check of the evidence."""
    install(CHECK)
    cluster.apply({"metadata.version": 26})
    ended = on(*argv, *given("block"))
    assert (ended.code, cluster.received) == (1, [])
    assert "The evidence says block." in ended.err


@pytest.mark.parametrize(("verdict", "code"), [("ok", 0), ("warn", 0), ("stale", 2), ("unknown", 2), ("block", 1)])
def test_a_plan_has_the_evidence_in_its_exit_code(
    on: Run, install: Callable[[str], None], verdict: str, code: int
) -> None:
    """The text and the JSON of the plan have the evidence, too."""
    install(CHECK)
    plan = ("plan", "upgrade", "--feature", "group.version=1")
    assert on(*plan).code == 0
    ended = on(*plan, *given(verdict))
    assert ended.code == code
    assert f"The evidence says {verdict}." in ended.out
    document = json.loads(on(*plan, *given(verdict), "--output", "json").out)["evidence"]
    assert document["verdict"] == verdict
    assert [finding["subject"] for finding in document["findings"]] == ([] if verdict == "ok" else ["app billing"])
    assert json.loads(on(*plan, "--output", "json").out)["evidence"] is None


def test_without_a_package_that_reads_evidence_one_line_says_what_to_install(on: Run, install: object) -> None:
    """The command line itself knows no Spark."""
    assert install
    assert on("plan", "upgrade", "--feature", "group.version=1", *given("t")) == (
        64,
        "",
        f"featuregate: --evidence needs the fleet pipeline: {how_to_install('fleet')}\n",
    )
    assert on("upgrade", "--feature", "a=1", *given("t")).code == 1


@pytest.mark.parametrize("module", ["raise ImportError('no spark')", "check_update = None"])
def test_a_check_that_cannot_be_loaded_is_named(
    on: Run, cluster: ScriptedCluster, install: Callable[[str], None], module: str
) -> None:
    """The command sends no update without the check."""
    install(module)
    ended = on("upgrade", "--feature", "a=1", *given("ok"))
    assert (ended.code, cluster.received) == (1, [])
    assert "the check first of bringing_a_check cannot be loaded" in ended.err


@pytest.mark.parametrize("half", [("--evidence", "t"), ("--evidence-cluster", "orders")])
def test_tables_and_their_cluster_are_given_together(on: Run, half: tuple[str, str]) -> None:
    """The command fails before it asks a broker."""
    assert on("plan", "upgrade", "--feature", "group.version=1", *half).code == 64
    assert "belong together" in on("upgrade", "--feature", "a=1", *half).err


def test_missing_evidence_is_overruled_without_overruling_a_block(
    on: Run, cluster: ScriptedCluster, install: Callable[[str], None]
) -> None:
    """A cluster without usage reports has no verdict on a downgrade; a client that breaks still counts."""
    install(CHECK)
    assert on("downgrade", "--feature", "a=1", *given("unknown"), "--despite-evidence", "unknown").code == 0
    assert on("downgrade", "--feature", "a=1", *given("block"), "--despite-evidence", "unknown").code == 1
    assert len(cluster.received) == 1


def test_a_cluster_without_gates_misses_no_reports(on: Run, install: Callable[[str], None]) -> None:
    """The option is about evidence, and useless without it."""
    install(CHECK)
    plan = ("plan", "upgrade", "--feature", "group.version=1", "--without-usage-reports")
    assert "of orders (scripted)." in on(*plan, *given("block")).out
    assert on(*plan).code == 64
