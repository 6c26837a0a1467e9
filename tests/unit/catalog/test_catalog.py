"""What is known about Kafka: names, levels and releases."""

import pkgutil

import pytest
from kio.schema.index import api_key_map

from featuregate import catalog
from featuregate.catalog.load import load
from featuregate.errors import UnknownApi


def test_names_and_keys_are_each_others_inverse() -> None:
    """Each API of the table has one name and one key."""
    assert all(catalog.api_key(name) == key for key, name in catalog.API_NAMES.items())
    assert [catalog.api_name(key) for key in range(95)] == list(catalog.API_NAMES.values())


def test_a_new_key_has_a_name_that_reads_back() -> None:
    """Brokers are newer than tables."""
    assert catalog.api_name(999) == "api:999"
    assert catalog.api_key("api:999") == 999


@pytest.mark.parametrize("name", ["", "Fetcj", "api:", "api:x", "api:-1", "api:²", "999", "api:" + "9" * 5000])
def test_what_is_no_name_is_refused(name: str) -> None:
    """Rather than be an API that no broker serves."""
    with pytest.raises(UnknownApi):
        catalog.api_key(name)


def test_close_names_are_found_whatever_the_case() -> None:
    """For the error that a misspelling gives."""
    assert catalog.close_to("FETCJ", ["Fetch", "Produce"]) == ("Fetch",)
    assert catalog.close_to("xyzzy", ["Fetch", "Produce"]) == ()


def test_a_long_text_is_close_to_no_name():
    """It is not compared: that takes seconds for one of a million characters."""
    assert catalog.close_to("Fetch" * 200_000, ["Fetch", "Produce"]) == ()


def test_a_name_with_two_letters_exchanged_is_close() -> None:
    """A short one shares too few letters in order with what is meant."""
    assert catalog.close_to("zsdt", ["kip447", "zstd"]) == ("zstd",)
    assert catalog.close_to("tszd", ["kip447", "zstd"]) == ()


def test_levels_of_metadata_version_are_without_a_gap() -> None:
    """Each has the release that it was read from."""
    levels = catalog.metadata_levels()
    assert list(levels) == list(range(1, 34))
    assert (levels[21].name, levels[21].release, levels[21].read_from) == ("3.9-IV0", "3.9", "3.9.2")
    assert (levels[22].did_metadata_change, levels[23].did_metadata_change) == (False, True)


def test_level_names_are_those_of_kafkas_own_tool() -> None:
    """``kafka-features describe`` prints names for one feature only, and UNKNOWN for what it does not know."""
    assert catalog.level_name("metadata.version", 21) == "3.9-IV0"
    assert catalog.level_name("metadata.version", 99) == "UNKNOWN 99"
    assert catalog.level_name("metadata.version", 0) == "UNKNOWN 0"
    assert catalog.level_name("group.version", 1) == "1"


@pytest.mark.parametrize(
    ("version", "level"), [("3.9", 21), ("3.8.1", 20), ("3.3-IV0", 4), ("3.3", 7), ("4.4", 33), ("4.4-IV0", 31)]
)
def test_a_level_is_found_by_name_or_release(version: str, level: int) -> None:
    """A release stands for its last level."""
    found = catalog.level_named(version)
    assert found is not None
    assert found.level == level


@pytest.mark.parametrize("version", ["9.9", "", "IV0", "2.8"])
def test_a_level_that_is_not_known_is_not_found(version: str) -> None:
    """Before 3.0 there was no such feature."""
    assert catalog.level_named(version) is None


def test_features_come_in_the_order_of_kafkas_own_tool() -> None:
    """As ``kafka-features version-mapping`` prints them."""
    assert catalog.features() == (
        "metadata.version",
        "kraft.version",
        "transaction.version",
        "group.version",
        "eligible.leader.replicas.version",
        "share.version",
        "streams.version",
    )


def test_the_version_mapping_of_4_3_is_that_of_kafkas_own_tool() -> None:
    """``kafka-features version-mapping --release-version 4.3`` of 4.3.1."""
    assert catalog.release_levels(30) == {
        "metadata.version": 30,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }


def test_older_metadata_versions_start_with_nothing_else() -> None:
    """In 3.3 there was one feature."""
    assert {level for name, level in catalog.release_levels(7).items() if name != "metadata.version"} == {0}
    assert set(catalog.release_levels(1).values()) == {0, 1}


def test_dependencies_are_known() -> None:
    """``kafka-features feature-dependencies --feature eligible.leader.replicas.version=1``."""
    level = catalog.feature_level("eligible.leader.replicas.version", 1)
    assert level is not None
    assert (level.depends_on, level.bootstrap.name) == ({"metadata.version": 23}, "4.1-IV0")
    assert catalog.feature_level("group.version", 9) is None
    assert catalog.feature_levels("brand.new.version") == ()


@pytest.mark.parametrize(
    ("current", "target", "safe"), [(27, 23, True), (27, 22, False), (30, 29, False), (7, 7, True)]
)
def test_safe_downgrades_are_those_that_controllers_allow(current, target, safe) -> None:
    """The expected values were seen on real controllers (KIP-778)."""
    assert catalog.is_safe_downgrade(current, target) is safe


def test_a_downgrade_over_a_level_that_is_not_known_is_neither() -> None:
    """Unless a known one on the way forbids it."""
    assert catalog.is_safe_downgrade(35, 33) is None
    assert catalog.is_safe_downgrade(35, 32) is False


def test_data_tells_its_source() -> None:
    """A table without one cannot be checked."""
    assert "MetadataVersion.java" in load("levels")["source"]
    assert all(row.captured_from for row in catalog.captured().values())


def test_a_file_that_is_not_there_is_none() -> None:
    """The wheel may be newer or older than a data file."""
    assert load("no-such-table") is None


@pytest.mark.parametrize(
    ("version", "release"), [("3.9", "3.9"), ("3.9.2", "3.9"), ("4", "4"), ("0.10.0.1", "0.10.0"), ("0.10.0", "0.10.0")]
)
def test_a_version_is_cut_down_to_its_release(version: str, release: str) -> None:
    """Before 1.0 a release had three numbers."""
    assert catalog.release_of(version) == release


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
