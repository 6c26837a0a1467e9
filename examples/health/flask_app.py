"""A Flask service with the health of its gates at /kafka/healthz and /kafka/readyz.

Run it: ``KAFKA=localhost:9092 flask --app examples/health/flask_app run``
"""

from __future__ import annotations

import os

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import featuregate as fg
from featuregate.health import wsgi_app

features = fg.Discoverer(os.environ.get("KAFKA", "localhost:9092"), interval=60)
new_groups = features.gate("new-groups", fg.presets.kip848)  # starts to poll, in each forked worker anew

app = Flask(__name__)
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/kafka": wsgi_app(features)})  # type: ignore[method-assign]


@app.get("/protocol")
def protocol() -> dict[str, str]:
    """Say which group protocol the service would use now."""
    return {"group.protocol": "consumer" if new_groups.open else "classic"}
