"""``--hash-principals``: the key."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError
from featuregate_fleet.evidence.pseudonyms import Pseudonyms
from featuregate_fleet.files.storage import reached, storage_path

if TYPE_CHECKING:
    import argparse

_OF_ENVIRONMENT: Final = "env:"
_SHORTEST: Final = 16


def add_hash_option(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add ``--hash-principals``."""
    parser.add_argument("--hash-principals", metavar="FILE|env:NAME", help=summary)


def pseudonyms(args: argparse.Namespace) -> Pseudonyms | None:
    """Return the hashes of the key that the option names; None without the option."""
    where: str | None = args.hash_principals
    if where is None:
        return None
    key = _key(where).strip()
    if len(key) < _SHORTEST:
        raise CommandError(
            f"--hash-principals {where}: the key has fewer than {_SHORTEST} bytes: make one by 'openssl rand -hex 32'"
        )
    return Pseudonyms(key)


def _key(where: str) -> bytes:
    if where.startswith(_OF_ENVIRONMENT):
        return os.environ.get(where.removeprefix(_OF_ENVIRONMENT), "").encode()
    try:
        return reached("--hash-principals", storage_path("--hash-principals", where)).read_bytes()
    except OSError as error:
        raise CommandError(f"--hash-principals {where}: the key cannot be read: {error.strerror}") from error
