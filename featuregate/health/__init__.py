"""Show the health of a discoverer to those who ask a process from outside: probes, load balancers and people.

- `featuregate.health.asgi` and `featuregate.health.wsgi` are apps that a web framework mounts;
- `featuregate.health.file` is for processes that serve no HTTP: they write a file, and ``featuregate health`` reads it.
"""

from __future__ import annotations

from featuregate.health.asgi import asgi_app
from featuregate.health.file import write_health
from featuregate.health.wsgi import wsgi_app

__all__ = ["asgi_app", "write_health", "wsgi_app"]
