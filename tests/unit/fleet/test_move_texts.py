"""Moves as people write them, and what brokers serve after each."""

import pytest

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import DropApi, ReleaseApis, Served, is_internal
from featuregate_fleet.readiness.moves import MOVES, Deprecate, DowngradeTo, Finalize, Move, ToRelease

FETCH, API_VERSIONS, TELEMETRY, CONTROLLED_SHUTDOWN = 1, 18, 71, 7
OF_4_2, OF_3_9 = captured()["4.2"], captured()["3.9"]
PATCHED = captured()["4.0"]._replace(release="4.0.2", apis={**captured()["4.0"].apis, 11: (0, 9)})


@pytest.mark.parametrize(
    ("kind", "text", "move"),
    [
        ("to", "4.2", ToRelease(OF_4_2)),
        ("to", "4.2.0", ToRelease(OF_4_2)),
        ("to", "4.0.2", ToRelease(PATCHED)),
        ("downgrade-to", "3.9.2", DowngradeTo(OF_3_9, "3.9.2")),
        ("downgrade-to", "4.0.2", DowngradeTo(PATCHED, "4.0.2")),
        ("finalize", "transaction.version=2", Finalize("transaction.version", 2)),
        ("finalize", "metadata.version=4.2-IV1", Finalize("metadata.version", 29)),
        ("finalize", "metadata.version=29", Finalize("metadata.version", 29)),
        ("deprecate", "group.version=32767", Deprecate("group.version", 32767)),
        ("drop-api", "Fetch<12", DropApi(FETCH, 12)),
        ("drop-api", "api:1<32767", DropApi(FETCH, 32767)),
        ("drop-api", "api:32767<1", DropApi(32767, 1)),
    ],
)
def test_a_move_is_read(kind: str, text: str, move: Move) -> None:
    """A release, a level by number or by name, or an API by name or by number."""
    assert MOVES[kind].read(text) == move


def test_what_a_release_serves_is_what_its_brokers_said() -> None:
    """Except of telemetry, and of ApiVersions, which any version of is answered."""
    apis = ReleaseApis(OF_4_2)
    assert (apis.brokers, apis.step, apis.source) == ("Kafka 4.2", "move to 4.2", OF_4_2.captured_from)
    assert [apis.served(key) for key in (FETCH, API_VERSIONS, TELEMETRY)] == [(4, 18), (0, 2**15), (0, 2**15)]
    assert apis.served(999) is None
    assert [apis.lacks(FETCH, version) for version in (3, 4, 18, 19)] == [True, False, False, True]
    assert apis.lacks(999, 0)
    assert [apis.concerns(key) for key in (FETCH, CONTROLLED_SHUTDOWN)] == [True, False]
    assert [is_internal(key) for key in (83, 87, 88)] == [True, True, False]
    assert not apis.among_nodes
    assert [str(each) for each in (Served(3, 3), Served(3, 4))] == ["3", "3-4"]


@pytest.mark.parametrize(
    ("release", "api", "version", "dropped"),
    [
        ("4.2", FETCH, 3, "4.0"),
        ("4.0", FETCH, 3, "4.0"),
        ("3.9", FETCH, 3, None),
        ("4.2", FETCH, 99, None),
        ("4.2", FETCH, 18, None),
    ],
)
def test_a_version_was_dropped_in_a_release(release: str, api: int, version: int, dropped: str | None) -> None:
    """The first that does not serve it any more, up to the target."""
    assert ReleaseApis(captured()[release]).dropped_in(api, version) == dropped


def test_brokers_without_old_versions_serve_all_else() -> None:
    """Also to one another."""
    apis = DropApi(FETCH, 12)
    texts = ("a broker without Fetch below 12", "drop Fetch below 12", "as given")
    assert (apis.brokers, apis.step, apis.source) == texts
    assert [apis.served(key) for key in (FETCH, 2)] == [(12, 2**15), (0, 2**15)]
    assert [apis.lacks(FETCH, version) for version in (11, 12)] == [True, False]
    assert (apis.concerns(FETCH), apis.concerns(2), apis.among_nodes) == (True, False, True)
    assert apis.describe(FETCH, (3, 4)) == "The client uses Fetch 3, 4."
    assert apis.dropped_in(FETCH, 3) is None
