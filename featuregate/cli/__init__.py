"""The command line ``featuregate``: one file for each command; each is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: see `featuregate.cli.app`."""
    from featuregate.cli.app import main as run  # noqa: PLC0415 - the drop-in stands here too, and starts without it

    return run(argv)
