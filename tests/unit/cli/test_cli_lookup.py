"""``version-mapping`` and ``feature-dependencies``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

MAPPING = """\
metadata.version=30 (4.3-IV0)
kraft.version=1
transaction.version=2
group.version=1
eligible.leader.replicas.version=1
share.version=1
streams.version=1
"""


def test_version_mapping_is_that_of_kafka_features(run: Run) -> None:
    """The command needs no cluster, and prints the version as it was given."""
    assert run("version-mapping") == (0, MAPPING, "")
    assert run("version-mapping", "--release-version", "3.9.2").out.startswith("metadata.version=21 (3.9.2)\n")


def test_releases_newer_than_kafka_features_are_mapped(run: Run) -> None:
    """The tool of 4.3 knows 4.4 by the name of its first level alone."""
    assert run("version-mapping", "--release-version", "4.4").out.startswith("metadata.version=33 (4.4)\n")


def test_dependencies_are_those_of_kafka_features(run: Run) -> None:
    """The output follows the order of the options."""
    argv = ["feature-dependencies"]
    for level in ("eligible.leader.replicas.version=1", "metadata.version=21", " group.version = 1"):
        argv += ["--feature", level]
    out = (
        "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
        "metadata.version=21 (3.9-IV0) has no dependencies.\ngroup.version=1 has no dependencies.\n"
    )
    assert run(*argv) == (0, out, "")


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("metadata.version=99", "Unknown metadata.version 99"),
        ("metadata.version=1", "Unknown metadata.version 1"),
        ("frob=1", "Unknown feature: frob"),
        ("group.version=9", "No feature:group.version with feature level 9"),
        ("group.version", "equals sign not found."),
    ],
)
def test_an_unknown_level_fails_as_in_kafka_features(run: Run, level: str, words: str) -> None:
    """With its message."""
    ended = run("feature-dependencies", "--feature", level)
    assert ended.code == 1
    assert words in ended.err


def test_lookups_as_json(run: Run) -> None:
    """Scripts read the JSON."""
    mapping = json.loads(run("version-mapping", "--release-version", "3.9", "--output", "json").out)
    assert mapping["levels"]["metadata.version"] == 21
    found = run("feature-dependencies", "--feature", "eligible.leader.replicas.version=1", "--output", "json").out
    assert json.loads(found) == [
        {"feature": "eligible.leader.replicas.version", "level": 1, "requires": {"metadata.version": 23}}
    ]
