"""What monitoring reads of a relay: metrics, and a readiness that looks at the age of answers."""

import asyncio
import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from apps_in_process import call
from doc_pages import ROOT
from prometheus_client.parser import text_string_to_metric_families

import featuregate as fg
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app

BOUND = 60.0
PAGE = ROOT / "docs/how-to/run-a-relay.md"


def metrics(app) -> dict[tuple[str, ...], float]:
    status, headers, body = asyncio.run(call(app, "/metrics"))
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    samples = [each for family in text_string_to_metric_families(body.decode()) for each in family.samples]
    return {(each.name, each.labels.pop("cluster"), *each.labels.values()): each.value for each in samples}


def test_metrics_have_clusters_brokers_and_gates_as_labels() -> None:
    """A number that is not known yet is left out."""
    features = StaticFeatures(release_view("4.2"))
    gate = features.gate('a "gate"\\', fg.presets.kip848)
    app = make_app({"default": PolledCluster(features, (gate,)), "late": PolledCluster(StaticFeatures())})
    found = metrics(app)
    assert found["featuregate_relay_up", "default"] == 1
    assert found["featuregate_relay_up", "late"] == 0
    assert found["featuregate_relay_epoch", "late"] == -1
    assert found["featuregate_relay_gate_open", "default", 'a "gate"\\'] == 1
    assert found["featuregate_relay_gate_state", "default", 'a "gate"\\', "open"] == 1
    assert found["featuregate_relay_gate_state", "default", 'a "gate"\\', "held"] == 0
    assert found["featuregate_relay_status", "late", "starting"] == 1
    assert found["featuregate_relay_requests_waiting", "default"] == 0
    assert ("featuregate_relay_polls_total", "default") in found
    assert ("featuregate_relay_view_age_seconds", "late") not in found


def test_the_page_names_each_metric_with_its_labels() -> None:
    """And no label for a client: ten thousand of them would be ten thousand time series."""
    features = StaticFeatures(release_view("4.2"))
    app = make_app({"default": PolledCluster(features, (features.gate("groups", fg.presets.kip848),))})
    asyncio.run(call(app, "/v1/clusters/default/view", {"User-Agent": "app"}))
    _, _, body = asyncio.run(call(app, "/metrics"))
    samples = [each for family in text_string_to_metric_families(body.decode()) for each in family.samples]
    rows = re.findall(r"^\| (`featuregate_relay_.+?) \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    told = {name: set(re.findall(r"\w+", labels)) for names, labels in rows for name in re.findall(r"\w+", names)}
    assert {each.name: set(each.labels) for each in samples} == told


def test_a_broker_that_does_not_answer_is_one_of_the_metrics() -> None:
    with FakeCluster(2) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0) as features:
        features.refresh(BOUND)
        brokers.broker(2).stop()
        features.refresh(BOUND)
        found = metrics(make_app({"default": PolledCluster(features)}))
    assert found["featuregate_relay_broker_answered", "default", "1"] == 1
    assert found["featuregate_relay_broker_answered", "default", "2"] == 0
    assert found["featuregate_relay_polls_total", "default"] > 0


def test_a_probe_can_ask_for_answers_of_an_age() -> None:
    """Without that, a relay stays ready when its brokers are gone."""
    now = [0.0]
    with FakeCluster(1) as brokers, fg.Discoverer(brokers.bootstrap, interval=3600.0, clock=lambda: now[0]) as features:
        features.refresh(BOUND)
        app = make_app({"default": PolledCluster(features)})
        now[0] = 61.0

        def ready(query: str) -> int:
            return asyncio.run(call(app, f"/readyz{query}"))[0]

        assert [ready(""), ready("?max-age=61"), ready("?max-age=60")] == [200, 200, 503]


def test_readiness_says_since_when_a_cluster_is_as_it_is_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time stays while the status does. A relay whose brokers are away is ready, and serves their last view."""
    now = [0.0]
    times = iter(datetime(2026, 11, 23, hour, tzinfo=UTC) for hour in range(24))
    monkeypatch.setattr("featuregate_relay.clusters.datetime", SimpleNamespace(now=lambda _: next(times)))
    with (
        FakeCluster(1) as brokers,
        fg.Discoverer(brokers.bootstrap, interval=3600.0, stale_after=60.0, clock=lambda: now[0]) as features,
    ):
        app = make_app({"default": PolledCluster(features)})

        def ready() -> tuple[int, str, str, str | None]:
            status, _, body = asyncio.run(call(app, "/readyz"))
            health = json.loads(body)["clusters"]["default"]
            return status, health["status"], health["since"], health["last_error"]

        features.refresh(BOUND)
        assert [ready(), ready()] == [(200, "ok", "2026-11-23T00:00:00+00:00", None)] * 2
        brokers.broker(1).stop()
        now[0] = 600.0
        with pytest.raises(fg.errors.DiscoveryError):
            features.refresh(BOUND)
        for _ in range(2):
            *said, why = ready()
            assert said == [200, "stale", "2026-11-23T01:00:00+00:00"]
            assert "refused" in str(why)
        status, headers, _ = asyncio.run(call(app, "/v1/clusters/default/view"))
        assert (status, float(headers["featuregate-age"])) == (200, 600.0)
        brokers.broker(1).start()
        features.refresh(BOUND)
        assert ready()[:3] == (200, "ok", "2026-11-23T02:00:00+00:00")
