"""The installed scripts: each runs its command in a process of its own, which starts and ends fast."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Final

_ALLOCATIONS: Final = 50_000
"""Objects between two collections. With Python's 700, an eighth of the time of a short command is spent on collecting
the modules that it has just loaded, and again when the process ends. A command that runs on is collected still."""


def featuregate() -> int:
    """Run the command ``featuregate`` and return its exit code."""
    return _run("featuregate.cli.app")


def kafka_features() -> int:
    """Run the drop-in for ``kafka-features`` and return its exit code."""
    return _run("featuregate.cli.kafka_features.command")


def _run(module: str) -> int:
    gc.set_threshold(_ALLOCATIONS)
    try:
        exit_code: int = import_module(module).main()
        return exit_code
    finally:
        gc.freeze()  # what lives now ends with the process
