"""How a member leaves its group, with fake consumers."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from featuregate_confluent.member.membership import close_static_member, leave_group


class Member:
    """A consumer that has some callbacks to run, and records the calls."""

    def __init__(self, *, says: int = 0, failing: str = "", error: Exception | None = None) -> None:
        self._error = error or KafkaException(KafkaError(KafkaError._FATAL, "fenced", fatal=True))
        self.calls: list[str] = []
        self._says = says
        self._failing = failing

    def _call(self, name: str) -> None:
        if self.calls[-1:] != [name]:
            self.calls.append(name)
        if name == self._failing:
            raise self._error

    def unsubscribe(self) -> None:
        self._call("unsubscribe")

    def pause(self, _partitions: list[Any]) -> None:
        self._call("pause")

    def assignment(self) -> list[Any]:
        return []

    def poll(self, _seconds: float) -> object | None:
        self._call("poll")
        self._says -= 1
        return object() if self._says >= 0 else None

    def close(self) -> None:
        self._call("close")


@pytest.mark.parametrize("says", [0, 5])
def test_a_member_runs_all_callbacks_before_it_closes(says: int) -> None:
    """``close()`` with two pending callbacks never returns, and blocks every thread of the process."""
    member = Member(says=says)
    leave_group(member)  # type: ignore[arg-type]
    assert member.calls == ["unsubscribe", "poll", "close"]
    assert member._says <= -3


@pytest.mark.parametrize("leave", [leave_group, close_static_member])
@pytest.mark.parametrize("failing", ["unsubscribe", "pause", "poll"])
def test_a_callback_of_the_app_that_raises_leaves_no_consumer_open(
    leave: Any, failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its partitions would wait until the process ends. The log has the error."""
    member = Member(failing=failing, error=ZeroDivisionError("in error_cb"))
    leave(member)
    assert member.calls[-1] == "close"
    assert ("in error_cb" in caplog.text) == (failing in member.calls)


def test_a_static_member_does_not_unsubscribe() -> None:
    """To unsubscribe would give up its place in the group."""
    member = Member(says=2)
    close_static_member(member)  # type: ignore[arg-type]
    assert member.calls == ["pause", "poll", "close"]


@pytest.mark.parametrize(("leave", "failing"), [(leave_group, "unsubscribe"), (close_static_member, "poll")])
def test_a_consumer_that_has_failed_is_closed_all_the_same(leave: Any, failing: str) -> None:
    """After a fatal error no callback runs any more."""
    member = Member(failing=failing)
    leave(member)
    assert member.calls[-1] == "close"


def test_a_member_that_is_never_quiet_is_closed_in_the_end() -> None:
    member = Member(says=10**9)
    leave_group(member, 0.05)  # type: ignore[arg-type]
    assert member.calls[-1] == "close"
