"""A Celery worker whose tasks use a gate. Each process that the worker forks polls by itself.

Run it: ``KAFKA=localhost:9092 celery --app celery_tasks worker`` in this folder, with CELERY_BROKER_URL of yours
"""

from __future__ import annotations

import os

from celery import Celery

import featuregate as fg

app = Celery("orders")
features = fg.Discoverer(os.environ.get("KAFKA", "localhost:9092"), interval=60)
new_groups = features.gate("new-groups", fg.presets.kip848)


@app.task
def protocol() -> str:
    """Say which group protocol to use now; the first task waits for the first poll."""
    new_groups.wait(timeout=10)
    return "consumer" if new_groups.open else "classic"
