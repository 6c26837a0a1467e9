"""The stable name of a process among its siblings."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.errors import ConfigError
from featuregate_confluent.member.process_name import LONGEST, _numbered, claim_process_name
from featuregate_confluent.producing.producers import partition_transactional_id, process_transactional_id

HOLDER = """
import sys
from featuregate_confluent.member.process_name import claim_process_name
process = claim_process_name("orders", state_dir=sys.argv[1])
print(process.name, flush=True)
sys.stdin.read()
"""


def start_holder(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a process that claims a name and keeps it; returns the process and the name."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def number(name: str) -> int:
    return int(name.rpartition("-")[2])


def test_an_instance_id_is_the_name() -> None:
    """The operator promises that no other process has it, and it takes precedence over a folder."""
    process = claim_process_name("orders", instance_id="worker-3", state_dir="/nowhere")
    assert (process.name, process.stable) == ("worker-3", True)


def test_an_empty_instance_id_is_refused() -> None:
    """All processes with an empty environment variable would fence one another."""
    with pytest.raises(ConfigError, match="instance_id: must not be empty"):
        claim_process_name("orders", instance_id="")


def test_without_id_and_folder_the_name_is_random_and_says_what_that_costs() -> None:
    """Two processes never share it, and the log says what a restart has to wait for."""
    first, second = claim_process_name("orders"), claim_process_name("orders")
    assert first.name != second.name
    assert not first.stable
    assert "transaction.timeout.ms" in first.why


def test_siblings_get_the_lowest_numbers_that_are_free(tmp_path: Path) -> None:
    """The next process takes a number that was released."""
    first, second, third = (claim_process_name("orders", state_dir=tmp_path) for _ in range(3))
    assert [number(process.name) for process in (first, second, third)] == [0, 1, 2]
    second.release()
    assert claim_process_name("orders", state_dir=tmp_path).name == second.name
    assert all(process.stable for process in (first, second, third))


def test_apps_number_their_processes_apart(tmp_path: Path) -> None:
    """The processes of another app do not change the names of this one."""
    orders, bills = claim_process_name("orders", state_dir=tmp_path), claim_process_name("bills", state_dir=tmp_path)
    assert number(orders.name) == number(bills.name) == 0


def test_a_crash_frees_the_name_for_the_restart(tmp_path: Path) -> None:
    """After SIGKILL the restarted process gets its old name, although a sibling still runs."""
    crashing, its_name = start_holder(tmp_path)
    staying, other_name = start_holder(tmp_path)
    try:
        assert (number(its_name), number(other_name)) == (0, 1)
        crashing.kill()
        crashing.communicate()
        process = claim_process_name("orders", state_dir=tmp_path)
        assert process.name == its_name
        process.release()
    finally:
        for holder in (crashing, staying):
            holder.kill()
            holder.communicate()


def test_a_name_is_given_back_by_any_thread_and_twice(tmp_path: Path) -> None:
    """An app may be started by one thread and stopped by another; a lock of one thread would stay held."""
    process = claim_process_name("orders", state_dir=tmp_path)
    stopper = threading.Thread(target=process.release)
    stopper.start()
    stopper.join()
    process.release()
    assert claim_process_name("orders", state_dir=tmp_path).name == process.name


def test_a_folder_that_cannot_hold_locks_is_named(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "state").touch()
    with pytest.raises(ConfigError, match=r"state_dir: .*state cannot hold locks"):
        claim_process_name("orders", state_dir=tmp_path / "state")


def test_names_are_bounded_in_number(tmp_path: Path) -> None:
    """The search ends in a folder in which every lock seems taken."""
    held = [_numbered("orders", tmp_path, most=2) for _ in range(2)]
    with pytest.raises(ConfigError, match="all 2 numbers of 'orders'"):
        _numbered("orders", tmp_path, most=2)
    assert [process.stable for process in held] == [True, True]


@pytest.mark.parametrize("app_id", ["../../etc/passwd", "a/b", "..", "", "x" * 5000, "null\0byte", "\ud800"])
def test_no_app_id_leaves_the_folder(tmp_path: Path, app_id: str) -> None:
    """The lock file lies in the folder, whatever the app id is."""
    folder = tmp_path / "state"
    process = claim_process_name(app_id, state_dir=folder)
    assert [path.suffix for path in folder.iterdir()] == [".lock"]
    assert list(tmp_path.iterdir()) == [folder]
    process.release()


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
@example("worker-" * 40 + "1", "worker-" * 40 + "2")  # the part that is cut off still counts
def test_names_of_instances_are_safe_bounded_and_never_merged(one: str, other: str) -> None:
    """Two instances with one name would fence each other for ever."""
    names = [claim_process_name("orders", instance_id=text).name for text in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_.~%-]+", name)
        assert len(name) <= LONGEST


APPS = st.text("X:/-e", min_size=1, max_size=6)
TOPICS = st.text("X-e._", min_size=1, max_size=6)


@given(APPS, TOPICS, st.integers(0, 20), APPS, TOPICS, st.integers(0, 20))
@example("X", "eu-t", 0, "X-eu", "t", 0)
def test_no_two_apps_have_an_id_in_common(app: str, topic: str, number: int, other: str, t: str, n: int) -> None:
    """One app id may begin the other, and topics may have hyphens."""
    same = (app, topic, number) == (other, t, n)
    assert (partition_transactional_id(app, (topic, number)) == partition_transactional_id(other, (t, n))) is same
    assert (process_transactional_id(app, topic) == process_transactional_id(other, t)) is ((app, topic) == (other, t))


@given(APPS, TOPICS, APPS, TOPICS)
def test_no_process_has_the_id_of_a_partition(app: str, process: str, other: str, topic: str) -> None:
    """A process may be called like a topic, and an app like the ids of another."""
    assert process_transactional_id(app, f"{process}-0") != partition_transactional_id(other, (topic, 0))


def test_all_ids_of_an_app_begin_with_its_app_id() -> None:
    """One ACL for the prefix covers them."""
    assert process_transactional_id("app", "0") == "app/0"
    assert partition_transactional_id("app", ("orders", 3)) == "app:orders-3"
