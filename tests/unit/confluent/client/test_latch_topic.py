"""The records of the latch topic. Live tests prove how they are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.errors import LatchTopicUnreadable, UnknownMark
from featuregate_confluent.models import Model

NAMES = st.text(min_size=1, max_size=20) | st.text(alphabet="a|%2", min_size=1, max_size=6)


def test_the_app_may_change_its_properties_for_another_cluster() -> None:
    """The topic stays that of the cluster it was made for."""
    own = {"bootstrap.servers": "127.0.0.1:1", "group.id": "orders"}
    kept = LatchTopic("latches", own, group="orders", gate="kip447"), GroupReader(own, "orders")
    own["bootstrap.servers"] = "127.0.0.1:2"
    assert [each._config["bootstrap.servers"] for each in kept] == ["127.0.0.1:1"] * 2
    kept[1].close()


def latch_topic(group: str, gate: str = "kip447") -> LatchTopic:
    return LatchTopic("latches", {}, group=group, gate=gate)


def test_a_record_is_named_by_group_gate_and_model() -> None:
    """People can read it, and the value is that of an offset's metadata."""
    assert latch_topic("orders").record(Model.V2) == ("latches", b"fg1;model=v2", b"fg1|orders||model|kip447|v2")


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_group_has_the_records_of_another(group: str, gate: str, other_group: str, other_gate: str) -> None:
    """A separator within a name does not split the key."""
    one, other = latch_topic(group, gate)._prefix, latch_topic(other_group, other_gate)._prefix
    assert one.startswith(other) == ((group, gate) == (other_group, other_gate))


def test_a_model_that_we_do_not_know_is_refused() -> None:
    """Newer software has latched the group at a model that this release does not know."""
    with pytest.raises(UnknownMark, match=r"orders\|\|model\|kip447\|v3"):
        latch_topic("orders")._model(b"fg1|orders||model|kip447|v3", b"fg1;model=v2")


def test_a_newer_format_of_the_value_is_refused() -> None:
    with pytest.raises(UnknownMark):
        latch_topic("orders")._model(b"fg1|orders||model|kip447|v2", b"fg2;model=v2")


@pytest.mark.parametrize("value", [b"", b"\xff\x00", b"text of somebody"])
def test_a_value_that_is_not_ours_still_latches(value: bytes) -> None:
    """The record was not erased: only a tombstone removes a latch."""
    assert latch_topic("orders")._model(b"fg1|orders||model|kip447|v2", value) is Model.V2


def test_brokers_that_are_away_are_no_fault_of_the_topic() -> None:
    """The member joins again rather than stop, and the error names no missing right."""
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "orders"}
    with pytest.raises(LatchTopicUnreadable, match="Try again") as raised:
        LatchTopic("latches", nowhere, group="orders", gate="kip447").read(1.0)
    assert "right" not in str(raised.value)
