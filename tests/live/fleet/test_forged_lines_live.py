"""What a client of a broker before 2.8 can write into its log, and what comes of it."""

import shutil
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet_clients import ask
from fleet_lines import document, line_of

from featuregate.catalog import captured
from featuregate.testing import LocalKafka
from featuregate_fleet.readiness.evidence import Evidence
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.readiness.rows import Verdict
from featuregate_fleet.runs.ingestion import Ingestion, Inputs
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

LIST_OFFSETS_0 = (2, 0, struct.pack(">ii", -1, 0))
"""Of a consumer, for no topics. Brokers from 4.0 on do not serve it."""
HEAD = "[2026-11-22 21:08:39,958]"
TAIL = (
    ", correlationId=1) -- {},response:{} from connection 10.9.8.7:1-10.9.8.7:2-0;totalTime:1.0,requestQueueTime:0.1,"
    "securityProtocol:PLAINTEXT,principal:User:victim,listener:PLAINTEXT"
)
JSON = line_of(document(requestApiKey=2, requestApiVersion=0, clientId="in-json", principal="User:victim"))
TEXT = f"{HEAD} DEBUG Completed request:RequestHeader(apiKey=LIST_OFFSETS, apiVersion=0, clientId=as-text{TAIL}"
REFUSAL = (
    f"{HEAD} ERROR Closing socket for 10.9.8.7:1-10.9.8.7:2-0 because of error (kafka.network.Processor)\n"
    "org.apache.kafka.common.errors.InvalidRequestException: Error getting request for apiKey: LIST_OFFSETS, "
    "apiVersion: 0, connectionId: 10.9.8.7:1-10.9.8.7:2-0, listenerName: PLAINTEXT, principal: User:victim"
)
FORGED = (f"a\n{JSON}\nb", f"a\n{TEXT}\nb", f"a\n{REFUSAL}\nb")
HIDDEN = f"as-text{TAIL}\nb"
"""The line of its own request looks like one of another client."""


@pytest.mark.usefixtures("jvm")
def test_invariant_11_what_a_client_writes_into_a_log_makes_no_move_ok(tmp_path: Path) -> None:
    """2.4.1 logs client ids as they are: what follows a line break in one is a line of the log. No such line counts."""
    found = evidence_of(tmp_path, *FORGED, HIDDEN)
    forged = {(usage.client_id, usage.outcome) for usage in found.usage if usage.principal == "User:victim"}
    assert forged == {("in-json", "completed"), (None, "refused")}, "the client wrote lines as newer brokers do"
    assert found.quarantined["1", "text-log"] >= 2 * len(FORGED) + 1, "a head and a tail of each, and none is evidence"
    assert found.cut == ()
    for release in ("2.8", list(captured())[-1]):
        report = assess(found, ToRelease(captured()[release]), datetime.now(UTC), timedelta(days=9999))
        (doubtful,) = [row for row in report.rows if row.subject == "log of broker 1"]
        assert doubtful.verdict is Verdict.UNKNOWN
        assert "Any client can write such lines in the name of others" in doubtful.why
        assert report.verdict in {Verdict.UNKNOWN, Verdict.BLOCK}


def evidence_of(folder: Path, *client_ids: str) -> Evidence:
    """Return what the tables say of the log of a broker that was asked by clients with these ids."""
    (folder / "logs" / "1").mkdir(parents=True)
    with LocalKafka("2.4.1", log_levels={"kafka.request.logger": "DEBUG"}) as kafka:
        node = kafka.node(1)
        for client_id in client_ids:
            assert ask(node.host, node.port, LIST_OFFSETS_0, client_id=client_id.encode()) != [b""]
        kafka.stop(1)
        shutil.copy(node.log, folder / "logs" / "1" / "server.log")
    with local_session() as spark:
        table = EvidenceTable(spark, folder / "tables", "c")
        Ingestion(spark, table, Inputs(cluster="c", logs=folder / "logs"), print).read(None)
        return read_evidence(table)
