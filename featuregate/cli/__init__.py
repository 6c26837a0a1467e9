"""The command line ``featuregate``: one module for each command, imported when the command runs."""

from __future__ import annotations

TYPE_CHECKING = False  # as in featuregate
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: see `featuregate.cli.app`."""
    from featuregate.cli.app import main as run  # noqa: PLC0415 - the package is imported before the guard against Ctrl-C

    return run(argv)
