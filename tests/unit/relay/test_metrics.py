"""What monitoring reads of a relay: metrics, and a readiness that looks at the age of answers."""

from __future__ import annotations

import asyncio
import re

import pytest
from apps_in_process import call

import featuregate as fg
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.app import Cluster, make_app

BOUND = 60.0
SAMPLE = re.compile(r'featuregate_relay_\w+\{(?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+\} -?[\d.e+-]+')


def metrics(app) -> list[str]:
    status, headers, body = asyncio.run(call(app, "/metrics"))
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return body.decode().splitlines()


def test_metrics_have_clusters_brokers_and_gates_as_labels() -> None:
    """Each is a line that Prometheus reads, below its type."""
    features = StaticFeatures(release_view("4.2"))
    gate = features.gate('a "gate"\\', fg.presets.kip848)
    app = make_app({"default": Cluster(features, (gate,)), "late": Cluster(StaticFeatures())})
    lines = metrics(app)
    assert 'featuregate_relay_up{cluster="default"} 1' in lines
    assert 'featuregate_relay_up{cluster="late"} 0' in lines
    assert 'featuregate_relay_epoch{cluster="late"} -1' in lines
    assert 'featuregate_relay_gate_open{cluster="default",gate="a \\"gate\\"\\\\"} 1' in lines
    assert 'featuregate_relay_requests_waiting{cluster="default"} 0' in lines
    assert "# TYPE featuregate_relay_polls_total counter" in lines
    assert not any('view_age_seconds{cluster="late"}' in line for line in lines)
    assert [line for line in lines if not line.startswith("#") and not SAMPLE.fullmatch(line)] == []


def test_a_broker_that_does_not_answer_is_one_of_the_metrics() -> None:
    """By its id."""
    with FakeCluster(2) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0) as features:
        features.refresh(BOUND)
        brokers.broker(2).stop()
        features.refresh(BOUND)
        lines = metrics(make_app({"default": Cluster(features)}))
    assert 'featuregate_relay_broker_answered{cluster="default",broker="1"} 1' in lines
    assert 'featuregate_relay_broker_answered{cluster="default",broker="2"} 0' in lines
    assert 'featuregate_relay_polls_total{cluster="default"} 0' not in lines


def test_a_probe_can_ask_for_answers_of_an_age() -> None:
    """Without that, a relay stays ready when its brokers are gone."""
    now = [0.0]
    with FakeCluster(1) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0, clock=lambda: now[0]) as features:
        features.refresh(BOUND)
        app = make_app({"default": Cluster(features)})
        now[0] = 61.0

        def ready(query: str) -> int:
            return asyncio.run(call(app, f"/readyz{query}"))[0]

        assert [ready(""), ready("?max-age=61"), ready("?max-age=60")] == [200, 200, 503]


@pytest.mark.parametrize("age", ["", "-1", "old", "1.5"])
def test_an_age_that_is_no_number_of_seconds_is_refused(age: str) -> None:
    """A probe that is written wrongly must not be green."""
    app = make_app({"default": Cluster(StaticFeatures(release_view("4.2")))})
    assert asyncio.run(call(app, f"/readyz?max-age={age}"))[0] == 400
