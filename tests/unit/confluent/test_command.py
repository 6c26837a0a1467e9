"""The parts of ``featuregate group`` that need no broker."""

import sys
from dataclasses import replace

import pytest

from featuregate.cli import main
from featuregate.gating.decisions import Decision
from featuregate.requirements.presets import kip447
from featuregate.version import how_to_install
from featuregate_confluent.client.committed import CommittedOffset
from featuregate_confluent.client.group import Coordinator, GroupDescription
from featuregate_confluent.client.progress import observe
from featuregate_confluent.command import rollback_warnings
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Member, Partition
from featuregate_confluent.models import Model
from featuregate_confluent.operator.overview import Overview, to_json, to_text

NO_BROKER = "127.0.0.1:1"
ROLLBACK = ("group", "rollback", "--group", "orders", "--to", "bridge", "--bootstrap-server", NO_BROKER)


def overview(
    *clients: str, offsets: dict[Partition, CommittedOffset] | None = None, latch_in_topic: Model | None = None
) -> Overview:
    """Return the overview of a group with these client ids, on a cluster whose gate is not open."""
    return Overview(
        group="orders",
        seen=GroupDescription(
            members=tuple(Member(f"id-{client}", client, None, "/10.0.0.1") for client in clients),
            coordinator=Coordinator(3, "kafka", 9092),
            state="stable",
            kind="classic",
        ),
        offsets=offsets or {},
        latch_topic=None if latch_in_topic is None else "latches",
        latch_in_topic=latch_in_topic,
        gate=Decision.unseen(kip447),
    )


def test_every_obstacle_is_named() -> None:
    """Obstacles are brokers that do not prove it, members without featuregate, and pinned members."""
    found = overview("app#fg=bridge", "handwritten", "old#fg=legacy")
    brokers, foreign, pinned = found.obstacles
    assert brokers.startswith("the brokers: unknown")
    assert foreign == "client 'handwritten' on '/10.0.0.1' shows no tag of featuregate"
    assert pinned.endswith("is pinned to legacy")


def test_a_latched_group_has_no_obstacle() -> None:
    """The members do not matter any more. The latch in the latch topic counts like one in an offset."""
    latched = {("in", 0): (5, Mark(Model.V2))}
    assert overview("handwritten", offsets=latched).obstacles == ()
    assert overview("handwritten", latch_in_topic=Model.V2).latch is Model.V2
    assert overview("handwritten", latch_in_topic=Model.V2).obstacles == ()


def test_an_empty_group_waits_for_members() -> None:
    """A group without members does not move up."""
    assert any("the group has no members" in obstacle for obstacle in overview().obstacles)


def test_what_brokers_say_is_made_printable() -> None:
    """A client id may hold control characters for a terminal."""
    text = to_text(overview("evil\x1b[2J", offsets={("in", 0): (5, Mark(None, "own\x07"))}))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "in[0]" in text


def test_json_has_plain_values() -> None:
    """Scripts read it; a missing value is null."""
    found = to_json(overview("app#fg=bridge", offsets={("in", 0): (None, Mark(None)), ("in", 1): (7, Mark(Model.V2))}))
    assert found["latch"] == "v2"
    assert found["latch_topic"] is None
    assert found["members"][0]["promises"] == "bridge"
    unwatched = {"owner": None, "end": None, "lag": None, "stalled_seconds": None}
    assert found["offsets"] == [
        {"topic": "in", "partition": 0, "offset": None, "mark": None, "text": None, **unwatched},
        {"topic": "in", "partition": 1, "offset": 7, "mark": "v2", "text": None, **unwatched},
    ]


def test_a_partition_that_stands_still_is_shown_with_its_owner() -> None:
    """A partition that nobody has committed in is shown as well, and one that is consumed to its end does not stand."""
    ghost = Member("ghost-1", "app#fg=bridge", None, "/10.0.0.2")
    offsets = {("in", 0): 5, ("in", 1): None, ("in", 2): 9}
    first = observe({}, offsets, {("in", 0): 20, ("in", 1): 3, ("in", 2): 9}, 10.0)
    later = observe(first, {**offsets, ("in", 2): 12}, {("in", 0): 30, ("in", 1): 4, ("in", 2): 12}, 15.0)
    seen = overview("app#fg=bridge", offsets={("in", 0): (5, Mark(None)), ("in", 2): (12, Mark(None))})
    found = replace(
        seen, seen=replace(seen.seen, owners={("in", 0): ghost, ("in", 1): ghost}), progress=later, seen_at=15.0
    )
    text = to_text(found)
    assert "in[0] has not moved for 5 s although there is more to consume; its owner is client 'app#fg=bridge'" in text
    assert "member ghost-1" in text
    assert [(each["lag"], each["owner"], each["stalled_seconds"]) for each in to_json(found)["offsets"]] == [
        (25, "ghost-1", 5.0),
        (None, "ghost-1", 5.0),
        (0, None, None),
    ]
    assert "in[0] has not moved for 5 s although there is more to consume; no member owns it" in to_text(
        replace(found, seen=seen.seen)
    )


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command exists without the client, and says what to install."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert main(["group", "show", "--group", "orders", "--bootstrap-server", NO_BROKER]) == 64
    assert capsys.readouterr().err == f"featuregate: group needs confluent-kafka: {how_to_install('confluent')}\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("group",), "required: ACTION"),
        (("group", "show", "--bootstrap-server", NO_BROKER), "required: --group"),
        (("group", "show", "--group", "orders"), "must specify"),
        (("group", "show", "--group", "orders", "--bootstrap-controller", NO_BROKER), "give --bootstrap-server"),
        (
            ("group", "rollback", "--group", "orders", "--to", "v2", "--bootstrap-server", NO_BROKER),
            "invalid choice: 'v2'",
        ),
        (("group", "show", "--group", "o", "--watch", "-1", "--bootstrap-server", NO_BROKER), "from 0 to 3600, not"),
        (("group", "show", "--group", "o", "--watch", "x", "--bootstrap-server", NO_BROKER), "from 0 to 3600, not 'x'"),
        ((*ROLLBACK, "--confirm", "bills"), "the group is 'orders': nothing was changed"),
    ],
)
def test_wrong_usage_is_64_and_sends_no_request(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line."""
    assert main(words) == 64
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_brokers_that_do_not_answer_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    """The warnings are printed, then one line that names the failure."""
    assert main([*ROLLBACK, "--timeout", "1", "--confirm", "orders"]) == 2
    assert "who is in group 'orders'" in capsys.readouterr().err.splitlines()[-1]


def test_the_warnings_say_what_to_do_first() -> None:
    """Stop, pin, wait, look for paused members; and name the latch topic, where none is named."""
    text = "\n".join(rollback_warnings("bridge", latch_in_topic=False))
    assert 'model="bridge"' in text
    assert all(word in text for word in ("Stop every member", "transaction.timeout.ms", "zombie", "--latch-topic"))
    assert "--latch-topic" not in "\n".join(rollback_warnings("bridge", latch_in_topic=True))
