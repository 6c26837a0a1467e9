"""A Flask service with the health of its gates at /kafka/healthz and /kafka/readyz, and their metrics at /metrics.

Run it: ``KAFKA=localhost:9092 flask --app examples/health/flask_app run``
"""

from __future__ import annotations

import os

from flask import Flask
from prometheus_client import REGISTRY, make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import featuregate as fg
from featuregate import GateClosed
from featuregate.health import wsgi_app
from featuregate_metrics.prometheus import FeatureCollector

features = fg.Discoverer(os.environ.get("KAFKA", "localhost:9092"), interval=60)
# Starts to poll, in each forked worker by itself.
new_groups = features.gate("new-groups", fg.presets.kip848)
inbox = features.gate("inbox", fg.presets.kip932)
REGISTRY.register(FeatureCollector(features))

app = Flask(__name__)
beside = {"/kafka": wsgi_app(features), "/metrics": make_wsgi_app()}
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, beside)  # type: ignore[method-assign]


@app.get("/protocol")
def protocol() -> dict[str, str]:
    """Say which group protocol the service would use now."""
    return {"group.protocol": "consumer" if new_groups.open else "classic"}


@app.get("/inbox")
@inbox.guard
def receive() -> dict[str, str]:
    """Do what share groups are needed for."""
    return {"read.by": "a share group"}


@app.errorhandler(GateClosed)
def not_yet(error: GateClosed) -> tuple[dict[str, str], int]:
    """Say what the cluster lacks, to whoever asks for what it cannot do yet."""
    return {"gate": error.gate, "decision": error.decision.summary}, 503
