"""A FastAPI service with the health of its gates at /kafka/healthz and /kafka/readyz, and their metrics at /metrics.

Run it: ``KAFKA=localhost:9092 uvicorn fastapi_app:app --app-dir examples/health``
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import REGISTRY, make_asgi_app

import featuregate as fg
from featuregate.health import asgi_app
from featuregate_metrics.prometheus import FeatureCollector


def service(features: fg.Discoverer) -> FastAPI:
    """Return the service; tests give it a `StaticFeatures`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Poll in a task of the service's loop."""
        async with features:
            app.state.new_groups = features.gate("new-groups", fg.presets.kip848)
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/kafka", asgi_app(features))
    app.mount("/metrics", make_asgi_app())

    @app.get("/protocol")
    async def protocol() -> dict[str, str]:
        """Say which group protocol to use now. The check is one attribute read."""
        is_open = app.state.new_groups.open
        return {"group.protocol": "consumer" if is_open else "classic"}

    return app


features = fg.Discoverer(
    os.environ.get("KAFKA", "localhost:9092"),
    latch_store=os.environ.get("LATCHES"),  # a folder, which workers may share
)
REGISTRY.register(FeatureCollector(features))
app = service(features)
