"""franz-go gets the same answers from a simulated cluster over sockets as from a real one.

The client shares no code with featuregate. It speaks through a small program, which is built where the machine has Go.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from featuregate.testing import LocalKafka
from featuregate.testing import simulator as sim
from featuregate.testing.plugin import MakeSimulatedCluster

Client = Callable[..., Any]

pytestmark = [pytest.mark.proof("simulator"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]

SOURCE = Path(__file__).parent / "peers" / "franz"
INSTALLED = "/usr/local/go/bin"
"""The folder of Go's installer, which need not be on the path."""
BOUND = 20.0
"""Seconds for the levels to arrive at a broker, which takes milliseconds; the program gives up as late."""
AT_ONCE = 50
REFUSED = "Invalid update version 1 for feature group.version. Local controller 3000 does not support this feature."
SCRIPT = [
    sim.upgrade({"group.version": 1}, dry_run=True),
    sim.upgrade({"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
    sim.upgrade({"metadata.version": 23}),
    sim.downgrade({"metadata.version": 23}, dry_run=True),
    sim.downgrade({"metadata.version": 23}),
    sim.downgrade({"metadata.version": 22}),
    sim.downgrade({"metadata.version": 22}, unsafe=True),
    sim.downgrade({"metadata.version": 25}),
    sim.upgrade({"metadata.version": 99}),
    sim.upgrade({"metadata.version": 25, "bogus": 1}),
    sim.UpdateFeatures({"metadata.version": 25}, upgrade_type=7),
    sim.upgrade({"group.version": 0}),
    sim.downgrade({"group.version": 0, "transaction.version": 1}),
    sim.upgrade({}),
]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the program. Go caches modules and objects, so that the next build takes a second."""
    go = shutil.which("go") or shutil.which("go", path=INSTALLED)
    if go is None:
        pytest.skip("needs Go, and there is no `go` on the path")
    # No other Go than this one, no C compiler, and as little work as will do.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["nice", go, *arguments]
        return subprocess.run(
            command, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=600, check=False
        )

    wanted, found = release_in((SOURCE / "go.mod").read_text()), release_in(run("version").stdout)
    if found < wanted:
        pytest.skip(f"needs Go {wanted[0]}.{wanted[1]} or newer, and this is {found[0]}.{found[1]}")
    fetched = run("mod", "download")
    if fetched.returncode:
        pytest.skip(f"needs franz-go, and it cannot be had: {fetched.stderr}")
    built = tmp_path_factory.mktemp("franz") / "franz"
    compiled = run("build", "-gcflags=all=-N -l", "-ldflags=-s -w", "-buildvcs=false", "-o", str(built), ".")
    assert compiled.returncode == 0, compiled.stderr
    return built


def release_in(text: str) -> tuple[int, int]:
    """Find ``go 1.26.0`` in a go.mod, or ``go1.26.8`` in what Go says of itself."""
    found = re.search(r"\bgo ?(\d+)\.(\d+)", text)
    assert found, text
    return int(found[1]), int(found[2])


@pytest.fixture
def franz(program: Path) -> Callable[[str], Any]:
    """Run the program with these brokers: one client for many commands."""

    @contextmanager
    def running(bootstrap: str) -> Iterator[Client]:
        with subprocess.Popen(
            [program, bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:

            def ask(do: str = "describe", **how: Any) -> Any:
                process.stdin.write(json.dumps({"do": do, **how}) + "\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())

            try:
                yield ask
                process.stdin.close()
                assert process.wait(BOUND) == 0
            finally:
                process.kill()

    return running


def wanted_by(event: sim.UpdateFeatures) -> dict[str, Any]:
    """Return the program's command for an operator's event."""
    return {
        "do": "update",
        "updates": [{"feature": name, "level": level} for name, level in event.levels.items()],
        "upgradeType": event.upgrade_type,
        "validateOnly": event.validate_only,
    }


def described(ask: Client, finalized: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Wait until all brokers answer with these levels, and return the answers."""
    expected = {name: [level, level] for name, level in finalized.items()}
    end = time.monotonic() + BOUND
    while True:
        brokers = ask()["brokers"]
        if all(broker["finalized"] == expected for broker in brokers.values()):
            return brokers
        assert time.monotonic() < end, f"{brokers} do not tell {expected}"


def what_does_not_move(brokers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        node_id: {name: value for name, value in broker.items() if name not in {"address", "epoch"}}
        for node_id, broker in brokers.items()
    }


def test_franz_go_sees_the_same_in_a_simulation_and_in_kafka(
    franz: Callable[[str], Any], simulated_kafka: MakeSimulatedCluster
) -> None:
    """Levels, ranges, the guessed release, error codes and messages are equal, update by update."""
    simulated = simulated_kafka(sim.KRaft("4.2", brokers=1, controllers=0, levels={"metadata.version": 21}))
    with (
        LocalKafka("4.2.0", nodes=1, release_version="3.9") as kafka,
        franz(kafka.bootstrap) as real,
        franz(simulated.bootstrap) as served,
    ):
        epochs = []
        for event in (None, *SCRIPT):
            if event is not None:
                said = served(**wanted_by(event))
                assert said == real(**wanted_by(event)), event
                assert (said["version"], said["results"]) == (2, [])
            told = described(served, simulated.current.levels)
            found = described(real, simulated.current.levels)
            assert what_does_not_move(told) == what_does_not_move(found), event
            epochs.append((told["1"]["epoch"], found["1"]["epoch"]))
        assert simulated.current.levels == {"metadata.version": 23, "transaction.version": 1}
        for side in zip(*epochs, strict=True):
            assert sorted(side) == list(side)
            assert side[0] < side[-1]
        assert found["1"]["release"] == "v4.2"
        together = wanted_by(sim.downgrade({"metadata.version": 22})) | {"times": AT_ONCE}
        assert served(**together) == real(**together)
        # What is asked of a process that is stopped is answered when it goes on.
        asked = len(simulated.requests)
        simulated.apply(sim.Pause(1))
        kafka.pause(1)
        with ThreadPoolExecutor(2) as pool:
            answers = pool.submit(served), pool.submit(real)
            assert simulated.wait_for(lambda requests: len(requests) > asked, BOUND)
            assert not any(answer.done() for answer in answers)
            simulated.apply(sim.Resume(1))
            kafka.resume(1)
            told, found = (what_does_not_move(answer.result(BOUND)["brokers"]) for answer in answers)
        assert told == found
        assert found["1"]["error"] == ""


def test_franz_go_updates_a_simulated_3_9_one_by_one(
    franz: Callable[[str], Any], simulated_kafka: MakeSimulatedCluster
) -> None:
    """Version 1 has a result for each feature."""
    cluster = simulated_kafka(sim.KRaft("3.9"))
    with franz(cluster.bootstrap) as ask:
        brokers = described(ask, {"metadata.version": 21})
        assert {broker["release"] for broker in brokers.values()} == {"v3.9"}
        said = ask(**wanted_by(sim.downgrade({"metadata.version": 19, "group.version": 1})))
        assert (said["version"], said["code"], said["message"]) == (1, 0, "")
        assert sorted((each["feature"], each["code"], each["message"]) for each in said["results"]) == [
            ("group.version", 95, REFUSED),
            ("metadata.version", 0, None),
        ]
        described(ask, {"metadata.version": 19})


def test_franz_go_updates_a_simulated_cluster_with_zookeeper(
    franz: Callable[[str], Any], simulated_kafka: MakeSimulatedCluster
) -> None:
    """Version 0 has a flag for downgrades; the client follows the controller to another broker."""
    cluster = simulated_kafka(sim.ZooKeeper("v1-v2"))
    with franz(cluster.bootstrap) as ask:
        brokers = ask()["brokers"]
        assert {
            node_id: (told["supported"], told["finalized"], told["epoch"]) for node_id, told in brokers.items()
        } == {node_id: ({"group_coordinator": [1, 2]}, {"group_coordinator": [1, 2]}, 0) for node_id in ("1", "2", "3")}
        refused = ask(**wanted_by(sim.upgrade({"group_coordinator": 1})))
        assert (refused["version"], refused["results"][0]["code"]) == (0, 42)
        cluster.apply(sim.Stop(1))
        done = ask(**wanted_by(sim.downgrade({"group_coordinator": 1})))
        assert done["results"] == [{"feature": "group_coordinator", "code": 0, "message": "NONE"}]
        told = described(ask, cluster.current.levels)
        assert sorted(told) == ["2", "3"]
        assert {broker["epoch"] for broker in told.values()} == {1}


def test_franz_go_goes_along_with_a_simulated_rolling_upgrade(
    franz: Callable[[str], Any], simulated_kafka: MakeSimulatedCluster
) -> None:
    """One client reconnects to rolled brokers, and notices brokers that are down."""
    cluster = simulated_kafka(sim.KRaft("4.2", levels={"metadata.version": 25}))
    with franz(cluster.bootstrap) as ask:
        before = described(ask, dict(cluster.current.levels))
        assert {broker["address"] for broker in before.values()} == set(cluster.bootstrap.split(","))
        for node in (3000, 3001, 3002, 1, 2, 3):
            cluster.apply(sim.Roll(node, "4.3"))
            rolled = described(ask, dict(cluster.current.levels))
            newest = {node_id: broker["supported"]["metadata.version"][1] for node_id, broker in rolled.items()}
            assert newest == {str(n): 30 if n <= node < 3000 else 29 for n in (1, 2, 3)}
        assert ask(**wanted_by(sim.upgrade({"metadata.version": 30})))["code"] == 0
        described(ask, dict(cluster.current.levels))
        cluster.apply(sim.Stop(2))
        assert sorted(described(ask, dict(cluster.current.levels))) == ["1", "3"]
        cluster.apply(sim.Start(2))
        assert sorted(described(ask, dict(cluster.current.levels))) == ["1", "2", "3"]


def test_franz_go_notices_that_a_simulated_4_4_was_rebuilt(
    franz: Callable[[str], Any], simulated_kafka: MakeSimulatedCluster
) -> None:
    """The client sends the expected cluster and node (KIP-1242), is refused, and reconnects."""
    cluster = simulated_kafka(sim.KRaft("4.4"))
    with franz(cluster.bootstrap) as ask:
        told = described(ask, dict(cluster.current.levels))
        assert {broker["version"] for broker in told.values()} == {5}
        cluster.apply(sim.Rebuild())
        described(ask, dict(cluster.current.levels))
        assert ask()["clusterId"] == cluster.current.cluster_id
