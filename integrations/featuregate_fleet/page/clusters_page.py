"""The verdicts on several clusters as one HTML page: a card for each, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate_fleet.page.rendering import ENVIRONMENT

if TYPE_CHECKING:
    from featuregate_fleet.readiness.summary import FleetSummary


def to_html(summary: FleetSummary) -> str:
    """Return the page. Text from the network is escaped."""
    return ENVIRONMENT.get_template("clusters.html").render(summary=summary)
