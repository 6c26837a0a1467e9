"""The verdicts on several clusters: the worst first, on a terminal, as JSON and as one page."""

import json

from fleet_report import NOW, TARGET, fleet
from page_tags import Tags

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.page.rendering import clusters_page
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.rows import Verdict
from featuregate_fleet.readiness.summary import FleetSummary, summarized

FAILURE = TablesBroken("the tables cannot be read: <b>No space left</b>")


def three() -> FleetSummary:
    """Summarize a cluster that blocks, one without evidence of a broker, and one that cannot be read."""
    found = {"quiet": fleet(2, old=0, silent=1), "old": fleet(3, old=2), "broken": FAILURE}
    return summarized(found, ToRelease(TARGET), NOW)


def test_the_worst_cluster_is_first():
    """A cluster that cannot be read stands before those of which evidence is missing, and after those that block."""
    summary = three()
    assert [each.cluster for each in summary.clusters] == ["old", "broken", "quiet"]
    assert [each.verdict for each in summary.clusters] == [Verdict.BLOCK, Verdict.UNKNOWN, Verdict.UNKNOWN]
    assert summary.verdict is Verdict.BLOCK
    assert summary.failed == ("broken",)


def test_a_row_says_why():
    """By its first finding with that verdict, and how many more there are."""
    old, broken, _ = three().clusters
    assert old.why.startswith("client 'client-")
    assert old.why.endswith(f"(and {old.counts[Verdict.BLOCK] - 1} more)")
    assert broken.why == str(FAILURE)


def test_the_document_has_no_findings_but_their_number():
    """200 clusters fit into one document."""
    found = json.loads(json.dumps(three().to_json()))
    assert found["verdict"] == "block"
    assert found["move"] == {"kind": "to", "target": "4.2"}
    assert [each["failure"] for each in found["clusters"]] == [None, str(FAILURE), None]
    assert found["clusters"][0]["findings"]["block"] > 0
    assert found["clusters"][0]["last_seen"] is not None


def test_the_page_has_a_card_for_each_cluster():
    """What a store says of its failure is text, and no markup."""
    page = clusters_page(three())
    tags = Tags(page)
    cards = [attributes for tag, attributes in tags.seen if tag == "li" and attributes.get("class")]
    assert [card["class"] for card in cards] == ["block", "unknown", "unknown"]
    assert "<b>No space left</b>" not in page
    assert "broken: failed" in tags.text
    assert not {"script", "link", "img"} & {tag for tag, _ in tags.seen}
