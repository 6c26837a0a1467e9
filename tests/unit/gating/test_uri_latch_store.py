"""The latch store in an object store, with a server that has the API of S3."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from object_store import BUCKET, object_store, use_s3

from featuregate.errors import ConfigError, LatchStoreError
from featuregate.gating.latches import LatchedGate, LatchState
from featuregate.gating.uri_latch_store import UriLatchStore
from featuregate.testing import check_latch_store

TXN = "TxnOffsetCommit>=3"
BOUND = 60.0
KILLS = 10
s3fs = pytest.importorskip("s3fs")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as endpoint:
        yield endpoint


@pytest.fixture
def uri(endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a place that is this test's own."""
    use_s3(endpoint, monkeypatch)
    return f"s3://{BUCKET}/{request.node.name}"


def latched(*gates: str, cluster_id: str = "c") -> LatchState:
    opened = [LatchedGate(gate=gate, requirement=TXN, opened_at=1.0, epoch=1) for gate in gates]
    return LatchState(cluster_id=cluster_id, gates={each.key: each for each in opened})


def names(state: LatchState | None) -> set[str]:
    return {key.gate for key in state.gates} if state else set()


@pytest.mark.slow
def test_an_object_store_keeps_the_law(uri: str) -> None:
    """As a folder does."""
    check_latch_store(lambda: UriLatchStore(uri, timeout=BOUND))


@pytest.mark.slow
def test_writers_at_once_lose_nothing(uri: str) -> None:
    """Of two that write the same number one reads the other's state, and joins it."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: UriLatchStore(uri, timeout=BOUND).save(latched(f"{number}")), range(8)))
    there = UriLatchStore(uri, timeout=BOUND)
    assert names(there.load("c")) == {str(number) for number in range(8)}
    backend, path = there._backend()
    assert len(backend.ls(f"{path}/cluster-c")) <= 8


def test_a_slow_writer_that_takes_a_number_of_old_loses_nothing(uri: str) -> None:
    """Others have used and removed the number meanwhile, so that the condition holds for the slow writer."""
    slow, fast = UriLatchStore(uri, timeout=BOUND), UriLatchStore(uri, timeout=BOUND)
    fast.save(latched("first"))
    newest = slow._newest
    looks = 0

    def look(cluster_id: str) -> tuple[int, LatchState | None]:
        nonlocal looks
        looks += 1
        seen = newest(cluster_id)
        if looks == 1:
            for number in range(10):
                fast.save(latched(f"fast-{number}"))
        return seen

    slow._newest = look  # type: ignore[method-assign]
    slow.save(latched("slow"))
    assert "slow" in names(fast.load("c"))
    assert looks == 3


WRITER = """
import sys
from featuregate.gating.latches import LatchedGate, LatchState
from featuregate.gating.uri_latch_store import UriLatchStore
there, side = UriLatchStore(sys.argv[1], timeout=60), sys.argv[2]
for each in range(1000):
    gate = LatchedGate(gate=f"{side}-{each}", requirement="TxnOffsetCommit>=3", opened_at=1.0, epoch=1)
    there.save(LatchState(cluster_id="c", gates={gate.key: gate}))
    print(gate.gate, flush=True)
"""


@pytest.mark.proof("switch")
def test_invariant_2_a_killed_writer_loses_nothing_that_it_was_told_is_durable(uri: str) -> None:
    """Two writers at once are killed again and again."""
    acknowledged: set[str] = set()
    for number in range(KILLS):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, uri, f"{number}{side}"], stdout=subprocess.PIPE, text=True)
            for side in "ab"
        ]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged |= {writer.stdout.readline().strip() for _ in range(3)}
            writer.kill()
            acknowledged |= set(writer.stdout.read().split("\n")[:-1])
            writer.wait(BOUND)
            writer.stdout.close()
    assert "" not in acknowledged
    assert acknowledged <= names(UriLatchStore(uri, timeout=BOUND).load("c"))
    assert len(acknowledged) >= KILLS * 2


def test_a_number_that_another_writer_has_taken_is_not_overwritten(uri: str) -> None:
    """A writer that looked before the other one wrote looks again."""
    there, stale = UriLatchStore(uri, timeout=BOUND), [(0, None)]
    there.save(latched("a"))
    newest = there._newest
    there._newest = lambda cluster_id: stale.pop() if stale else newest(cluster_id)  # type: ignore[method-assign]
    assert names(there.save(latched("b"))) == {"a", "b"}
    assert names(UriLatchStore(uri, timeout=BOUND).load("c")) == {"a", "b"}


def test_a_store_that_ignores_the_condition_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writers would lose the latches of others."""
    pipe = s3fs.S3FileSystem.pipe_file

    def ignores(self: Any, path: str, value: bytes, mode: str = "overwrite") -> None:
        pipe(self, path, value)

    monkeypatch.setattr(s3fs.S3FileSystem, "pipe_file", ignores)
    with pytest.raises(LatchStoreError) as raised:
        UriLatchStore(uri, timeout=BOUND).save(latched("a"))
    assert str(raised.value) == (
        f"{uri}: this store, or its backend, replaces an object that was to be made only where there is none, so that "
        "writers would lose the latches of others: take another store, or a newer backend"
    )
    assert UriLatchStore(uri, timeout=BOUND).load("c") is None


