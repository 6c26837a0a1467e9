"""A Django service with the health of its gates at /kafka/healthz and /kafka/readyz.

Run it: ``KAFKA=localhost:9092 python examples/health/django_urls.py runserver --noreload``
"""

from __future__ import annotations

import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import featuregate as fg
from featuregate.health import wsgi_app

if not settings.configured:  # the settings of a project of your own
    settings.configure(
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["localhost"],
        WSGI_APPLICATION=f"{__name__}.application",
    )
    django.setup()

features = fg.Discoverer(os.environ.get("KAFKA", "localhost:9092"), interval=60)
# Starts to poll, in each forked worker by itself.
new_groups = features.gate("new-groups", fg.presets.kip848)


def protocol(_: HttpRequest) -> JsonResponse:
    """Say which group protocol the service would use now."""
    protocol = "consumer" if new_groups.open else "classic"
    return JsonResponse({"group.protocol": protocol})


urlpatterns = [path("protocol", protocol)]
health = {"/kafka": wsgi_app(features)}
application = DispatcherMiddleware(get_wsgi_application(), health)

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
