"""One broker that writes its request log in three patterns at once, and what a run counts of each."""

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from fleet_clients import ask, copy_one_record

from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.live, pytest.mark.timeout(900), pytest.mark.proof("fleet")]

PATTERNS: Final = {
    "1": "[%d] %p %m (%c)%n",  # Kafka's own
    "2": "%d{ISO8601} %p %m (%c) [%t]%n",  # Strimzi up to 0.45
    "3": "%d{yyyy-MM-dd HH:mm:ss} %-5p [%t] %c{1}:%L - %m%n",  # Strimzi from 0.46 on
    "4": "%d{dd/MM/yy HH:mm:ss} %p %m%n",  # with --layout
}
IN_CRI: Final = {"5": "1", "6": "2", "7": "3"}
"""Which of the others each of these has within the lines of a container runtime."""
SPLIT: Final = 16_384
REQUESTS: Final = {(3, 1): 7, (2, 1): 5}
"""How often the client sends each version of each API."""
TOPICS: Final = 300


def log4j2(folder: Path) -> str:
    lines = ["status=error", "rootLogger.level=WARN", "logger.r.name=kafka.request.logger", "logger.r.level=DEBUG"]
    for broker, pattern in PATTERNS.items():
        appender = {"type": "File", "name": broker, "fileName": folder / broker / "request.log"}
        appender |= {"layout.type": "PatternLayout", "layout.pattern": pattern}
        lines += [f"appender.f{broker}.{name}={value}" for name, value in appender.items()]
        lines.append(f"rootLogger.appenderRef.f{broker}.ref={broker}")
    return "\n".join([*lines, ""])


def serve(folder: Path, config: Path) -> None:
    """Start a broker, and send it the requests of some clients, with lines that a runtime splits."""
    config.write_text(log4j2(folder))
    topics = [struct.pack(">h", 100) + f"{number:0100}".encode() + struct.pack(">i", 0) for number in range(TOPICS)]
    bodies = {3: struct.pack(">i", -1), 2: struct.pack(">ii", -1, TOPICS) + b"".join(topics)}
    options = [f"-Dlog4j2.configurationFile={config}"]
    with LocalKafka("4.2.0", jvm_options=options) as kafka:
        copy_one_record(kafka)
        node = kafka.node(1)
        sent = [(key, version, bodies[key]) for (key, version), count in REQUESTS.items() for _ in range(count)]
        for request in sent:
            assert ask(node.host, node.port, request) != [b""]
        assert not any(ask(node.host, node.port, (3, 99, struct.pack(">i", 0))))
        kafka.stop(1)


def in_cri(text: str) -> str:
    return "".join(
        f"2026-11-22T21:08:02.254123456Z stdout {'F' if at + SPLIT >= len(line) else 'P'} {line[at : at + SPLIT]}\n"
        for line in text.splitlines()
        for at in range(0, max(len(line), 1), SPLIT)
    )


@pytest.mark.usefixtures("jvm")
def test_what_clients_did_is_counted_in_each_pattern(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As often as in Kafka's own pattern, also in the files of a container runtime, and with a refused request."""
    logs = tmp_path / "logs"
    for broker in (*PATTERNS, *IN_CRI):
        (logs / broker).mkdir(parents=True)
    serve(logs, tmp_path / "log4j2.properties")
    for broker, inner in IN_CRI.items():
        (logs / broker / "0.log").write_text(in_cri((logs / inner / "request.log").read_text()))
    assert " stdout P " in (logs / "5" / "0.log").read_text()

    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    layout = ["--layout", "%d/%m/%y %H:%M:%S"]
    assert main(["fleet", "run", "--once", "--logs", str(logs), *layout, *place]) == 0, capsys.readouterr().err
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        rows = [row.asDict() for row in table.rows("usage").collect()]
        hours = table.rows("hour").where("not asked").select("broker", "hour", "level").distinct().collect()
        missing = table.rows("quarantine").where("reason not in ('no-request', 'empty')").collect()
    assert missing == []
    counts = {broker: usage_of(broker, rows) for broker in (*PATTERNS, *IN_CRI)}
    own = {key: count for key, count in counts["1"].items() if key[1] == "ancient"}
    assert own == {("completed", "ancient", *request): count for request, count in REQUESTS.items()}
    assert [key[2:] for key in counts["1"] if key[0] == "refused"] == [(3, 99)]
    assert all(of_broker == counts["1"] for of_broker in counts.values())
    seen = {
        json.dumps(sorted([str(row["hour"]), row["level"]] for row in hours if row["broker"] == one)) for one in counts
    }
    assert len(seen) == 1


def usage_of(broker: str, rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if row["broker"] == broker:
            found[row["outcome"], row["client_id"], row["api_key"], row["version"]] += row["count"]
    return found
