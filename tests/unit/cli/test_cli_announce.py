"""``plan --announce``: apps that report learn what the operator is about to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packages import install_package

from featuregate.cli import plugin_loader
from featuregate.usage.announcement import Announcement

if TYPE_CHECKING:
    from conftest import Run

ANNOUNCER = """
from pathlib import Path
def announce(config, topic, announcement):
    if topic == "closed":
        raise OSError("TOPIC_AUTHORIZATION_FAILED")
    Path(__file__).with_name(topic).write_text(announcement.to_json())
"""
PLAN = ("plan", "upgrade", "--feature", "a=1", "--announce", "INC-12")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a package with an announcer on Python's path, and return where it writes."""
    entry = "[featuregate.test_announcers]\nfirst = bringing_an_announcer\n"
    install_package(tmp_path, monkeypatch, "bringing_an_announcer", ANNOUNCER, entry)
    monkeypatch.setattr(plugin_loader, "ANNOUNCERS", "featuregate.test_announcers")
    return tmp_path


def test_a_plan_announces_its_levels(on: Run, folder: Path) -> None:
    """In the usage topic, with the reason and the id of the cluster."""
    ended = on(*PLAN)
    assert ended.err == "featuregate: announced in topic featuregate-usage: a=1\n"
    written = Announcement.from_json((folder / "featuregate-usage").read_text())
    assert (written.cluster_id, dict(written.levels), written.reason) == ("scripted", {"a": 1}, "INC-12")
    assert written.announced_at > 1.7e9


def test_what_was_not_written_is_an_error(on: Run, folder: Path) -> None:
    """The operator must not believe that apps know."""
    ended = on(*PLAN, "--usage-topic", "closed")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == ("featuregate: --announce: nothing was announced in topic closed: TOPIC_AUTHORIZATION_FAILED\n")
    assert not (folder / "closed").exists()


def test_without_a_client_the_extra_is_named(on: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core has no producer."""
    monkeypatch.setattr(plugin_loader, "ANNOUNCERS", "featuregate.none")
    assert "needs a Kafka client: pip install '.[confluent]' in a checkout" in on(*PLAN).err
