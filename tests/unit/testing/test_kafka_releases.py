"""How to run each release of Kafka."""

import pytest

from featuregate.errors import LocalKafkaError
from featuregate.testing.local_kafka.releases import CHANGES, recipe_for, version_numbers


@pytest.mark.parametrize(
    ("version", "scala", "quorum", "logging", "scram"),
    [
        ("0.10.0.1", "2.11", "zookeeper", "log4j", None),
        ("1.0.2", "2.12", "zookeeper", "log4j", "zookeeper"),
        ("2.4.1", "2.13", "zookeeper", "log4j", "zookeeper"),
        ("2.8.2", "2.13", "zookeeper", "log4j", "zookeeper"),
        ("3.3.2", "2.13", "kraft", "log4j", None),
        ("3.9.2", "2.13", "kraft", "log4j", "format"),
        ("4.2.0", "2.13", "kraft", "log4j2", "format"),
        ("4.3.1", "2.13", "kraft", "log4j2", "format"),
    ],
)
def test_a_release_is_run_as_it_wants(version, scala, quorum, logging, scram):
    """The tested releases, with what differs most."""
    recipe = recipe_for(version)
    assert (recipe.scala, recipe.quorum, recipe.logging, recipe.scram) == (scala, quorum, logging, scram)


def test_an_unknown_release_is_run_as_the_newest_known_one():
    newest, unknown = recipe_for("4.3.1"), recipe_for("5.17.3")
    assert unknown.coordinates == ("org.apache.kafka:kafka_2.13:5.17.3", "org.apache.kafka:kafka-tools:5.17.3")
    assert (unknown.quorum, unknown.features_tool) == (newest.quorum, newest.features_tool)


def test_a_release_without_tools_borrows_those_of_another():
    recipe = recipe_for("4.4.0")
    assert recipe.coordinates == ("org.apache.kafka:kafka_2.13:4.4.0",)
    assert recipe.tools_of == "4.3.1"
    assert recipe_for("4.4.1").tools_of is None


@pytest.mark.parametrize(
    ("version", "patched"),
    [
        ("0.10.0.1", ""),
        ("0.11.0.3", "jaxb-api"),
        ("1.1.1", ""),
        ("2.0.1", "zookeeper"),
        ("2.3.1", "zookeeper"),
        ("2.4.1", ""),
    ],
)
def test_an_old_release_takes_what_a_new_java_lacks(version, patched):
    """Releases for Java 8 need nothing else."""
    assert [patch.split(":")[1] for patch in recipe_for(version).patches] == ([patched] if patched else [])


def test_the_table_is_in_order():
    """Otherwise an older change would undo a newer one."""
    assert [since for since, _ in CHANGES] == sorted(since for since, _ in CHANGES)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        # KIP-35 came with 0.10.0
        *((version, "no ApiVersions") for version in ("0.9.0.1", "0.8.2.2")),
        # Maven would say that there is no such file
        *((line, f"name one of it, such as {line}.0") for line in ("4.2", "0.11.0")),
        *(
            (text, "is not a version")
            for text in ("", "4", "latest", "v4.2.0", "4.2.0 ", "4..2", "4.2.0/../x", "4.2.0\n")
        ),
    ],
)
def test_what_is_no_release_that_can_be_run_is_refused(version, words):
    with pytest.raises(LocalKafkaError, match=words):
        recipe_for(version)


def test_a_release_candidate_is_of_its_release():
    assert version_numbers("4.4.0-rc1") == (4, 4, 0)


@pytest.mark.parametrize(("version", "release"), [("0.10.0.1", "0.10.0"), ("2.4.1", "2.4"), ("4.3.1", "4.3")])
def test_a_release_line_is_spelled_as_brokers_do(version, release):
    """It is the form of inter.broker.protocol.version."""
    assert recipe_for(version).release == release
