"""``--evidence`` of ``featuregate plan``, ``upgrade`` and others: what the tables say of new finalized levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate.cli.plugin import CommandError, EvidenceFinding, EvidenceVerdict, GateOpens
from featuregate.errors import ConfigError
from featuregate_fleet.files.storage import on_s3, reached, storage_path
from featuregate_fleet.readiness.checks.gate_checks import downgrade_order, gate_openings
from featuregate_fleet.readiness.checks.level_checks import PREDICTIONS
from featuregate_fleet.readiness.hours import STALE_AFTER
from featuregate_fleet.readiness.moves import Finalize
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.readiness.rows import Verdict, worst, worst_first
from featuregate_fleet.tables.table_names import CATALOG

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.admin.updates import Update
    from featuregate_fleet.readiness.evidence import Evidence


def check_updates(
    evidence: str, cluster: str, updates: Sequence[Update], *, cluster_id: str | None, reports_expected: bool
) -> EvidenceVerdict:
    """Check each update as ``featuregate readiness --finalize`` does.

    Raises CommandError, TablesBroken, WrongSpark.
    """
    place: Path | str = evidence
    if not evidence.startswith(CATALOG):
        place = reached("--evidence", storage_path("--evidence", evidence))
        if not place.is_dir():
            raise CommandError(f"--evidence {place}: there is no such folder of tables")
    from featuregate_fleet.runs.session import local_session  # noqa: PLC0415 - Spark
    from featuregate_fleet.tables.evidence_table import existing_table  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.reader import read_evidence  # noqa: PLC0415 - likewise

    with local_session(topics=False, s3=on_s3(place)) as spark:
        try:
            table = existing_table(spark, place, cluster)
        except ConfigError as error:
            option = "--evidence-cluster" if error.key == "cluster" else "--evidence"
            raise CommandError(f"{option} {error.problem}") from error
        found = read_evidence(table)
    check_cluster(found, cluster, cluster_id)
    return verdict_on(replace(found, reports_expected=reports_expected), updates, datetime.now(UTC))


def check_cluster(evidence: Evidence, cluster: str, cluster_id: str | None) -> None:
    """Refuse the evidence of another cluster. Evidence without a view has no id, and its verdict is unknown anyway.

    Raises CommandError (the cluster that ``fleet run`` has asked has another id).
    """
    of_evidence = evidence.view.cluster_id if evidence.view else None
    if None not in {of_evidence, cluster_id} and of_evidence != cluster_id:
        raise CommandError(
            f"--evidence-cluster {cluster}: this evidence is of the cluster with the id {of_evidence}, and the brokers "
            f"belong to {cluster_id}: give the name under which 'featuregate fleet run' has read this cluster"
        )


def verdict_on(evidence: Evidence, updates: Sequence[Update], now: datetime) -> EvidenceVerdict:
    """Return the verdict on updates that are made together.

    What the controller would say of one of several updates is left out: it looks at all of them, and the commands ask
    it themselves.
    """
    moves = [Finalize(each.feature, each.level) for each in updates]
    # The command asks the brokers and the controller itself, so levels need not be of the last hour.
    reports = [assess(evidence, move, now, STALE_AFTER, levels_stale_after=STALE_AFTER) for move in moves]
    together = len(updates) > 1 and evidence.view is not None
    rows = dict.fromkeys(row for one in reports for row in one.rows if not (together and row.check == PREDICTIONS))
    verdict = worst(row.verdict for row in rows) if rows or not together else Verdict.OK
    findings = tuple(
        EvidenceFinding(row.verdict.value, row.subject, row.said, row.do)
        for row in sorted(rows, key=worst_first)
        if row.verdict is not Verdict.OK
    )
    opens = tuple(GateOpens(*opening) for move in moves for opening in gate_openings(evidence, move))
    return EvidenceVerdict(verdict.value, findings, opens, tuple(downgrade_order(evidence, moves)))
