"""A processor that cannot begin says why."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from waiting import eventually

from featuregate.testing import StaticFeatures
from featuregate_confluent import ExactlyOnceProcessor, SwitchFatal

if TYPE_CHECKING:
    from pathlib import Path

    from mock_kafka import MockKafka

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def test_a_property_that_the_client_refuses_is_named() -> None:
    """The loop ends at once with SwitchFatal, and the processor has failed."""
    processor = ExactlyOnceProcessor(
        consumer={**NOWHERE, "group.id": "billing", "nonsense": "1"},
        producer=NOWHERE,
        topics=["orders"],
        app_id="billing",
        instance_id="billing-0",
        transform=lambda _messages: [],
    )
    with pytest.raises(SwitchFatal, match='No such configuration property: "nonsense"'):
        processor.run()
    health = processor.health()
    assert health["status"] == "failed"
    assert "nonsense" in health["error"]


FORKED = """
import multiprocessing, sys
from featuregate_confluent import ExactlyOnceProcessor, SwitchFatal

nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
processor = ExactlyOnceProcessor(
    consumer={**nowhere, "group.id": "g"}, producer=nowhere, topics=["t"], app_id="a", state_dir=sys.argv[1],
    transform=lambda messages: [],
)

def child():
    with processor:
        processor.run()

forked = multiprocessing.get_context("fork").Process(target=child)
forked.start()
forked.join(60)
print(forked.exitcode)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_processor_that_was_made_before_a_fork_says_so(tmp_path: Path) -> None:
    """It does not wait for the threads of its parent, neither to run nor to close."""
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "1\n", ended.stderr
    assert "SwitchFatal: this switch was made in another process" in ended.stderr


def test_an_input_topic_that_does_not_exist_is_said(kafka: MockKafka) -> None:
    """The member would start for ever; it waits, names the topic, and begins once it is there."""
    base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    processor = ExactlyOnceProcessor(
        consumer={**base, "group.id": "billing", "topic.metadata.refresh.interval.ms": 500},
        producer=base,
        topics=["^orders$"],
        app_id="billing",
        features=StaticFeatures(),
        group_interval=0.1,
        transform=lambda _messages: [],
    )
    thread = threading.Thread(target=processor.run)
    thread.start()
    try:
        eventually(lambda: processor.health()["status"] == "waiting", "it says so")
        assert "no topic that this user may describe matches '^orders$'" in processor.health()["why"]
        kafka.create_topic("orders")
        eventually(lambda: processor.health()["status"] == "ok", "it has begun")
        assert "orders" not in processor.health()["why"]
    finally:
        processor.close()
        thread.join()
