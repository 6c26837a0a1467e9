"""The error for credentials that are missing, which an app that lists every broker does not need."""

from __future__ import annotations

from featuregate.errors import ConfigError


class MissingCredentials(ConfigError):
    """No usable credentials; an app that lists every broker needs none."""
