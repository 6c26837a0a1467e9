"""``plan``: its output, its exit codes, and the latches that it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedCluster

from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from conftest import Run

DISABLE = ("plan", "disable", "--feature", "group.version")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["upgrade", "--feature", "share.version=1"], 0, "accepted: 1 update of cluster scripted"),
        (["upgrade", "--feature", "group.version=9"], 1, "Broker 1 only supports versions 0-1"),
        (["upgrade", "--feature", "kraft.version=1"], 2, "only the leader of the quorum knows"),
        (["disable", "--feature", "group.version"], 0, "closes    kip848"),
        (["disable", "--feature", "group.version", "--gate", "mine=kip848"], 1, "affects   mine, which stays latched"),
        (["upgrade"], 64, "You must specify at least one feature to upgrade"),
        (["frob"], 64, "invalid choice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_exit_code_is_the_judgement(
    on: Run, cluster: ScriptedCluster, argv: list[str], code: int, words: str
) -> None:
    """The command sends no update."""
    ended = on("plan", *argv)
    assert ended.code == code
    assert words in ended.out + ended.err
    assert cluster.received == []


def test_a_plan_of_a_release_lists_what_is_left_out(on: Run, cluster: ScriptedCluster) -> None:
    """The plan holds the updates that the command would send."""
    cluster.apply({"kraft.version": 0})
    argv = ("plan", "downgrade", "--release-version", "4.1")
    ended = on(*argv)
    assert ended.code == 0
    assert "  left out  kraft.version: is at 0, and a downgrade to 1 cannot raise it" in ended.out
    assert json.loads(on(*argv, "--output", "json").out)["left_out"][0]["feature"] == "kraft.version"
    cluster.apply({"kraft.version": 1, "share.version": 1, "streams.version": 1, "metadata.version": 29})
    assert on("plan", "upgrade", "--release-version", "4.2").out.startswith(
        "accepted: nothing to change on cluster scripted"
    )


def test_controllers_are_asked_where_they_are_named(on: Run) -> None:
    """A controller must support the level too."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.nodes[1].supported["share.version"] = (0, 0)
        ended = on("plan", "upgrade", "--feature", "share.version=1", "--controllers", quorum.bootstrap)
    assert ended.code == 1
    assert "Local controller 1 does not support this feature." in ended.out


