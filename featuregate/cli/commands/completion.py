"""``completion``: a script that completes the options in a shell. shtab writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.cli.arguments import build_parser, every_plugin
from featuregate.cli.exit_codes import OK, CommandError

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print the script for one shell."""
    try:
        import shtab  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError("completion needs shtab: pip install 'featuregate[cli]'") from None
    print(shtab.complete(build_parser(every_plugin()), args.shell))
    return OK
