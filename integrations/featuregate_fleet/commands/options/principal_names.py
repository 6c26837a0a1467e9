"""``--hash-principals``: the key, and the check that one cluster's tables have the hashes of one key alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import UNKNOWN, CommandError
from featuregate.files import local_path
from featuregate_fleet.evidence.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    import argparse

_OF_ENVIRONMENT: Final = "env:"
_SHORTEST: Final = 16
_CLEAR: Final = "clear"
_PROBE: Final = "featuregate fleet"


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
        return local_path("--hash-principals", where).read_bytes()
    except OSError as error:
        raise CommandError(f"--hash-principals {where}: the key cannot be read: {error.strerror}") from error


def check_names(args: argparse.Namespace, names: Pseudonyms | None) -> None:
    """Refuse another key than that of the first run, and names in the clear beside hashes: they would not add up."""
    before, said = _before(args), _said(names)
    if before is not None and before != said:
        raise CommandError(f"--tables {args.tables}: the principals of {args.cluster} are {_problem(before, said)}")


def keep_names(args: argparse.Namespace, names: Pseudonyms | None) -> None:
    """Check the key, and keep for later runs which one it is. The key itself is not kept."""
    check_names(args, names)
    mark, half = _mark(args), Path(args.tables, f".{args.cluster}.names.half")
    try:
        half.write_text(_said(names), encoding="utf-8")
        half.replace(mark)  # a full disk must not leave an empty mark, which no later key would match
    except OSError as error:
        raise CommandError(f"--tables {args.tables} cannot be written: {error.strerror}", UNKNOWN) from error


def _mark(args: argparse.Namespace) -> Path:
    return Path(args.tables, f".{args.cluster}.names")


def _before(args: argparse.Namespace) -> str | None:
    """Return what the last run has kept; an older release hashed nothing."""
    if _mark(args).exists():
        return _mark(args).read_text(encoding="utf-8")
    return _CLEAR if Path(args.tables, "_checkpoints", args.cluster).exists() else None


def _said(names: Pseudonyms | None) -> str:
    return names.of(_PROBE) if names else _CLEAR


def _problem(before: str, said: str) -> str:
    if before == _CLEAR:
        return "in the clear: give another folder of --tables, or no --hash-principals"
    if said == _CLEAR:
        return "hashed: give their key by --hash-principals"
    return "hashed by another key: give that key, or another folder of --tables"
