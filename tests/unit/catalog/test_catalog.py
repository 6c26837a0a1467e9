"""What is known about Kafka: names, levels and releases."""

import ast
import pkgutil
from collections.abc import Callable

import pytest
from kio.schema.index import api_key_map
from transcripts import retold, sections

from featuregate import catalog
from featuregate.catalog.load import load
from featuregate.errors import UnknownApi


def test_names_and_keys_are_each_others_inverse() -> None:
    """Each API of the table has one name and one key."""
    assert all(catalog.api_key(name) == key for key, name in catalog.API_NAMES.items())
    assert [catalog.api_name(key) for key in range(95)] == list(catalog.API_NAMES.values())


def key_of(name: str) -> object:
    try:
        return catalog.api_key(ast.literal_eval(name))
    except UnknownApi:
        return "refused"


def level_of(text: str) -> str:
    level = catalog.feature_level(*ast.literal_eval(text))
    return f"after {dict(level.depends_on)}, by default from {level.bootstrap.name}" if level else "unknown"


TELL: dict[str, Callable[[str], object]] = {
    "key of an API": key_of,
    "name of an API": lambda key: catalog.api_name(int(key)),
    "close names": lambda text: catalog.close_to(*ast.literal_eval(text)),
    "name of a level": lambda text: catalog.level_name(*ast.literal_eval(text)),
    "metadata.version": lambda version: getattr(catalog.level_named(ast.literal_eval(version)), "level", None),
    "level of a feature": level_of,
    "levels of a release": lambda level: dict(catalog.release_levels(int(level))),
    "safe downgrade": lambda text: catalog.is_safe_downgrade(*ast.literal_eval(text)),
    "release of a version": catalog.release_of,
}
READ = sections(__file__, "lookups.txt")


@pytest.mark.parametrize("scene", TELL)
def test_lookups_are_as_kept(scene: str) -> None:
    """Expected values that are about Kafka were seen on real controllers, or are those of its own tools."""
    assert retold(READ[scene], TELL[scene]) == READ[scene]


def test_a_key_of_thousands_of_digits_is_refused() -> None:
    """Python itself reads no number of so many."""
    assert key_of(repr("api:" + "9" * 5000)) == "refused"


def test_a_long_text_is_close_to_no_name():
    """It is not compared: that takes seconds for one of a million characters."""
    assert catalog.close_to("Fetch" * 200_000, ["Fetch", "Produce"]) == ()


def test_levels_of_metadata_version_are_without_a_gap() -> None:
    """Each has the release that it was read from."""
    levels = catalog.metadata_levels()
    assert list(levels) == list(range(1, 34))
    assert (levels[21].name, levels[21].release, levels[21].read_from) == ("3.9-IV0", "3.9", "3.9.2")
    assert (levels[22].did_metadata_change, levels[23].did_metadata_change) == (False, True)


def test_data_tells_its_source() -> None:
    """A table without one cannot be checked."""
    assert "MetadataVersion.java" in load("levels")["source"]
    assert all(row.captured_from for row in catalog.captured().values())


def test_a_file_that_is_not_there_is_none() -> None:
    """The wheel may be newer or older than a data file."""
    assert load("no-such-table") is None


TABLE = {
    release: catalog.CapturedRelease(release, apis, features, "this test")
    for release, apis, features in [
        ("2.8", {1: (0, 12), 4: (0, 5), 71: (0, 0)}, {}),
        ("3.9", {1: (0, 17), 4: (0, 7), 55: (0, 2), 68: (0, 0), 71: (0, 0)}, {"metadata.version": (1, 21)}),
        ("4.10", {1: (4, 18), 55: (0, 2), 68: (0, 1)}, {"metadata.version": (7, 40)}),
    ]
}


def test_what_a_release_needs_is_what_later_ones_still_have() -> None:
    """LeaderAndIsr (4) is gone, telemetry (71) is configured, and brokers with ZooKeeper had no DescribeQuorum (55)."""
    assert catalog.needed("2.8", TABLE) == catalog.Needed({1: 12}, None)
    assert catalog.needed("3.9", TABLE) == catalog.Needed({1: 17, 68: 0}, 21)
    assert catalog.needed("4.10", TABLE) == catalog.Needed({1: 18, 55: 2, 68: 1}, 40)


def test_a_patch_may_serve_other_versions_than_the_first_release() -> None:
    """Brokers serve JoinGroup 0 and 1 again from 4.0.1 on (KAFKA-19444); nothing else differs."""
    first, patched = catalog.captured()["4.0"], catalog.captured_as("4.0.1")
    assert patched is not None
    assert (first.apis[11], patched.apis[11], patched.release) == ((2, 9), (0, 9), "4.0.1")
    assert {**patched.apis, 11: first.apis[11]} == first.apis
    assert catalog.captured_as("4.0") == catalog.captured_as("4.0.0") == first
    assert catalog.captured_as("3.9.2") == catalog.captured()["3.9"]
    assert catalog.captured_as("0.10.0.1") == catalog.captured()["0.10.0"]
    assert catalog.captured_as("9.9.9") is None


def test_captured_releases_come_oldest_first() -> None:
    """The order is that of numbers: 4.10 is newer than 4.9."""
    releases = catalog.captured_releases()
    assert releases
    assert list(releases) == sorted(releases, key=lambda release: [int(part) for part in release.split(".")])


def test_every_release_since_api_versions_was_captured() -> None:
    """From 0.10.0 on (KIP-35), from a build of that very release, and without a gap."""
    releases = [f"0.10.{patch}" for patch in range(3)] + ["0.11.0", "1.0", "1.1"]
    releases += [f"2.{minor}" for minor in range(9)] + [f"3.{minor}" for minor in range(10)]
    assert list(catalog.captured_releases())[: len(releases) + 4] == [*releases, "4.0", "4.1", "4.2", "4.3"]
    for release, row in catalog.captured().items():
        assert row.captured_from.startswith(f"Apache Kafka {release}.")


def test_metadata_versions_and_captured_brokers_agree() -> None:
    """The highest level that a real broker supports is the last in the table of its release."""
    supported = {release: row.features.get("metadata.version") for release, row in catalog.captured().items()}
    for release, levels in supported.items():
        if levels is not None:
            assert catalog.metadata_levels()[levels[1]] == catalog.level_named(release)


def test_what_was_captured_goes_with_the_table_of_names() -> None:
    """No real broker served an API that has no name here."""
    assert {key for row in catalog.captured().values() for key in row.apis} <= set(catalog.API_NAMES)


def test_each_captured_release_qualifies_as_itself_and_as_older() -> None:
    """And not as newer, where something tells them apart."""
    captured = catalog.captured()
    for at, release in enumerate(captured):
        needed = catalog.needed_for(release)
        for newer in list(captured.values())[at:]:
            assert all(newer.apis[key][1] >= version for key, version in needed.apis.items())


def test_names_are_those_of_kio() -> None:
    """Another table, made from the same protocol files."""
    assert {name: catalog.api_key(name) for name in api_key_map.values()} == {n: k for k, n in api_key_map.items()}


def test_no_module_hides_a_name_of_the_catalog() -> None:
    """Once a module is imported, its package has its name, whatever the package would give for it."""
    modules = {module.name for module in pkgutil.iter_modules(catalog.__path__)}
    assert not modules & set(catalog.__all__)
