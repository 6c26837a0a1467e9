"""The parts of ``featuregate group`` that need no broker."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from featuregate.cli import main
from featuregate.gating.decisions import Decision
from featuregate.requirements.presets import kip447
from featuregate.version import how_to_install
from featuregate_confluent.client.committed import CommittedOffset, observe
from featuregate_confluent.client.group import Coordinator, GroupDescription
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


def moving() -> Overview:
    """Return a group that has not moved since an earlier look: one partition of it, and one that has no offset."""
    ghost = Member("ghost-1", "app#fg=bridge", None, "/10.0.0.2")
    offsets = {("in", 0): 5, ("in", 1): None, ("in", 2): 9}
    first = observe({}, offsets, {("in", 0): 20, ("in", 1): 3, ("in", 2): 9}, 10.0)
    later = observe(first, {**offsets, ("in", 2): 12}, {("in", 0): 30, ("in", 1): 4, ("in", 2): 12}, 15.0)
    seen = overview("app#fg=bridge", offsets={("in", 0): (5, Mark(None)), ("in", 2): (12, Mark(None))})
    owned = replace(seen.seen, owners={("in", 0): ghost, ("in", 1): ghost})
    return replace(seen, seen=owned, progress=later, seen_at=15.0)


GROUPS = {
    "members below bridge": overview("app#fg=bridge", "handwritten", "old#fg=legacy"),
    "no members": overview(),
    "latched": overview("handwritten", offsets={("in", 0): (5, Mark(Model.V2)), ("in", 1): (None, Mark(None))}),
    "latched in the topic": overview("handwritten", latch_in_topic=Model.V2),
    "control characters": overview("evil\x1b[2J", offsets={("in", 0): (5, Mark(None, "own\x07"))}),
    "a partition that stands still": moving(),
    "one without an owner": replace(moving(), seen=overview("app#fg=bridge").seen),
    "the gate is open": replace(overview("app#fg=bridge"), gate=replace(Decision.unseen(kip447), verdict="open")),
}


def test_all_groups_are_shown_as_kept() -> None:
    """Latch, obstacles, members, offsets and what stands still, for people and for scripts; made printable."""
    told = []
    for name, group in GROUPS.items():
        told += [f"# {name}", to_text(group), json.dumps(to_json(group))]
    for latch_in_topic in (False, True):
        told += rollback_warnings("bridge", latch_in_topic=latch_in_topic)
    kept = Path(__file__).parent / "groups.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")
    assert all(line.isprintable() for line in "\n".join(told).splitlines())


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
        ((*ROLLBACK, "--latch-topic", ""), "'' is not a topic name"),  # a variable that was not set
    ],
)
def test_wrong_usage_is_64_and_sends_no_request(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 64
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_brokers_that_do_not_answer_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    """The warnings are printed, then one line that names the failure."""
    assert main([*ROLLBACK, "--timeout", "1", "--confirm", "orders"]) == 2
    assert "who is in group 'orders'" in capsys.readouterr().err.splitlines()[-1]


def test_a_rollback_does_not_guess_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    """At 9092 may be another cluster, as for each command that changes one."""
    assert main([*ROLLBACK[:-1], "localhost"]) == 1
    assert "nothing was changed: an address has no port" in capsys.readouterr().err
