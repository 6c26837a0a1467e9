"""What a cluster may be named in the tables: folders and files of locks have that name, too."""

from __future__ import annotations

import re
from typing import Final

from featuregate.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def check_cluster_name(text: str) -> str:
    """Return the name, or raise `ConfigError` where it cannot be one."""
    if not _NAME.fullmatch(text):
        raise ConfigError("cluster", f"{text!r} is not a name: use letters, digits, '-', '_' and '.'")
    return text
