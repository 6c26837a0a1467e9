"""The switch of a client that must not use certain API versions."""

from contextlib import closing
from typing import Any

import pytest
from waiting import eventually

from featuregate.errors import ConfigError
from featuregate.testing import FakeCluster
from featuregate_confluent import ProducerSwitch


def options(cluster: FakeCluster) -> dict[str, Any]:
    client = {"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "log_level": 0}
    return {"consumer": client, "producer": client, "topics": ["orders"], "app_id": "billing"}


def test_the_gate_of_the_switch_does_not_count_them(fake_kafka: FakeCluster) -> None:
    """The switch stays in the old model and says why, although every broker has what the new model needs."""
    with closing(ProducerSwitch(**options(fake_kafka), exclude_apis="TxnOffsetCommit=3-")) as switch:
        eventually(lambda: "are excluded by configuration" in switch.health()["gate_why"], "the decision names them")
        assert switch.health()["gate"] is False


def test_what_does_not_parse_is_refused(fake_kafka: FakeCluster) -> None:
    """The switch checks the option before it starts anything."""
    with pytest.raises(ConfigError, match=r"^exclude_apis: part 1 of 1 names no known API"):
        ProducerSwitch(**options(fake_kafka), exclude_apis="TxnOfsetCommit")
