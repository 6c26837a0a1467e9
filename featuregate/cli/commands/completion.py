"""``completion``: a completion script for a shell, written by shtab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.cli.arguments.parser import all_plugins, build_parser
from featuregate.cli.exit_codes import OK, CommandError
from featuregate.version import how_to_install

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError(f"completion needs shtab: {how_to_install('cli')}") from None
    print(shtab.complete(build_parser(all_plugins()), args.shell))
    return OK
