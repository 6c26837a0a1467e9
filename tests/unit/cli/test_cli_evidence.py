"""``--evidence``: a package that has evidence may refuse what the controller would accept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packages import install_package
from transcripts import replayed, sections

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


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(module: str) -> None:
        entry = "[featuregate.test_checks]\nfirst = bringing_a_check\n"
        install_package(tmp_path, monkeypatch, "bringing_a_check", module, entry)

    monkeypatch.setattr(plugin_loader, "CHECKS", "featuregate.test_checks")
    return install


def given(verdict: str) -> tuple[str, ...]:
    return ("--evidence", verdict, "--evidence-cluster", "orders")


SCENES = sections(__file__, "evidence.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_a_session_with_evidence_is_as_kept(
    on: Run, cluster: ScriptedCluster, install: Callable[[str], None], scene: str
) -> None:
    """The name of the folder is its verdict."""
    install(CHECK)
    cluster.apply({"metadata.version": 26})
    cluster.vote(1)
    assert replayed(SCENES[scene], on, {}, cluster.newly_received) == SCENES[scene]


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
    install(module)
    ended = on("upgrade", "--feature", "a=1", *given("ok"))
    assert (ended.code, cluster.received) == (1, [])
    assert "the check first of bringing_a_check cannot be loaded" in ended.err
