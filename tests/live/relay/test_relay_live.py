"""A relay over a real broker, in a process of its own, and a discoverer that has only its URL."""

import subprocess
import sys

import pytest
import requests
from event_source import listening
from waiting import BOUND, eventually, line_with

import featuregate as fg
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_a_gate_opens_through_a_relay_over_a_real_broker(kafka: LocalKafka) -> None:
    """The command serves what the brokers say, and a latched gate outlives the relay."""
    command = [sys.executable, "-m", "featuregate", "serve", "--bootstrap-server", kafka.bootstrap]
    with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stderr is not None
            url = line_with(relay.stderr, "serving ").split()[-1].removesuffix("/v1/clusters/default/view")
            eventually(lambda: requests.get(f"{url}/readyz", timeout=BOUND).status_code == 200)
            with listening(f"{url}/v1/clusters/default/events") as events:
                assert next(event for event in events if event.kind == "view").data["cluster_id"] == kafka.cluster_id
            with fg.Discoverer(source=fg.HttpSource(url), interval=1, stale_after=3) as features:
                sticky = features.gate("sticky", fg.presets.kip848)
                live = features.gate("live", fg.presets.kip848, policy="live")
                assert sticky.wait(BOUND)
                assert live.wait(BOUND)
                assert features.view is not None
                assert features.view.cluster_id == kafka.cluster_id
                relay.terminate()
                assert relay.wait(BOUND) == 0
                eventually(lambda: not live.open, "the view is stale")
                assert sticky.open
                assert features.health()["status"] == "stale"
        finally:
            relay.kill()
