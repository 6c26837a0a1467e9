"""The exit codes, and the error that carries one."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Done; for ``check``: open; for ``doctor``: nothing is wrong."""
FAILED: Final = 1
"""For ``check``: closed; for ``doctor``: an error was found; for the commands of kafka-features: any failure."""
UNKNOWN: Final = 2
"""No broker answered, or too few of them; for ``doctor``: warnings, but no error."""
USAGE: Final = 64
"""The command line, the configuration or the requirement is not valid; nothing was asked (``EX_USAGE``, sysexits.h)."""
INTERNAL: Final = 70
"""A bug of featuregate (``EX_SOFTWARE``)."""
IO_ERROR: Final = 74
"""The output could not be written, as on a full disk (``EX_IOERR``)."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells number it; ``watch`` ends with 0 instead, because Ctrl-C is how it is stopped."""
BROKEN_PIPE: Final = 141
"""The reader of the output has gone, as in ``featuregate matrix | head -1``."""

FOLLOW_KAFKA_FEATURES: Final = frozenset({"describe", "upgrade", "downgrade", "disable", "update"})
"""Commands that fail with 1 only, because scripts expect that of kafka-features."""


class CommandError(Exception):
    """A command fails. Its text is the one line on standard error."""

    def __init__(self, problem: str, exit_code: int = USAGE) -> None:
        super().__init__(problem, exit_code)
        self.problem = problem
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.problem


def usage_error(message: str, command: str) -> CommandError:
    """Return the error for an argument list that is not valid, in the words and with the exit code of the command."""
    ended = message if message.endswith("?") else f"{message}."
    return CommandError(f"{ended} Type --help for help.", FAILED if command in FOLLOW_KAFKA_FEATURES else USAGE)
