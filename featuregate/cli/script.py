"""The installed script: it runs its command in a process of its own, which starts and ends fast.

The command is imported inside the guard against Ctrl-C, and before it as little as possible.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

_ALLOCATIONS = 50_000
"""Objects between two collections. With Python's 700, an eighth of the time of a short command is spent on collecting
the modules that it has just loaded, and again when the process ends. A command that runs on is collected still."""

_OVERWRITTEN = (
    "featuregate: another distribution has overwritten the package featuregate, as featuregate-sdk does: "
    "uninstall that, and install featuregate again"
)


def featuregate() -> int:
    """Run the command ``featuregate`` and return its exit code."""
    gc.set_threshold(_ALLOCATIONS)
    if not hasattr(import_module("featuregate"), "before_forks"):
        raise SystemExit(_OVERWRITTEN)
    try:
        exit_code: int = import_module("featuregate.cli.app").main()
    except KeyboardInterrupt:  # while modules are imported
        exit_code = import_module("featuregate.cli.exit_codes").INTERRUPTED
    finally:
        gc.freeze()  # what lives now ends with the process
    _end(exit_code)
    return exit_code


def _end(exit_code: int) -> None:
    """End the process at once where no module waits for its end: to take modules apart takes a short command 3 ms."""
    if "atexit" in sys.modules or None in {sys.stdout, sys.stderr}:
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(exit_code)
