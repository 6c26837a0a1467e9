"""The table of schemas by which records are decoded, beside the schemas in Kafka's own jars."""

from typing import Any

import pytest
from coordinators import ARTIFACTS, layouts, schemas

from featuregate.catalog.load import load
from featuregate.testing.local_kafka.commands import jars_of
from featuregate.testing.local_kafka.releases import recipe_for

pytestmark = pytest.mark.live

EARLY_ACCESS = {"ShareGroupMetadataValue", "ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
"""Records of share groups in 3.9, changed or given up before a release supported them."""


def of_release(release: str) -> Any:
    """Read the schemas of a release; it may not have all three jars."""
    jars = {topic: jars_of(recipe_for(release)) / f"{jar}-{release}.jar" for jar, topic in ARTIFACTS.items()}
    return layouts({topic: schemas(jar) for topic, jar in jars.items() if jar.exists()}, "")


def without_newer_tags(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the tagged fields that a release does not have yet; the place of the others says nothing."""
    there = {field["name"] for field in theirs}
    return sorted((field for field in ours if "tag" not in field or field["name"] in there), key=tag_of)


def tag_of(field: dict[str, Any]) -> int:
    """Order tagged fields behind the others, which stay in their order."""
    return int(field.get("tag", -1))


def test_the_table_is_that_of_the_newest_release() -> None:
    """``scripts/coordinators.py`` wrote it, and nobody changed it by hand."""
    table = load("record_schemas")
    assert of_release("4.4.0") == {**table, "source": ""}


@pytest.mark.parametrize(("release", "count"), [("3.9.2", 21), ("4.2.0", 49), ("4.3.1", 49)])
def test_the_table_holds_for_older_releases(release: str, count: int) -> None:
    """Each field of each key and value: name, type, versions, tag, default, and the order of those without a tag."""
    messages = load("record_schemas")["messages"]
    theirs = of_release(release)["messages"]
    names = theirs.keys() - (EARLY_ACCESS if release == "3.9.2" else ())
    assert len(names) == count
    for name in names:
        mine, other = dict(messages[name]), dict(theirs[name])
        structures = {"": mine.pop("fields"), **mine.pop("commonStructs", {})}
        others = {"": other.pop("fields"), **other.pop("commonStructs", {})}
        assert mine == other, name
        for each, fields in others.items():
            assert without_newer_tags(structures[each], fields) == sorted(fields, key=tag_of), (name, each)
