"""The runbook of a rehearsal."""

import json
import re
from copy import deepcopy
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from chromium import chromium

from featuregate.rehearsal.runbook import (
    EXIT_CODES,
    ReachedHop,
    RehearsalStep,
    Runbook,
    StepCounts,
    StepFinding,
    Verdict,
)

ROLL = RehearsalStep(
    name="Node 1: 3.9.2 -> 4.2.0",
    commands=["# on node 1: stop Kafka 3.9.2, install 4.2.0, start it", "kafka-topics.sh --describe"],
    go_on_when="the command prints nothing",
    way_back="start it with 3.9.2 again",
    seconds=7.4,
    findings=[StepFinding("warn", "a default changed")],
    seen=["3 values are new"],
    counts=StepCounts(40, 39, 1, 2, 3.25),
    back=StepFinding("ok", "the way back was tried"),
)
REACHED = ReachedHop("4.2.0", {"metadata.version": 29}, 2)
PAGE = """\
# 3.9.2 -> 4.2.0: block

Each step was carried out on a small cluster. `$BOOTSTRAP` has addresses of your brokers.

What the small cluster does not have of yours:

- its load

## 1. Node 1: 3.9.2 -> 4.2.0: warn

```console
# on node 1: stop Kafka 3.9.2, install 4.2.0, start it
$ kafka-topics.sh --describe
```

- **warn**: a default changed
- seen: 3 values are new
- records: 40 in, 39 out, 1 lost, 2 doubled; longest pause 3.2 s
- took: 7 s
- go on when: the command prints nothing
- way back: start it with 3.9.2 again
- **ok**: the way back was tried

## 2. <b>: block

```console
```

- **block**: said
- took: 0 s
- go on when: never
- way back: none

**The rehearsal ended here: <b>: said**
"""


def step(verdict: Verdict, text: str = "said") -> RehearsalStep:
    return RehearsalStep(
        name="<b>", commands=[], go_on_when="never", way_back="none", findings=[StepFinding(verdict, text)]
    )


def runbook(*verdicts: Verdict, whole: bool = False) -> Runbook:
    steps = [deepcopy(ROLL), *map(step, verdicts)]
    reached = REACHED if whole else None
    return Runbook(releases=("3.9.2", "4.2.0"), not_copied=("its load",), steps=steps, reached=reached)


@pytest.mark.parametrize(
    ("verdicts", "whole", "expected"),
    [
        ((), True, ("warn", 0)),
        (("ok", "unknown"), True, ("unknown", 3)),
        (("block", "ok"), True, ("block", 1)),
        (("ok",), False, ("unknown", 3)),
        (("block",), False, ("block", 1)),
    ],
)
def test_the_worst_finding_is_the_verdict(
    verdicts: tuple[Verdict, ...], *, whole: bool, expected: tuple[Verdict, int]
) -> None:
    """A rehearsal that did not reach its end is never ok."""
    verdict = runbook(*verdicts, whole=whole).verdict
    assert (verdict, EXIT_CODES[verdict]) == expected


def test_the_page_has_each_step_with_what_was_seen_and_where_it_ended() -> None:
    ended = runbook("block")
    ended.ended = "<b>: said"
    assert ended.to_markdown() == PAGE


def test_a_text_of_an_app_or_a_broker_is_one_line_that_steers_no_terminal() -> None:
    """An app prints what a client sent to it, and a cluster has names of groups."""
    told = runbook("block")
    lines = told.to_markdown().count("\n")
    told.steps[0] = replace(ROLL, findings=[StepFinding("warn", "a\x1b[2J\n## 2. all is well: ok")])
    text = told.to_markdown()
    assert "a\\x1b[2J\\x0a## 2. all is well: ok" in text
    assert "\x1b" not in text + told.to_html()
    assert text.count("\n") == lines


def test_programs_read_the_same() -> None:
    found = json.loads(json.dumps(runbook("block").to_json()))
    assert (found["verdict"], found["whole"], found["not_copied"]) == ("block", False, ["its load"])
    first, second = found["steps"]
    assert (first["verdict"], first["findings"]) == ("warn", [{"verdict": "warn", "text": "a default changed"}])
    assert first["counts"] == {"sent": 40, "out": 39, "lost": 1, "doubled": 2, "pause": 3.25}
    assert second["counts"] is None


def test_the_html_page_has_a_bar_for_each_step_and_each_pause() -> None:
    """Texts of brokers and apps are no markup, and all that the other page has is below."""
    ended = runbook("block")
    ended.ended = "<b>: said"
    page = BeautifulSoup(ended.to_html(), "html.parser")
    bars = page.select("svg rect")
    assert [bar.title.string if bar.title else None for bar in bars] == ["Node 1: 3.9.2 -> 4.2.0", None, "<b>"]
    assert page.h1.string == "3.9.2 -> 4.2.0: block"
    plain = re.sub(r"```.*\n|\*\*|^## ", "", PAGE, flags=re.MULTILINE)
    assert f"# {page.h1.string}\n\n{page.pre.text}\n" == plain
    assert [each.string for each in page.select("pre b")][1:4] == ["warn", "ok", "2. <b>: block"]


@pytest.mark.proof("testing")
@pytest.mark.slow
def test_everybody_can_read_the_html_page(tmp_path: Path) -> None:
    """On a screen and on a phone, light and dark, also where a line of an app has no spaces."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core").Axe()
    told = runbook("ok", "unknown", "block")
    told.ended = "1 of 5 records did not come out"
    told.steps[1] = step("warn", "x" * 300)
    file = tmp_path / "page.html"
    file.write_text(told.to_html())
    with chromium() as browser:
        for width, scheme in product((1440, 390), ("light", "dark")):
            page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True)
            page.goto(file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            found = axe.run(page).response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ({}, True),
        ({"whole": True}, False),
        ({"releases": ["3.9.2", "4.2.0"]}, False),
        ({"conditions": "with another app"}, False),
        ({"reached": None}, False),
        ({"reached": {"release": "3.9.2", "levels": {}, "steps": 2}}, False),
    ],
    ids=[
        "of the same move",
        "that was whole",
        "of another move",
        "with another app",
        "that reached nothing",
        "with ZooKeeper",
    ],
)
def test_a_second_start_goes_on_after_the_last_hop_of_a_rehearsal(change: dict[str, object], *, goes_on: bool) -> None:
    """Steps after that hop are carried out again."""
    ended = Runbook(releases=("3.9.2", "4.2.0", "4.3.1"), steps=[ROLL, step("ok"), step("block")], reached=REACHED)
    again = Runbook(releases=ended.releases)
    again.go_on_from({**json.loads(json.dumps(ended.to_json())), **change})
    assert again.steps == (ended.steps[:2] if goes_on else [])
    assert again.reached == (REACHED if goes_on else None)
