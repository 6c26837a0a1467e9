"""What a program does with the answer to a question about a move."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate.printable import printable
from featuregate_fleet.errors import NotReady
from featuregate_fleet.evidence.columns import FINDING
from featuregate_fleet.page.report_page import to_html
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from featuregate_fleet.metrics.verdicts import MetricsReport
    from featuregate_fleet.readiness.report import Report

_SHOWN = 3
"""Findings in the text of an error."""


class FleetReport:
    """Whether a move of a cluster is safe, and why."""

    def __init__(self, spark: SparkSession, cluster: str, report: Report, metrics: MetricsReport | None = None) -> None:
        self._spark = spark
        self._metrics = metrics
        self.cluster = cluster
        """The name of the cluster in the tables."""
        self.report = report

    @property
    def verdict(self) -> Verdict:
        """``ok``, ``warn``, ``stale``, ``unknown`` or ``block``: the worst of the findings."""
        return self.report.verdict

    @property
    def findings(self) -> tuple[Row, ...]:
        """What was checked, the worst first."""
        return self.report.rows

    @property
    def coverage(self) -> dict[str, Any]:
        """What the verdict rests on: the hours that each broker logged, what is missing, the version of the table."""
        found: dict[str, Any] = self.to_json()["coverage"]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``featuregate readiness --output json`` prints."""
        found = self.report.to_json()
        if self._metrics:
            found["coverage"]["metrics"] = json.loads(json.dumps(self._metrics.coverage, default=datetime.isoformat))
            found["no_metric_shows"] = list(self.blind_spots)
        return found

    @property
    def blind_spots(self) -> tuple[str, ...]:
        """What no metric shows; empty where no metrics are kept."""
        return self._metrics.blind_spots if self._metrics else ()

    def to_df(self) -> DataFrame:
        """Return the findings as a DataFrame with the columns of `featuregate_fleet.evidence.columns.FINDING`."""
        report = self.report
        asked = {
            "taken_at": report.now,
            "move": report.move.KIND,
            "target": report.move.target,
            "since": report.evidence.since,
            "evidence": json.dumps({"version": report.evidence.version}),
            "report": str(report.verdict),
        }
        found = [{**asdict(row), **asked, "verdict": str(row.verdict)} for row in report.rows]
        rows = [tuple(row[name] for name in FINDING.names) for row in found]
        return self._spark.createDataFrame(rows, from_arrow_schema(FINDING))

    def html(self) -> str:
        """Return the report as one page of HTML, for example for ``displayHTML``."""
        return to_html(self.report, self.cluster)

    def raise_for_verdict(self) -> None:
        """Raise unless the verdict is ``ok`` or ``warn``, so that a job ends before the move.

        Raises
        ------
        NotReady
            The verdict is ``block``, ``unknown`` or ``stale``.
        """
        if self.verdict in (Verdict.OK, Verdict.WARN):
            return
        why = [f"{row.subject}: {row.why}" for row in self.findings if row.verdict is self.verdict]
        more = f" (and {len(why) - _SHOWN} more)" if len(why) > _SHOWN else ""
        raise NotReady(
            f"{self.cluster} {self.report.move.title}: {self.verdict}. {' '.join(why[:_SHOWN])}{more}".rstrip()
        )

    def __str__(self) -> str:
        """Return what is not ok, and what to do: a line for each."""
        found = [row for row in self.findings if row.verdict is not Verdict.OK]
        todo = dict.fromkeys(row.do for row in found if row.do)
        lines = [f"{row.verdict}: {row.subject}: {row.said}" for row in found]
        return "\n".join(
            [f"{self.cluster} {self.report.move.title}: {self.verdict}", *map(printable, lines), *map(printable, todo)]
        )

    def _repr_html_(self) -> str:
        """Return the page for a notebook, in a frame: the styles of both stay apart."""
        return f'<iframe srcdoc="{escape(self.html())}" style="width: 100%; height: 45em; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<FleetReport of {self.cluster}, {self.report.move.title}: {self.verdict}>"
