"""What an exit code means, and the error that carries one."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BROKEN_PIPE",
    "FAILED",
    "FOLLOW_KAFKA_FEATURES",
    "INTERNAL",
    "INTERRUPTED",
    "IO_ERROR",
    "OK",
    "UNKNOWN",
    "USAGE",
    "CommandError",
]

OK: Final = 0
"""It was done; for ``check``: open; for ``doctor``: nothing is wrong."""
FAILED: Final = 1
"""For ``check``: closed; for ``doctor``: an error was found; for commands of kafka-features: it failed."""
UNKNOWN: Final = 2
"""Nobody answered, or too few to tell; for ``doctor``: warnings, but no error."""
USAGE: Final = 64
"""The command line, the configuration or the requirement is wrong: nothing was asked (``EX_USAGE`` of sysexits.h)."""
INTERNAL: Final = 70
"""A bug of ours (``EX_SOFTWARE``)."""
IO_ERROR: Final = 74
"""The output could not be written, as on a full disk (``EX_IOERR``)."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells number it; ``watch`` ends with 0 instead, because that is how it is meant to end."""
BROKEN_PIPE: Final = 141
"""Whoever read the output has gone, as in ``featuregate matrix | head -1``."""

FOLLOW_KAFKA_FEATURES: Final = frozenset(
    {
        "describe",
        "upgrade",
        "downgrade",
        "disable",
        "version-mapping",
        "feature-dependencies",
        "upgrade-all",
        "downgrade-all",
    }
)
"""Commands that know one way to fail, 1, because kafka-features does and scripts count on it."""


class CommandError(Exception):
    """A command cannot go on. Its text is the one line on standard error."""

    def __init__(self, problem: str, exit_code: int = USAGE) -> None:
        super().__init__(problem, exit_code)
        self.problem = problem
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.problem
