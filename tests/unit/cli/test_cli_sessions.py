"""Commands that change levels, or plan that, as ``sessions.txt`` has them: what is sent and what is printed, whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scripted import HANG_UP, ScriptedCluster
from transcripts import replayed, sections

from featuregate.catalog import release_levels
from featuregate.wire.in_use import ListedGroup, ListGroupsRequest, ListGroupsResponse, ListTransactionsResponse
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from conftest import Run

    Before = Callable[[ScriptedCluster, ScriptedCluster, Path], object]

SCENES = sections(__file__, "sessions.txt")
AT_4_1 = {"metadata.version": 27, "kraft.version": 0, "share.version": 0, "streams.version": 0}
"""A cluster of 4.2 with static voters, formatted at 4.1."""


def apply(**levels: int) -> Before:
    return lambda cluster, *_: cluster.apply({name.replace("_", "."): level for name, level in levels.items()})


def says(answer: object, *, applied: bool = False) -> Before:
    """Let the controller answer so, and do what it was asked to do or not."""

    def before(cluster: ScriptedCluster, *_: object) -> None:
        def answers(*asked: Any) -> object:
            if applied:
                cluster.agree(*asked)
            return answer

        cluster.says = answers

    return before


def is_refused(error_code: int, message: str) -> Before:
    return says(UpdateFeaturesResponse(error_code=error_code, error_message=message))


def by_feature(*failed: str, **succeeded: int) -> Before:
    """Be a controller before 4.0, which decides feature by feature."""

    def before(cluster: ScriptedCluster, *_: object) -> None:
        cluster.speak(0, 1)
        results = [FeatureResult(feature=name.replace("_", ".")) for name in succeeded]
        results += [FeatureResult(feature=name, error_code=95, error_message="no") for name in failed]
        cluster.says = lambda *_: UpdateFeaturesResponse(results=tuple(results))

    return before


def of_3_9(cluster: ScriptedCluster, *_: object) -> None:
    by_feature(metadata_version=0)(cluster, cluster, Path())
    for node in cluster.nodes.values():
        node.supported = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
        node.finalized = {"metadata.version": 20}


def with_a_group(cluster: ScriptedCluster, *_: object) -> None:
    group = ListedGroup(group_id="orders", protocol_type="", group_state="Stable", group_type="consumer")
    cluster.lists = lambda *_: ListGroupsResponse(groups=(group,))
    cluster.apply({"group.version": 1})


# ---------------------------------------------------------------- latches


def state(cluster_id: str = "scripted", requirement: str = "group.version>=1") -> dict[str, Any]:
    gate = {"gate": "eos", "requirement": requirement, "opened_at": "2026-01-01T00:00:00+00:00", "epoch": 3}
    return {"schema_version": 1, "cluster_id": cluster_id, "levels": {}, "gates": [gate]}


def files(**contents: object) -> Before:
    """Write files below the folder; ``__`` in a name leads into a folder of it, and texts stand as they are."""

    def before(_: object, __: object, folder: Path) -> None:
        for name, content in contents.items():
            file = folder / name.replace("__", "/").replace("_json", ".json").replace("pin_", "pin-")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content))

    return before


def pins(**newest: object) -> Before:
    """Have a Spark query with two pins, of which the newer one has the latch of the older, and one more."""
    older = {"schema_version": 1, "latch_states": []}
    with_latch = {"schema_version": 1, "latch_states": [state()]}
    kept = {"pin_9": older, "pin_10": with_latch, "pin_2": older, **newest}
    return files(**{f"checkpoint__featuregate__{name}": content for name, content in kept.items()})


# ---------------------------------------------------------------- what cannot be undone


def supports_30(cluster: ScriptedCluster, quorum: ScriptedCluster, *_: object) -> None:
    """Have the levels of 4.2, and nodes that support the next one: the controller is the only voter."""
    cluster.apply({"metadata.version": 29})
    for each in (cluster, quorum):
        each.vote(1)
        for node in each.nodes.values():
            node.supported["metadata.version"] = (7, 30)


def then(*steps: Before) -> Before:
    return lambda *given: [step(*given) for step in steps]


def in_sync(cluster_has: list[tuple[str, int]], quorum_has: list[tuple[str, int]] | None = None) -> Before:
    """Let brokers, and the controller, tell this ``min.insync.replicas`` with its sources, before the new default."""

    def before(cluster: ScriptedCluster, quorum: ScriptedCluster, *_: object) -> None:
        supports_30(cluster, quorum)
        for each in (cluster, quorum):
            each.apply({"eligible.leader.replicas.version": 0})
        cluster.in_sync = dict.fromkeys("123", cluster_has)
        quorum.in_sync = {} if quorum_has is None else {"1": quorum_has}

    return before


NO_TRANSACTIONS = ListTransactionsResponse()
OWN, DEFAULT, BUILT_IN = ("2", 4), ("2", 3), ("1", 5)
REFUSED = is_refused(95, "no, because")
DUMP = "Request(processor=0, connectionId=127.0.0.1:1-127.0.0.1:2-0-3, session=Session(User:app,/127.0.0.1))"
BEFORE: dict[str, Before] = {
    "the controller refuses": REFUSED,
    "a controller before 4.0 decides feature by feature": by_feature("b", a=1),
    "a plan of an update has every change": apply(share_version=1, group_version=1),
    "messages of a controller cannot steer a terminal": is_refused(95, "\x1b[2Jgone\nand more"),
    "a script that lowers a level learns who uses it": with_a_group,
    "a missing right is named, without the dump of the request": is_refused(31, f"Request {DUMP} needs ALTER."),
    "the answer is lost": says(HANG_UP, applied=True),
    "the controller timed out": says(UpdateFeaturesResponse(error_code=7), applied=True),
    "no broker shows the level": says(UpdateFeaturesResponse()),
    "a release leaves out what cannot go down": apply(kraft_version=0, share_version=1, streams_version=1),
    "kraft.version is not raised with a release": of_3_9,
    "the cluster has the levels of the release": lambda cluster, *_: cluster.apply(release_levels(29)),
    "an upgrade to a release sends only changes": lambda cluster, *_: cluster.apply(AT_4_1),
    "a release as JSON has the levels before": lambda cluster, *_: cluster.apply(AT_4_1),
    "a plan of a release lists what is left out": apply(kraft_version=0),
    "a plan of a release that is there": apply(
        kraft_version=1, share_version=1, streams_version=1, metadata_version=29
    ),
    "a controller must support the level": lambda _, quorum, *__: quorum.nodes[1].supported.update(
        {"share.version": (0, 0)}
    ),
    "latches of a folder and of files": files(scripted_json=state(), another_json=state("another")),
    "the newest pin of a Spark query": pins(),
    "the newest pin is damaged": pins(pin_11="{"),
    "the newest pin is of a newer featuregate": pins(pin_11={"schema_version": 9, "latch_states": []}),
    "other files are no latches": files(other_json="{}"),
    "a file that was set aside as damaged": files(**{"scripted.damaged-1": "{", "scripted.lock": "", "1.source": "{}"}),
    "a file that was set aside, and a new one": files(**{"scripted.damaged-2": "{", "scripted_json": state()}),
    "latch files that cannot be read": files(
        a__scripted_json="[]",
        b__scripted_json="{",
        c__scripted_json='{"schema_version": 1}',
        d__scripted_json='{"schema_version": 99}',
    ),
    "a damaged file does not hide the others": files(damaged_json="{", scripted_json=state()),
    "a latch that this release cannot parse": files(scripted_json=state(requirement="group.version~1")),
    "a cluster without an id": files(scripted_json=state()),
    "what cannot be undone needs --yes": supports_30,
    "brokers that are the voters have answered for themselves": supports_30,
    "a dry run names what cannot be taken back": apply(metadata_version=20, kraft_version=0),
    "controllers were not asked": then(supports_30, lambda cluster, *_: cluster.vote(101)),
    "a broker is silent": then(supports_30, lambda cluster, *_: cluster.shut(2)),
    "what cannot be undone is not sent with what is refused": then(
        supports_30, *(lambda *both, at=at: both[at].apply({"kraft.version": 0}) for at in (0, 1))
    ),
    "a config may fall, and cannot be read at the controller": in_sync([OWN, BUILT_IN]),
    "a config falls": in_sync([OWN, BUILT_IN], [BUILT_IN]),
    "a default of the cluster keeps the config": in_sync([OWN, DEFAULT, BUILT_IN], [BUILT_IN]),
}


@pytest.fixture
def quorum() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(1, role="controller") as controllers:
        yield controllers


@pytest.mark.parametrize("scene", SCENES)
def test_a_session_is_as_kept(
    on: Run, cluster: ScriptedCluster, quorum: ScriptedCluster, tmp_path: Path, scene: str
) -> None:
    """What the command sends stands behind ``>``, and what it only asks. It leaves files of an app as they are."""
    cluster.vote(1)
    cluster.lists = lambda asked, _: ListGroupsResponse() if isinstance(asked, ListGroupsRequest) else NO_TRANSACTIONS
    BEFORE.get(scene, lambda *_: None)(cluster, quorum, tmp_path)
    there = {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()}
    named = {"FOLDER": str(tmp_path), "QUORUM": quorum.bootstrap}
    assert replayed(SCENES[scene], on, named, cluster.newly_received) == SCENES[scene]
    assert {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()} == there


def test_each_preparation_is_that_of_a_scene() -> None:
    assert BEFORE.keys() <= SCENES.keys()
