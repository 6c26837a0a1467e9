"""A processor that cannot begin says why."""

from __future__ import annotations

import pytest

from featuregate_confluent import ExactlyOnceProcessor, SwitchFatal

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