def test_the_cluster_of_a_source_is_kept(uri: str) -> None:
    """For a start from the latch."""
    there = UriLatchStore(uri, timeout=BOUND)
    assert there.last_cluster("b1:9092") is None
    there.note_cluster("b1:9092", "c")
    there.note_cluster("b1:9092", "d")
    assert there.last_cluster("b1:9092") == "d"


def test_a_damaged_object_is_an_error_and_the_one_before_counts_without_it(uri: str) -> None:
    """It might hold a latch."""
    there = UriLatchStore(uri, timeout=BOUND)
    there.save(latched("a"))
    backend, path = there._backend()
    backend.pipe_file(f"{path}/cluster-c/000000000002.json", b"{")
    with pytest.raises(
        LatchStoreError,
        match=rf"^{uri}: its newest object is damaged \(latches: .*\): remove it, and the one before counts$",
    ):
        there.load("c")
    backend.pipe_file(f"{path}/cluster-c/000000000002.json", json.dumps({"schema_version": 99}).encode())
    with pytest.raises(LatchStoreError, match="upgrade featuregate"):
        there.load("c")
    backend.rm_file(f"{path}/cluster-c/000000000002.json")
    assert names(there.load("c")) == {"a"}


def test_a_store_that_does_not_answer_costs_a_bounded_time(uri: str) -> None:
    """And the call after it does not wait for the first."""
    there, release = UriLatchStore(uri, timeout=0.05), threading.Event()
    there._newest = lambda _: (release.wait(BOUND), None)  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(LatchStoreError, match=rf"^{uri}: has not answered within 0\.05 s$"):
        there.load("c")
    with pytest.raises(LatchStoreError, match=rf"^{uri}: has not answered an earlier request for more than 0\.05 s$"):
        there.load("c")
    release.set()


def test_a_bucket_that_is_not_there_is_an_error(uri: str) -> None:
    """In one line, with the place."""
    with pytest.raises(LatchStoreError, match="no-such-bucket"):
        UriLatchStore("s3://no-such-bucket/x", timeout=BOUND).save(latched("a"))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_goes_on(uri: str) -> None:
    """It has connections of its own."""
    there = UriLatchStore(uri, timeout=20.0)
    there.save(latched("a"))
    child = os.fork()
    if not child:
        right = False
        try:
            right = names(there.save(latched("b"))) == {"a", "b"}
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert names(there.load("c")) == {"a", "b"}


NO_STORE = "uri: must be one of an object store, such as s3://bucket/latches; a folder needs no URI"
PASSWORD = "uri: has a password in it: leave it out, and let the backend find its credentials"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, NO_STORE) for text in ("latches", "/var/lib", "file:///var/lib", "FILE:///x", "memory://x", "s3://")),
        ("s3://key:secret@b/x", PASSWORD),
    ],
)
def test_what_is_no_object_store_is_refused(text: str, problem: str) -> None:
    """The text may hold a key, and is not in the error."""
    with pytest.raises(ConfigError) as caught:
        UriLatchStore(text)
    assert str(caught.value) == problem


def test_the_latches_of_a_cluster_without_an_id_have_no_place(uri: str) -> None:
    """Nor do those of another cluster count, which somebody has copied."""
    there = UriLatchStore(uri, timeout=BOUND)
    with pytest.raises(LatchStoreError, match=rf"^{uri}: a cluster without an id has no place on a latch store$"):
        there.save(LatchState())
    there.save(latched("a"))
    backend, path = there._backend()
    backend.copy(f"{path}/cluster-c/000000000001.json", f"{path}/cluster-d/000000000001.json")
    with pytest.raises(LatchStoreError, match=rf"^{uri}: has the latches of cluster c for cluster d$"):
        there.load("d")


def test_a_backend_that_is_not_installed_is_named() -> None:
    """fsspec says which one."""
    with pytest.raises(
        ConfigError, match=r"^uri: needs the fsspec backend of its scheme, such as s3fs: Protocol not known: nosuch$"
    ):
        UriLatchStore("nosuch://bucket/latches")


def test_the_repr_has_no_options(uri: str) -> None:
    """These may hold a secret."""
    assert repr(UriLatchStore(uri, options={"key": "secret"})) == f"UriLatchStore({uri!r})"
