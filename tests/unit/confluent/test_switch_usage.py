"""The switch reports its gate, by a producer that takes no part in its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waiting import eventually

from featuregate.usage.report import UsageReport
from featuregate_confluent import ProducerSwitch
from featuregate_librdkafka.usage_topic import SOFTWARE

if TYPE_CHECKING:
    from mock_kafka import MockKafka

TOPIC = "featuregate-usage"
BOUND = 60.0


def test_the_switch_reports_its_gate_under_the_id_of_the_app(kafka: MockKafka) -> None:
    """Operators see which apps have moved to v2. The last report says that the process ends."""
    base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    switch = ProducerSwitch(
        consumer={**base, "group.id": "billing"},
        producer=base,
        topics=["orders"],
        app_id="billing",
        instance_id="billing-0",
        usage_topic=TOPIC,
    )
    try:
        eventually(lambda: switch.health()["usage"]["sent"], "a report", BOUND)
    finally:
        switch.close()
    eventually(lambda: switch.health()["usage"]["sent"] >= 2, "the last report", BOUND)
    assert switch.health()["usage"]["failed"] == 0
    reports = [UsageReport.from_json(value or b"") for value in kafka.values(TOPIC, 2)]
    assert {report.reporter for report in reports} == {("billing", "billing-0", *SOFTWARE)}
    assert {gate.name for report in reports for gate in report.gates} == {"kip447"}
    assert {report.closing for report in reports} == {False, True}


def test_the_switch_reports_nothing_by_default(kafka: MockKafka) -> None:
    """The topic is the app's to name."""
    base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    switch = ProducerSwitch(
        consumer={**base, "group.id": "billing"}, producer=base, topics=["orders"], app_id="billing"
    )
    try:
        assert switch.health()["usage"] is None
    finally:
        switch.close()
