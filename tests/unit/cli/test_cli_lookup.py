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


def test_version_mapping_is_that_of_kafka_features(run: Run, drop_in: Run) -> None:
    """The command needs no cluster, and prints the version as it was given."""
    assert run("version-mapping") == drop_in("version-mapping") == (0, MAPPING, "")
    assert run("version-mapping", "--release-version", "3.9.2").out.startswith("metadata.version=21 (3.9.2)\n")


def test_only_featuregate_maps_newer_releases(run: Run, drop_in: Run) -> None:
    """The drop-in knows 4.4 by the name of its first level, as kafka-features 4.3 does."""
    assert run("version-mapping", "--release-version", "4.4").out.startswith("metadata.version=33 (4.4)\n")
    assert drop_in("version-mapping", "--release-version", "4.4")[0] == 1
    assert drop_in("version-mapping", "--release-version", "4.4-IV0")[1].startswith("metadata.version=31 (4.4-IV0)\n")


def test_dependencies_are_those_of_kafka_features(run: Run, drop_in: Run) -> None:
    """The output follows the order of the options."""
    argv = ["feature-dependencies"]
    for level in ("eligible.leader.replicas.version=1", "metadata.version=21", " group.version = 1"):
        argv += ["--feature", level]
    out = (
        "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
        "metadata.version=21 (3.9-IV0) has no dependencies.\ngroup.version=1 has no dependencies.\n"
    )
    assert run(*argv) == drop_in(*argv) == (0, out, "")


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
def test_an_unknown_level_fails_as_in_kafka_features(run: Run, drop_in: Run, level: str, words: str) -> None:
    """Both programs print the same message."""
    ended = run("feature-dependencies", "--feature", level)
    assert ended.code == 1
    assert words in ended.err
    assert drop_in("feature-dependencies", "--feature", level)[2] == ended.err.removeprefix("featuregate: ")


def test_lookups_as_json(run: Run) -> None:
    """Scripts read the JSON."""
    mapping = json.loads(run("version-mapping", "--release-version", "3.9", "--output", "json").out)
    assert mapping["levels"]["metadata.version"] == 21
    found = run("feature-dependencies", "--feature", "eligible.leader.replicas.version=1", "--output", "json").out
    assert json.loads(found) == [
        {"feature": "eligible.leader.replicas.version", "level": 1, "requires": {"metadata.version": 23}}
    ]
