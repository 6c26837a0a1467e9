"""franz-go gets the same answers from a fake cluster as from a real one.

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
from asked_updates import Asked, down, up

from featuregate.testing import LocalKafka
from featuregate.testing.plugin import MakeFakeCluster

Client = Callable[..., Any]

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]

SOURCE = Path(__file__).parent / "peers" / "franz"
INSTALLED = "/usr/local/go/bin"
"""The folder of Go's installer, which need not be on the path."""
BOUND = 20.0
"""Seconds for the levels to arrive at a broker, which takes milliseconds; the program gives up as late."""
AT_ONCE = 50
REFUSED = "Invalid update version 1 for feature group.version. Local controller 3000 does not support this feature."
SCRIPT = [
    up({"group.version": 1}, dry_run=True),
    up({"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
    up({"metadata.version": 23}),
    down({"metadata.version": 23}, dry_run=True),
    down({"metadata.version": 23}),
    down({"metadata.version": 22}),
    down({"metadata.version": 22}, unsafe=True),
    down({"metadata.version": 25}),
    up({"metadata.version": 99}),
    up({"metadata.version": 25, "bogus": 1}),
    Asked({"metadata.version": 25}, upgrade_type=7),
    up({"group.version": 0}),
    down({"group.version": 0, "transaction.version": 1}),
    up({}),
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


def wanted_by(event: Asked) -> dict[str, Any]:
    """Return the program's command for an update."""
    return {
        "do": "update",
        "updates": [{"feature": name, "level": level} for name, level in event.levels.items()],
        "upgradeType": event.upgrade_type,
        "validateOnly": event.dry_run,
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


def test_franz_go_sees_the_same_in_a_fake_cluster_and_in_kafka(
    franz: Callable[[str], Any], fake_cluster: MakeFakeCluster
) -> None:
    """Levels, ranges, the guessed release, error codes and messages are equal, update by update."""
    faked = fake_cluster(1, finalized={"metadata.version": 21})
    with (
        LocalKafka("4.2.0", nodes=1, release_version="3.9") as kafka,
        franz(kafka.bootstrap) as real,
        franz(faked.bootstrap) as served,
    ):
        epochs = []
        for event in (None, *SCRIPT):
            if event is not None:
                said = served(**wanted_by(event))
                assert said == real(**wanted_by(event)), event
                assert (said["version"], said["results"]) == (2, [])
            told = described(served, faked.finalized)
            found = described(real, faked.finalized)
            assert what_does_not_move(told) == what_does_not_move(found), event
            epochs.append((told["1"]["epoch"], found["1"]["epoch"]))
        assert faked.finalized == {"metadata.version": 23, "transaction.version": 1}
        for side in zip(*epochs, strict=True):
            assert sorted(side) == list(side)
            assert side[0] < side[-1]
        assert found["1"]["release"] == "v4.2"
        together = wanted_by(down({"metadata.version": 22})) | {"times": AT_ONCE}
        assert served(**together) == real(**together)
        # What is asked of a process that is stopped is answered when it goes on.
        asked = len(faked.requests)
        faked.broker(1).pause()
        kafka.pause(1)
        with ThreadPoolExecutor(2) as pool:
            answers = pool.submit(served), pool.submit(real)
            assert faked.wait_for(lambda requests: len(requests) > asked, BOUND)
            assert not any(answer.done() for answer in answers)
            faked.broker(1).resume()
            kafka.resume(1)
            told, found = (what_does_not_move(answer.result(BOUND)["brokers"]) for answer in answers)
        assert told == found
        assert found["1"]["error"] == ""


def test_franz_go_updates_a_fake_3_9_one_by_one(franz: Callable[[str], Any], fake_cluster: MakeFakeCluster) -> None:
    """Version 1 has a result for each feature."""
    cluster = fake_cluster(3, controllers=3, release="3.9")
    with franz(cluster.bootstrap) as ask:
        brokers = described(ask, {"metadata.version": 21})
        assert {broker["release"] for broker in brokers.values()} == {"v3.9"}
        said = ask(**wanted_by(down({"metadata.version": 19, "group.version": 1})))
        assert (said["version"], said["code"], said["message"]) == (1, 0, "")
        assert sorted((each["feature"], each["code"], each["message"]) for each in said["results"]) == [
            ("group.version", 95, REFUSED),
            ("metadata.version", 0, None),
        ]
        described(ask, {"metadata.version": 19})


def test_franz_go_goes_along_with_a_rolling_upgrade_of_a_fake_cluster(
    franz: Callable[[str], Any], fake_cluster: MakeFakeCluster
) -> None:
    """One client reconnects to rolled brokers, and notices brokers that are down."""
    cluster = fake_cluster(3, controllers=3, finalized={"metadata.version": 25})
    with franz(cluster.bootstrap) as ask:
        before = described(ask, dict(cluster.finalized))
        assert {broker["address"] for broker in before.values()} == set(cluster.bootstrap.split(","))
        for node in (3000, 3001, 3002, 1, 2, 3):
            cluster.roll(node, "4.3")
            rolled = described(ask, dict(cluster.finalized))
            newest = {node_id: broker["supported"]["metadata.version"][1] for node_id, broker in rolled.items()}
            assert newest == {str(n): 30 if n <= node < 3000 else 29 for n in (1, 2, 3)}
        assert ask(**wanted_by(up({"metadata.version": 30})))["code"] == 0
        described(ask, dict(cluster.finalized))
        cluster.stop(2)
        assert sorted(described(ask, dict(cluster.finalized))) == ["1", "3"]
        cluster.broker(2).start()
        assert sorted(described(ask, dict(cluster.finalized))) == ["1", "2", "3"]


def test_franz_go_notices_that_a_fake_4_4_was_rebuilt(
    franz: Callable[[str], Any], fake_cluster: MakeFakeCluster
) -> None:
    """The client sends the expected cluster and node (KIP-1242), is refused, and reconnects."""
    cluster = fake_cluster(3, controllers=3, release="4.4")
    with franz(cluster.bootstrap) as ask:
        told = described(ask, dict(cluster.finalized))
        assert {broker["version"] for broker in told.values()} == {5}
        cluster.rebuild()
        described(ask, dict(cluster.finalized))
        assert ask()["clusterId"] == cluster.cluster_id
