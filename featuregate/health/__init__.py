"""Show the health of a discoverer to those who ask a process from outside: probes, load balancers and people.

- `featuregate.health.responses` has the apps that a web framework mounts, for ASGI and WSGI;
- `featuregate.health.file` is for processes that serve no HTTP: they write a file, and ``featuregate health`` reads it.
"""

from __future__ import annotations

from featuregate.health.file import write_health
from featuregate.health.responses import asgi_app, wsgi_app

__all__ = ["asgi_app", "write_health", "wsgi_app"]
