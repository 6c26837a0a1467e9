"""What a decision says, as an operator reads it: compared whole with ``decisions.txt``."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from builders import broker, deaf, view
from transcripts import sections

from featuregate import catalog
from featuregate.gating.conditions import Reason
from featuregate.gating.decisions import HOLD, Decision, Staleness, against, evaluate, reason_lines
from featuregate.requirements import Api, Feature, Release, Requirement
from featuregate.testing import release_view
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.cluster_view import View

TXN = Api("TxnOffsetCommit") >= 3
GROUP = Feature("group.version") >= 1
KRAFT = Feature("kraft.version") >= 1


def of(*answers: BrokerAnswer, requirement: Requirement | str = TXN, exclude_apis: str = "") -> Decision:
    return evaluate(view(*answers), requirement, exclude_apis=exclude_apis)


def able(node_id: int, low: int, high: int, **levels: int) -> BrokerAnswer:
    return replace(broker(node_id, **levels), supported={"group.version": SupportedRange(low, high)})


def serving(node_id: int, low: int, high: int) -> BrokerAnswer:
    return replace(broker(node_id), api_ranges={1: ApiRange(low, high)})


def without(*keys: int) -> View:
    """Return a view of a broker that has what 4.1 has, but for the newest version of these APIs."""
    ranges = {key: ApiRange(0, most - (key in keys)) for key, most in catalog.needed_for("4.1").apis.items()}
    return view(replace(broker(), api_ranges=ranges))


def each(numbers: Iterable[int], *more: BrokerAnswer, requirement: str) -> Decision:
    """Decide over brokers of which each serves another version of TxnOffsetCommit, and all the same of two others."""
    same = {0: ApiRange(0, 3), 1: ApiRange(0, 3)}
    answers = (replace(broker(at), api_ranges={28: ApiRange(0, at), **same}) for at in numbers)
    return of(*answers, *more, requirement=requirement)


WAS_2 = view(broker(group_version=2, metadata_version=21, kraft_version=1))
SAYS_3_9 = {"metadata.version": SupportedRange(1, 21)}
SAID = sections(__file__, "decisions.txt")


def scenes() -> dict[str, Decision]:
    return {
        "who lacks it comes first": of(broker(1), broker(2, txn=2), deaf(3)),
        "no API": of(broker(txn=None)),
        "no broker": of(),
        "no view": Decision.unseen(TXN, policy="live"),
        "held": replace(of(broker(), requirement=GROUP), held="held open: finalized level fell to 0", policy="sticky"),
        "no id and no epoch": evaluate(view(broker(epoch=-1), cluster_id=None), TXN),
        "each speaks another version with the client": of(
            serving(1, 0, 2), serving(2, 3, 5), requirement=Api("Fetch").between(1, 4)
        ),
        "the one that all speak is excluded": of(
            serving(1, 0, 3), serving(2, 3, 5), requirement=Api("Fetch").between(1, 4), exclude_apis="Fetch=3"
        ),
        "one of a hundred lacks it": of(*(broker(at, txn=2 if at == 7 else 3) for at in range(1, 101))),
        "a hundred causes": each(range(100), requirement="TxnOffsetCommit>=100"),
        "each condition has its share of a page": each(
            range(100), requirement="TxnOffsetCommit>=100 & Produce>=5 & Fetch>=2"
        ),
        "three are silent": of(*map(deaf, range(1, 4))),
        "a rack is silent": of(*(deaf(at) if at <= 30 else broker(at) for at in range(1, 101))),
        "a bootstrap list has no ids": of(*(replace(broker(at), node_id=None) for at in (1, 2))),
        "named twice, the cluster has one line": of(broker(), requirement=(GROUP & TXN) | GROUP),
        "one line has the first reason": of(
            broker(1, txn=2, group_version=1), broker(2, txn=1, group_version=1), deaf(3), requirement=GROUP & TXN
        ),
        # features
        "the first epoch is one": of(able(1, 0, 1, epoch=0), requirement=GROUP),
        "brokers without an epoch": of(
            broker(2, epoch=-1, metadata_version=7),
            broker(1, epoch=-1),
            replace(broker(3, epoch=-1), asked_version=2),
            requirement=GROUP,
        ),
        "one lags behind": of(
            broker(3, epoch=500, group_version=1),
            broker(1, epoch=5613, group_version=2),
            requirement="group.version>=2",
        ),
        "who lags and says the same is not stale": of(
            broker(1, metadata_version=21),
            broker(2, epoch=9, metadata_version=21),
            broker(3, epoch=9),
            requirement="metadata.version>=21",
        ),
        "a level is kept from an earlier view": evaluate(view(broker(epoch=9), previous=WAS_2), GROUP),
        "a silent broker decides nothing": of(broker(group_version=1), deaf(2), requirement=GROUP),
        "who hides what it can run comes first": of(
            able(1, 0, 1), replace(broker(2), asked_version=3), requirement=GROUP
        ),
        "who cannot run it comes first": of(
            able(1, 1, 2), able(2, 2, 2), able(3, 3, 3), able(4, 0, 0), requirement="group.version>=2"
        ),
        "a misspelt feature": of(broker(), requirement="feature:grop.version>=1"),
        "it may mean two": of(broker(), requirement="feature:shreams.version>=1"),
        "it is like none": of(broker(), requirement="feature:xyzzy>=1"),
        "a feature that is newer than the catalog": of(
            replace(broker(), supported={"brand.new.version": SupportedRange(0, 1)}),
            requirement="feature:brand.new.version>=1",
        ),
        "a level of kraft.version before 4.1": of(broker(metadata_version=25, kraft_version=1), requirement=KRAFT),
        "a level of kraft.version since 4.1": of(broker(metadata_version=26, kraft_version=1), requirement=KRAFT),
        "a level of kraft.version is kept": evaluate(view(broker(epoch=9), previous=WAS_2), KRAFT),
        # releases
        "nothing of a release": of(broker(), requirement=Release("4.0")),
        "one API is too old": evaluate(without(1), Release("4.1")),
        "three APIs are too old": evaluate(without(1, 2, 3), Release("4.1")),
        "four APIs are too old": evaluate(without(1, 2, 3, 8), Release("4.1")),
        "the last broker is old": evaluate(release_view("3.9", "4.2"), Release("4.2")),
        "all are new": evaluate(release_view("4.2", "4.2"), Release("4.2")),
        "the last broker is silent": evaluate(release_view("4.2", "4.2", silent=[2]), Release("4.2")),
        "metadata.version tells what APIs do not": of(
            replace(release_view("4.2").brokers[0], supported=SAYS_3_9), requirement=Release("4.2")
        ),
        "controllers have another listener": evaluate(View(cluster_id="c", role="controller"), Release("3.9")),
    }


def test_what_decisions_say_is_as_kept() -> None:
    assert {scene: f"{decision.summary}\n{decision}" for scene, decision in scenes().items()} == SAID


@pytest.mark.parametrize(
    ("requirement", "staleness", "condition", "text"),
    [
        (TXN, Staleness(view="old"), "the view is fresh", "old"),
        (Feature("group.version") >= 2, Staleness(levels="old"), None, "and old"),
        ("kip890 & Fetch>=1", Staleness(levels="old"), None, "and old"),
    ],
)
def test_what_is_too_old_makes_a_verdict_unknown(
    requirement: object, staleness: Staleness, condition: str | None, text: str
) -> None:
    """Also in a requirement that has a name, or parts. The first reason says what is old."""
    seen = view(
        replace(broker(group_version=2, transaction_version=2), api_ranges={key: ApiRange(0, 99) for key in range(90)})
    )
    assert evaluate(seen, requirement).open
    decision = evaluate(seen, requirement, staleness)
    assert decision.verdict == "unknown"
    assert decision.reasons[0].text.endswith(text)
    assert condition in (None, decision.reasons[0].condition)


def test_what_stands_against_a_held_decision_takes_the_hold_back() -> None:
    """It is no part of the requirement, and comes first."""
    held = replace(evaluate(view(broker()), TXN), held="held open", policy="sticky")
    closed = against(held, HOLD, "held by the test")
    assert (closed.verdict, closed.held, closed.policy, closed.open) == ("closed", None, "sticky", False)
    assert closed.reasons == (Reason("hold", None, None, "closed", "held by the test"), *held.reasons)
    assert closed.waits == closed.reasons[0]
    assert against(closed, "x", "y", "unknown").waits is None
    assert not against(held, "x", "y", "unknown").open
    assert replace(closed, held="held open").waits is None
    assert Decision.unseen(TXN).waits is None


def test_facts_of_the_cluster_and_of_brokers_share_lines_apart() -> None:
    """Conditions take turns, the first facts of each before the second ones, and keep their order."""
    said = "broker 1 (b1:9092) is what the cluster says"
    reasons = [
        *(Reason("a", at, f"b{at}:9092", "closed", f"broker {at} (b{at}:9092) has {at}") for at in (1, 2)),
        *(Reason("b", at, f"b{at}:9092", "closed", f"broker {at} (b{at}:9092) has {at}") for at in (1, 2)),
        *[Reason("c", None, None, "closed", said)] * 2,
    ]
    lines = reason_lines(reasons, 4)
    assert lines == [
        "closed   a: broker 1 (b1:9092) has 1",
        "closed   a: broker 2 (b2:9092) has 2",
        "closed   b: broker 1 (b1:9092) has 1",
        f"closed   c: {said}",
        "and 1 more reasons",
    ]
    assert reason_lines(reasons, 5)[-1] == f"closed   c: {said}"


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("has x=1", "2 brokers (1-2) have x=1"),
        ("lacks y", "2 brokers (1-2) lack y"),
        ("still says 1", "2 brokers (1-2) still say 1"),
        ("was asked", "2 brokers (1-2) were asked"),
        ("reports has", "2 brokers (1-2) report has"),
        ("hasty words", "2 brokers (1-2) hasty words"),
    ],
)
def test_brokers_that_share_a_line_are_many(fact: str, said: str) -> None:
    reasons = [Reason("c", at, f"b{at}:9092", "open", f"broker {at} (b{at}:9092) {fact}") for at in (1, 2)]
    assert reason_lines(reasons, 9) == [f"open     c: {said}"]
