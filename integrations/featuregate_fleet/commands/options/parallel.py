"""How many clusters of ``--config`` are read or judged at a time."""

from __future__ import annotations

import argparse
from typing import Final

_CLUSTERS: Final = 4
_MOST: Final = 64


def add_parallel_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--parallel``."""
    parser.add_argument(
        "--parallel",
        metavar="N",
        type=_number,
        default=_CLUSTERS,
        help=f"with --config, N clusters at a time (default: {_CLUSTERS})",
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _MOST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of clusters: take 1 to {_MOST}")
    return int(text)
