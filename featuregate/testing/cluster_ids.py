"""Random cluster ids."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from uuid import uuid4


def random_cluster_id() -> str:
    """Return a cluster id like Kafka's (``Uuid.randomUuid``): 16 bytes in 22 characters, without a leading hyphen."""
    while (text := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
