"""What a client may ask about in one check, and that no other request waits for the decision."""

import asyncio
import threading
from typing import Any

import pytest
import requests
from relay_on_socket import serving

from featuregate import Decision
from featuregate.gating.conditions import Reason
from featuregate.requirements import parse
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import (
    LONGEST_REQUIREMENT,
    MOST_CONDITIONS,
    MOST_REASONS,
    OF_PRESETS,
    asked_requirement,
    decision_json,
)
from featuregate_relay.clusters import ClusterThread
from featuregate_relay.refusals import RequestRefused

BOUND = 30.0


def apis(number: int, between: str = "|") -> str:
    return between.join(f"api:{key}>=0" for key in range(number))


PADDED = "kip848" + " " * (LONGEST_REQUIREMENT - 6)


@pytest.mark.parametrize(
    ("most", "more", "problem"),
    [
        *(
            (apis(MOST_CONDITIONS, between), f"{between}Fetch>=1", f"has {MOST_CONDITIONS + 1} conditions, and 64 are")
            for between in "|&"
        ),
        (PADDED, " ", f"has {LONGEST_REQUIREMENT + 1} characters, and {LONGEST_REQUIREMENT} are allowed"),
        ("kip848", "".join(f"&(kip447|api:{key}>=0)" for key in range(50)), "conditions, and 64 are allowed"),
    ],
    ids=["any of them", "all of them", "its text", "conditions of presets"],
)
def test_a_check_is_limited(most: str, more: str, problem: str) -> None:
    """A preset in many parentheses is judged many times."""
    assert asked_requirement(most) == parse(most)
    with pytest.raises(RequestRefused, match=problem):
        asked_requirement(most + more)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("|".join(["kip848"] * 142), "kip848"),
        ("&".join(["Fetch>=0"] * 110), "Fetch>=0"),
        ("Fetch>=0 | fetch>=0 | api:1>=0", "Fetch>=0"),
        ("(Fetch>=1 & Fetch>=1) | Produce>=1 | (Fetch>=1)", "Fetch>=1 | Produce>=1"),
        ("(kip848 | kip447) & (kip848 | kip447 | kip848)", "kip848 | kip447"),
    ],
)
def test_duplicates_are_dropped(text: str, same: str) -> None:
    assert asked_requirement(text) == parse(same)


def test_a_check_may_name_only_configs_that_the_relay_reads_for_itself() -> None:
    """A client would read any config, and a hundred made-up names would shut out those of the next client."""
    features = StaticFeatures(release_view("4.2"))
    gates = (features.gate("mine", "config:my.config has a"),)
    for text in ("config:log.dirs has /a", "kip848 & (Fetch>=1 | config:made.up.1 has a)"):
        with pytest.raises(RequestRefused, match="is of no preset and of no gate of this relay"):
            asked_requirement(text, gates)
    for name in (*OF_PRESETS, "my.config"):
        asked_requirement(f"kip447 | config:{name} has a", gates)
    with serving({"default": features}) as url:
        response = requests.get(f"{url}/v1/clusters/default/check?require=config:log.dirs%20has%20a", timeout=BOUND)
    assert response.status_code == 400


def decision(*reasons: Reason) -> Decision:
    return Decision(verdict="closed", requirement="x", reasons=reasons, cluster_id="c", epoch=1)


@pytest.mark.parametrize(("over", "more"), [(0, {}), (1, {"more_reasons": 1})])
def test_the_reasons_of_an_answer_are_limited(over: int, more: dict[str, int]) -> None:
    reasons = [Reason("x", node, "b:9092", "closed", "lacks") for node in range(MOST_REASONS + over)]
    content: dict[str, Any] = requests.compat.json.loads(decision_json(decision(*reasons, *reasons)))
    assert len(content["reasons"]) == MOST_REASONS
    assert {key: content[key] for key in content.keys() & {"more_reasons"}} == more


def test_calls_that_wait_for_a_cluster_are_limited() -> None:
    """A call that waits ends with its request, and makes room."""

    async def many() -> int:
        worker, may_end = ClusterThread(most=2), threading.Event()
        first = asyncio.ensure_future(worker.run(lambda: may_end.wait(BOUND)))
        second = asyncio.ensure_future(worker.run(lambda: 2))
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused, match="2 requests wait for this cluster") as refused:
            await worker.run(lambda: 3)
        second.cancel()
        await asyncio.wait([second])
        third = asyncio.ensure_future(worker.run(lambda: 3))
        may_end.set()
        assert await first
        assert await third == 3
        worker.close()
        return refused.value.status

    assert asyncio.run(many()) == 503
