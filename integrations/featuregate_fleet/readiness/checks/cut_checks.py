"""The check of requests whose lines were cut: the heads of these are evidence that can block, and never ok. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from featuregate_fleet.readiness.api_ranges import API_VERSIONS, ServedApis
from featuregate_fleet.readiness.checks.api_checks import client_row, grouped, judge, who_and_when
from featuregate_fleet.readiness.checks.coverage_checks import UNREADABLE
from featuregate_fleet.readiness.checks.newest_served import NewestServed
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Evidence

_WHOLE_LINES: Final = (
    "Collect whole lines: container runtimes split them at 16 kB, and 'featuregate fleet run' joins the parts if "
    "it has all of them."
)


def cut_requests(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check each client of which lines were cut. A client whose lines are all long has no other ones.

    The line has no principal, so that a client id is one client here. Nodes have client ids of their own.
    """
    since, nodes = evidence.since, {usage.client_id for usage in evidence.node_usage}
    completed = [usage for usage in evidence.usage if usage.outcome == "completed"]
    newest = NewestServed.of(evidence, completed, apis)
    cut = [usage for usage in evidence.cut if since is None or usage.last_seen >= since]
    of_clients = [usage for usage in cut if apis.among_nodes or usage.client_id not in nodes]
    for client_id, lines in grouped(of_clients, lambda usage: usage.client_id or ""):
        whole = [usage for usage in completed if (usage.client_id or "") == client_id]
        negotiates = bool(client_id) and any(
            usage.software_name or usage.api_key == API_VERSIONS for usage in (*whole, *lines)
        )
        software = ", ".join(sorted({usage.software for usage in whole} - {""})) or None
        concerned = [usage for usage in lines if apis.concerns(usage.api_key)]
        for key, of_api in grouped(concerned, lambda usage: usage.api_key):
            for verdict, same in grouped(of_api, partial(judge, apis, newest, negotiates)):
                if verdict is not Verdict.OK:
                    yield client_row(apis, key, same, verdict, software)
        if concerned:
            lost, read = (sum(usage.count for usage in each) for each in (lines, whole))
            yield Row(
                check="cut-requests",
                verdict=Verdict.UNKNOWN if lost > UNREADABLE * (lost + read) else Verdict.WARN,
                subject=f"client {client_id!r}" if client_id else "a client without an id",
                why=f"{lost} of {lost + read} lines of this client id were cut: only their heads are known.",
                do=_WHOLE_LINES,
                **who_and_when(lines),
            )