@pytest.mark.parametrize(("controllers", "code"), [("127.0.0.1:1", 2), ("itself", 64), ("another", 64)])
def test_an_error_about_controllers_names_the_option(
    on: Run, cluster: ScriptedCluster, controllers: str, code: int
) -> None:
    """The brokers have answered, so the error is not about them."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.cluster_id = "another"
        where = {"itself": cluster.bootstrap, "another": quorum.bootstrap}.get(controllers, controllers)
        ended = on("plan", "upgrade", "--feature", "share.version=1", "--controllers", where)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("featuregate: argument --controllers: ")


def test_a_controller_that_has_gone_makes_a_plan_unknown(run: Run) -> None:
    """The exit code is not 0 with the controllers, and not without."""
    argv = ("plan", "upgrade", "--feature", "metadata.version=29", "--bootstrap-server")
    with FakeCluster(1, controllers=2, finalized={"metadata.version": 21}) as cluster:
        cluster.voters = (3000,)
        cluster.broker(3001).stop()
        unasked = run(*argv, cluster.bootstrap)
        asked = run(*argv, cluster.bootstrap, "--controllers", cluster.bootstrap_controllers)
        listed = run(*argv, cluster.bootstrap, "--broker-list", "bootstrap")
    assert (unasked.code, asked.code, listed.code) == (2, 2, 2)
    assert "controllers were not asked" in unasked.out
    assert "controller 3001" in asked.out
    assert "kafka-cluster.sh" not in asked.out
    assert "with node.id=3001" in asked.out


def latches(folder: Path, cluster_id: str) -> Path:
    """Write the file that a FileLatchStore would."""
    file = folder / f"{cluster_id}.json"
    gate = {"gate": "eos", "requirement": "group.version>=1", "opened_at": "2026-01-01T00:00:00+00:00", "epoch": 3}
    file.write_text(json.dumps({"schema_version": 1, "cluster_id": cluster_id, "levels": {}, "gates": [gate]}))
    return file


def test_latches_are_read_from_a_folder_or_a_file(on: Run, tmp_path: Path) -> None:
    """The plan uses only the latches of this cluster."""
    file, other = latches(tmp_path, "scripted"), latches(tmp_path, "another")
    for place, affected in ((tmp_path, 1), (file, 1), (other, 0)):
        ended = on(*DISABLE, "--latches", str(place), "--output", "json")
        assert len(json.loads(ended.out)["affected"]) == affected
        assert ended.code == affected


@pytest.mark.parametrize("place", ["checkpoint", "checkpoint/featuregate"])
def test_the_newest_pin_of_a_checkpoint_has_the_latches_of_a_spark_query(on: Run, tmp_path: Path, place: str) -> None:
    """It has those of older pins, too."""
    folder = tmp_path / "checkpoint" / "featuregate"
    folder.mkdir(parents=True)
    state = json.loads(latches(tmp_path, "scripted").read_text())
    for batch, states in ((9, []), (10, [state]), (2, [])):
        (folder / f"pin-{batch}").write_text(json.dumps({"schema_version": 1, "latch_states": states}))
    ended = on(*DISABLE, "--latches", str(tmp_path / place))
    assert ended.code == 1
    assert "affects   eos" in ended.out
    (folder / "pin-11").write_text("{")
    ended = on(*DISABLE, "--latches", str(tmp_path / place))
    assert ended.code == 2
    assert f"unread    {folder / 'pin-11'}: damaged" in ended.out
    (folder / "pin-11").write_text(json.dumps({"schema_version": 9, "latch_states": []}))
    newer = f"unread    {folder / 'pin-11'}: written by a newer featuregate (schema version 9); upgrade this one"
    assert newer in on(*DISABLE, "--latches", str(tmp_path / place)).out


def test_a_folder_without_latches_makes_the_plan_unknown(on: Run, tmp_path: Path) -> None:
    """A folder of something else would look like an app that nothing affects."""
    ended = on(*DISABLE, "--latches", str(tmp_path))
    assert ended.code == 2
    assert f"unread    {tmp_path}: it has no latches of any cluster: name the folder" in ended.out


def test_a_path_without_latches_is_wrong_usage(on: Run, tmp_path: Path) -> None:
    """Otherwise a wrong path would look like an app without latches."""
    file = tmp_path / "latches.json"
    ended = on(*DISABLE, "--latches", str(file))
    assert (ended.code, ended.err) == (64, f"featuregate: argument --latches: {file}: No such file or directory\n")


@pytest.mark.parametrize("content", ["[]", "{", '{"schema_version": 1}', '{"schema_version": 99}'])
@pytest.mark.parametrize("as_folder", [True, False])
def test_invariant_11_a_latch_file_that_cannot_be_read_is_named_and_makes_the_plan_unknown(
    on: Run, tmp_path: Path, content: str, *, as_folder: bool
) -> None:
    """The plan does not move the file, because the app would lose its latches."""
    file = tmp_path / "scripted.json"
    file.write_text(content)
    ended = on(*DISABLE, "--latches", str(tmp_path if as_folder else file))
    assert ended.code == 2
    assert ended.out.startswith("unknown: 1 update of cluster scripted")
    assert f"  unread    {file}: " in ended.out
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("scripted.json", content)]


def test_a_latch_file_that_cannot_be_read_does_not_hide_the_others(on: Run, tmp_path: Path) -> None:
    """The plan names an affected app beside the file that it cannot read."""
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    places = ("--latches", str(damaged), "--latches", str(latches(tmp_path, "scripted")))
    ended = on(*DISABLE, *places, "--output", "json")
    plan = json.loads(ended.out)
    assert ended.code == 1
    assert [affected["gate"] for affected in plan["affected"]] == [f"eos ({tmp_path / 'scripted.json'})"]
    assert [unread["gate"] for unread in plan["unread"]] == [str(damaged)]


def test_a_latch_of_a_newer_release_is_named_with_its_file(on: Run, tmp_path: Path) -> None:
    """This release cannot parse its requirement; the other latches of the file count."""
    file = latches(tmp_path, "scripted")
    file.write_text(file.read_text().replace("group.version>=1", "group.version~1"))
    ended = on("plan", "upgrade", "--feature", "share.version=1", "--latches", str(file))
    assert ended.code == 2
    assert f"  unread    eos ({file}): " in ended.out
    assert "of 'group.version~1'" in ended.out


def test_latches_of_a_cluster_without_an_id_are_unknown(on: Run, tmp_path: Path) -> None:
    """With a bootstrap broker list the cluster id is not requested."""
    place = latches(tmp_path, "scripted").parent
    ended = on("plan", "upgrade", "--feature", "share.version=1", "--latches", str(place), "--broker-list", "bootstrap")
    assert ended.code == 2
    assert f"  unread    {place}: the cluster has no id" in ended.out
